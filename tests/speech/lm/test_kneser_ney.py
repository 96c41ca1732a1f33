"""Modified Kneser-Ney: against lmplz's own files, a naive oracle, and the sum of all probabilities."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from bochner.speech.lm import estimate, read_arpa, write_arpa
from tests.speech.lm.oracles import back_off, discounts_of, kneser_ney, table

HERE = Path(__file__).parent
FALLBACK = (0.5, 1.0, 1.5)
RHYME = (HERE / "jack.txt").read_text().splitlines()


def zipf_text(*, seed: int, num_sentences: int = 60, num_words: int = 30) -> list[str]:
    generator = np.random.default_rng(seed)
    share = 1 / np.arange(1, num_words + 1)
    lengths = generator.integers(0, 7, size=num_sentences)
    return [" ".join(f"w{i}" for i in generator.choice(num_words, size=n, p=share / share.sum())) for n in lengths]


END = ["this is the end"] * 3  # its last n-grams come more often than their left neighbours differ


@pytest.mark.parametrize(
    ("name", "text", "order", "prune"),
    [
        ("jack_2", RHYME, 2, (0,)),
        ("jack_3", RHYME, 3, (0,)),
        ("jack_4", RHYME, 4, (0,)),
        ("jack_3_pruned", RHYME, 3, (0, 1, 4)),
        ("jack_4_with_an_end", RHYME + END, 4, (0,)),
    ],
)
def test_equals_lmplz(name, text, order, prune):
    """The files are what `lmplz -o N --discount_fallback [--prune 0 1 4]` (KenLM 0.3.0) wrote for these texts."""
    ours = table(estimate(text, order=order, prune=prune, fallback_discounts=FALLBACK))
    theirs = table(read_arpa(HERE / f"{name}.arpa"))
    assert ours.keys() == theirs.keys()
    for gram, numbers in theirs.items():
        assert ours[gram] == pytest.approx(numbers, abs=2e-6), gram


@pytest.fixture
def fixed_discounts(monkeypatch):
    """The oracle takes the discounts as given; their estimation is tested separately."""
    monkeypatch.setattr(
        "bochner.speech.lm.kneser_ney._discounts", lambda adjusted, order, fallback: np.array([0.0, *fallback])
    )


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_equals_the_definition(order, fixed_discounts):
    text = zipf_text(seed=order)
    found = table(estimate(text, order=order, fallback_discounts=FALLBACK))
    expected = kneser_ney(text, order, {n: [0.0, *FALLBACK] for n in range(1, order + 1)})
    assert found.keys() - {("<s>",)} == expected.keys()
    for gram, p in expected.items():
        assert found[gram][0] == pytest.approx(np.log10(p), abs=1e-9), gram


def test_discounts_of_the_highest_order_come_from_its_counts_of_counts():
    text = zipf_text(seed=0, num_sentences=300)
    D = discounts_of(text)
    entries = table(estimate(text, order=2, fallback_discounts=FALLBACK))
    expected = kneser_ney(text, 2, {1: _unigram_discounts(text), 2: D})
    assert entries["w0", "w1"][0] == pytest.approx(np.log10(expected["w0", "w1"]), abs=1e-9)


def _unigram_discounts(text):
    """From the numbers of distinct left neighbours."""
    pairs = {pair for line in text for row in [["<s>", *line.split(), "</s>"]] for pair in pairwise(row)}
    neighbours = np.bincount(np.unique([second for _, second in pairs], return_counts=True)[1], minlength=5)
    if not neighbours[1:4].all():
        return [0.0, *FALLBACK]
    n, Y = neighbours, neighbours[1] / (neighbours[1] + 2 * neighbours[2])
    D = [k - (k + 1) * Y * n[k + 1] / n[k] for k in (1, 2, 3)]
    return [0.0, *(D if all(0 <= d <= k for k, d in enumerate(D, start=1)) else FALLBACK)]


@pytest.mark.parametrize(
    ("prune", "vocabulary"),
    [
        ((0,), None),
        ((0, 0, 1), None),
        ((1, 1, 2), None),
        ((0,), ["w0", "w1", "w2", "never"]),
        ((0, 1), ["w1", "never"]),
    ],
)
def test_probabilities_after_any_history_sum_to_one(prune, vocabulary):
    text = zipf_text(seed=7, num_sentences=200)
    model = estimate(text, order=3, prune=prune, vocabulary=vocabulary, fallback_discounts=FALLBACK)
    entries = table(model)
    histories = [gram for gram in entries if len(gram) < 3 and gram[-1] != "</s>"]
    for history in [(), *histories, ("w9", "w9")]:
        total = sum(10 ** back_off(entries, word, history) for word in model.words if word != "<s>")
        assert total == pytest.approx(1.0, abs=1e-9), history


def test_a_given_vocabulary_is_the_models_vocabulary():
    model = estimate(["a b x", "a"], order=2, vocabulary=["a", "b", "c"], fallback_discounts=FALLBACK)
    assert set(model.words) == {"<unk>", "<s>", "</s>", "a", "b", "c"}
    entries = table(model)
    assert ("b", "<unk>") in entries  # x
    assert entries["c",][0] < entries["<unk>",][0]  # seen once against never


def test_pruning_keeps_words_and_drops_rare_grams():
    model = estimate(RHYME, order=3, prune=(0, 0, 5), fallback_discounts=FALLBACK)
    whole = estimate(RHYME, order=3, fallback_discounts=FALLBACK)
    assert model.num_grams[:2] == whole.num_grams[:2]
    assert 0 < model.num_grams[2] < whole.num_grams[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"order": 0}, "order must be an integer of at least 1, got 0"),
        ({"order": 2, "prune": (1, 0)}, "prune must be 1 to order=2 numbers that never decrease, got \\(1, 0\\)"),
        ({"order": 2, "prune": (0, 0, 1)}, "prune must be 1 to order=2"),
        ({"order": 2, "prune": (-1,)}, "prune must be an integer of at least 0, got -1"),
        ({"order": 2, "fallback_discounts": (0.5, 1.0)}, "fallback_discounts must be"),
        ({"order": 2, "fallback_discounts": (1.5, 1.0, 1.0)}, "fallback_discounts must be"),
        ({"order": 2}, "no discounts for 1-grams: .* pass fallback_discounts="),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        estimate(["a b", "a"], **arguments)


@pytest.mark.parametrize("vocabulary", [None, ["a"]])
@pytest.mark.parametrize("mark", ["<s>", "</s>"])
def test_sentence_marks_in_the_text_are_an_error_with_its_number(mark, vocabulary):
    with pytest.raises(ValueError, match=f"sentence 2 holds .*{mark}"):
        estimate(["a", f"a {mark} a"], order=1, vocabulary=vocabulary, fallback_discounts=FALLBACK)


def test_no_text_is_an_error():
    with pytest.raises(ValueError, match="at least one sentence"):
        estimate([], order=2, fallback_discounts=FALLBACK)


def test_an_order_may_be_pruned_away(tmp_path):
    model = estimate(RHYME, order=3, prune=(0, 0, 1000), fallback_discounts=FALLBACK)
    assert model.num_grams[2] == 0
    write_arpa(tmp_path / "m", model)
    again = read_arpa(tmp_path / "m")
    entries = table(model)
    for word in ("rat", "the", "</s>"):
        expected = back_off(entries, word, ("this", "is"))
        assert model.log_prob(word, ["this", "is"]) == pytest.approx(expected)
        assert again.log_prob(word, ["this", "is"]) == pytest.approx(expected, abs=1e-6)
