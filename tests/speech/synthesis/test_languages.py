"""Texts: predictable words, and no sentence in two parts."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from bochner.speech.manifest import Segment
from bochner.speech.synthesis.espeak import speak, time_phones
from bochner.speech.synthesis.languages import (
    SENTENCE_SHARES,
    Bengali,
    Cantonese,
    English,
    WordChain,
    _dictionary_phones,
    part_of_sentence,
)


def entropy(counts: Counter) -> float:
    p = np.array(list(counts.values())) / counts.total()
    return float(-(p * np.log2(p)).sum())


def test_a_chain_has_its_frequencies_and_its_habits():
    frequencies = {f"w{k}": 1 / (k + 1) for k in range(200)}
    chain = WordChain(frequencies)
    words = chain.sentence(100_000, np.random.default_rng(0))
    unigram = Counter(words)
    assert unigram["w0"] == max(unigram.values())
    expected = np.array([frequencies[word] for word in chain.words])
    found = np.array([unigram[word] for word in chain.words])
    assert np.corrcoef(expected, found)[0, 1] > 0.95
    given = entropy(Counter(pairwise(words))) - entropy(unigram)
    assert given < entropy(unigram) - 1.0  # the previous word gives at least one bit of information


def test_sentences_are_spread_by_their_shares():
    found = Counter(part_of_sentence((f"w{k}", "x")) for k in range(20_000))
    for part, share in SENTENCE_SHARES.items():
        assert found[part] / 20_000 == pytest.approx(share, abs=0.01)


@pytest.fixture(scope="module", params=[English, Cantonese, Bengali])
def language(request):
    return request.param()


def test_each_sentence_is_synthesised_word_by_word(language):
    generator = np.random.default_rng(5)
    for _ in range(15):
        prompt = language.prompt("train", generator)
        assert part_of_sentence(prompt.tokens) == "train"
        words = time_phones(speak(prompt.engine_text, voice=f"{language.voice}+m3", speed=200))
        phones = language.phones(prompt, words)
        assert len(phones) == len(prompt.tokens)
        assert all(phones)
        assert not any("'" in phone.label or phone.label.startswith("_") for word in phones for phone in word)


def test_parts_draw_from_their_own_sentences(language):
    for part in SENTENCE_SHARES:
        assert part_of_sentence(language.prompt(part, np.random.default_rng(0)).tokens) == part


def segments(*labels: str) -> list[Segment]:
    return [Segment(label, float(k), k + 1.0) for k, label in enumerate(labels)]


def test_links_between_vowels_belong_to_the_phone_before():
    found = _dictionary_phones(["3", "@"], segments("3", "r-", "@"))
    assert found == (Segment("ER", 0.0, 2.0), Segment("AH", 2.0, 3.0))
    assert [p.label for p in _dictionary_phones(["3:", "r", "E"], segments("3:", "r", "E"))] == [
        "ER",
        "R",
        "EH",
    ]
    assert [phone.label for phone in _dictionary_phones(["t", "'i:"], segments("t#", "i"))] == ["T", "IY"]
    for other in (segments("t"), segments("t", "i:", "k")):
        with pytest.raises(ValueError, match="engine produced other phones"):
            _dictionary_phones(["t", "i:"], other)
