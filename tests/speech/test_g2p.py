"""Grapheme-to-phoneme conversion: splits compared with enumeration, and the model on an artificial language."""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from bochner.speech.g2p import (
    BEGIN,
    END,
    STEPS,
    G2p,
    Graphone,
    _Paths,
    cut_words,
    split_words,
    train_g2p,
    word_error_rate,
)
from bochner.speech.pretrained import load_model

PHONES = {"a": ("A",), "e": ("E",), "b": ("B",), "k": ("K",), "x": ("K", "S"), "sh": ("SH",), "s": ("S",), "h": ()}


def language(count: int, *, seed: int = 0) -> dict[str, list[tuple[str, ...]]]:
    """Words of syllables in which x has two phones, sh one and a single h none."""
    generator = np.random.default_rng(seed)
    words = {}
    for _ in range(count):
        consonants, vowels = generator.choice(["b", "k", "x", "sh", "h"], 3), generator.choice(["a", "e"], 3)
        pieces = [str(piece) for syllable in zip(consonants, vowels, strict=True) for piece in syllable]
        words["".join(pieces)] = [tuple(phone for piece in pieces for phone in PHONES[piece])]
    return words


def enumerated(word: str, phones: tuple[str, ...]) -> list[tuple[Graphone, ...]]:
    """All splits of a word."""
    if not word and not phones:
        return [()]
    return [
        (Graphone(word[:g], phones[:p]), *rest)
        for g, p in STEPS
        if g <= len(word) and p <= len(phones)
        for rest in enumerated(word[g:], phones[p:])
    ]


def test_one_iteration_is_that_of_enumeration() -> None:
    pairs = [("abc", ("A", "B")), ("ab", ("A", "B")), ("ca", ("K", "A")), ("bc", ("B",))]
    counts: defaultdict[Graphone, float] = defaultdict(float)
    num_graphones = len(
        {
            Graphone(word[i : i + g], phones[j : j + p])
            for word, phones in pairs
            for g, p in STEPS
            for i in range(len(word) - g + 1)
            for j in range(len(phones) - p + 1)
        }
    )
    for word, phones in pairs:
        cuts = enumerated(word, phones)
        weights = [float(num_graphones) ** -len(cut) for cut in cuts]  # equal probabilities at the start
        for cut, weight in zip(cuts, weights, strict=True):
            for graphone in cut:
                counts[graphone] += weight / sum(weights)

    def score(cut: tuple[Graphone, ...]) -> float:
        return float(np.prod([counts[graphone] / sum(counts.values()) for graphone in cut]))

    found = {"".join(graphone.letters for graphone in cut): cut for cut in cut_words(pairs, iterations=1)}
    for word, phones in pairs:
        assert score(found[word]) == pytest.approx(max(map(score, enumerated(word, phones))))


def test_rules_are_learned() -> None:
    g2p = train_g2p(language(300), order=3)
    others = {word: ways for word, ways in language(100, seed=1).items() if word not in language(300)}
    assert len(others) > 50
    assert word_error_rate(g2p, others) < 0.05


def test_a_stored_model_pronounces_alike(tmp_path: Path) -> None:
    g2p = train_g2p(language(200), order=3)
    g2p.save(tmp_path / "g2p.npz")
    again = G2p.load(tmp_path / "g2p.npz")
    assert all(again.pronounce(word) == g2p.pronounce(word) for word in language(30, seed=2))
    (tmp_path / "broken.npz").write_bytes((tmp_path / "g2p.npz").read_bytes()[:200])
    with pytest.raises(ValueError, match=r"broken\.npz"):
        G2p.load(tmp_path / "broken.npz")


def test_paths_have_the_scores_of_the_language_model() -> None:
    """Every path of two tokens and the end, also those of the first n-gram of each order."""
    g2p = train_g2p(language(40), order=3)
    tokens = np.array(sorted(g2p.graphones))
    paths = _Paths.start(3)
    for following in (np.array([BEGIN]), tokens, tokens, np.array([END])):
        paths = g2p._advance(paths, following)
    texts = [" ".join(g2p.model.words[token] for token in cut[1:-1]) for cut in paths.cuts]
    expected = [float(g2p.model.score(g2p.model.encode([text])).sum()) for text in texts]
    assert len(texts) == len(tokens) ** 2
    np.testing.assert_allclose(paths.scores, expected, atol=1e-6)


def test_letters_that_are_not_known_have_no_pronunciation() -> None:
    g2p = train_g2p(language(50), order=2)
    assert g2p.pronounce("bq") is None
    assert g2p.pronounce("") is None
    with pytest.raises(ValueError, match="lexicon"):
        train_g2p({"a": [("A",) * 3]})


def test_words_are_split_without_overlap() -> None:
    entries = language(100)
    known, test = split_words(entries, test_fraction=0.2, seed=0)
    assert len(test) == round(0.2 * len(entries))
    assert known.keys() | test.keys() == entries.keys()
    assert not known.keys() & test.keys()
    with pytest.raises(ValueError, match="test_fraction"):
        split_words(entries, test_fraction=1.0, seed=0)


@pytest.mark.parametrize(("word", "phones"), [("shmish", "SH M IH SH"), ("plimble", "P L IH M B AH L")])
def test_english(word: str, phones: str) -> None:
    assert load_model("en").g2p.pronounce(word) == tuple(phones.split())


def test_all_products_of_steps_are_reachable() -> None:
    """A word of n letters has a cut for every number of phones from 1 to 2 n."""
    pairs = [("abcd"[:n], tuple("ABCDEFGH"[:m])) for n, m in product(range(1, 5), range(1, 9)) if m <= 2 * n]
    assert len(list(cut_words(pairs, iterations=2))) == len(pairs)
