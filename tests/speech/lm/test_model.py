"""Scores of sentences and perplexity, against the back-off rule followed word by word."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bochner.speech.lm import NgramModel, estimate, perplexity, read_arpa, uniform
from tests.speech.lm.oracles import back_off, sentence_log_prob, table

HERE = Path(__file__).parent
TEXT = ["this is the cat that ate the malt", "", "the priest worried the zebra", "jack jack jack", "rat the this"]


@pytest.mark.parametrize("name", ["jack_2", "jack_3_pruned", "jack_4"])
def test_scores_follow_the_back_off_rule(name):
    model = read_arpa(HERE / f"{name}.arpa")
    entries = table(model)
    text = model.encode(TEXT)
    for i, sentence in enumerate(TEXT):
        own = np.cumsum(text.place == 0) == i + 1
        assert model.score(text)[own].sum() == pytest.approx(sentence_log_prob(entries, sentence, model.order))


def test_log_prob_of_one_word():
    model = read_arpa(HERE / "jack_3.arpa")
    entries = table(model)
    for history in ([], ["the"], ["<s>", "this"], ["the", "rat"], ["a", "long", "way", "in", "the"]):
        known = tuple(word if word in model.ids else "<unk>" for word in history)[-2:]
        assert model.log_prob("cat", history) == pytest.approx(back_off(entries, "cat", known))


def test_perplexity_with_and_without_unknown_words():
    model = read_arpa(HERE / "jack_3.arpa")
    entries = table(model)
    result = perplexity(model, TEXT)
    assert (result.num_sentences, result.num_tokens, result.num_unknown) == (5, 8 + 5 + 3 + 3 + 5, 1)
    total = sum(sentence_log_prob(entries, sentence, 3) for sentence in TEXT)
    assert result.value == pytest.approx(10 ** (-total / 24))
    unknown = back_off(entries, "<unk>", ("worried", "the"))
    assert result.value_without_unknown == pytest.approx(10 ** (-(total - unknown) / 23))


def test_unknown_words_cost_everything_where_there_is_no_unknown_word():
    result = perplexity(uniform(["a", "b"]), ["a c"])
    assert result.value == np.inf
    assert result.value_without_unknown == pytest.approx(3.0)


def test_perplexity_of_the_text_itself_falls_with_the_order():
    rhyme = (HERE / "jack.txt").read_text().splitlines()
    values = [perplexity(estimate(rhyme, order=n, fallback_discounts=(0.5, 1, 1.5)), rhyme).value for n in (1, 2, 3)]
    assert values[0] > 2 * values[1] > 2 * values[2]


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match="at least one sentence"):
        perplexity(uniform(["a"]), [])
    with pytest.raises(ValueError, match="at least one word"):
        uniform([])
    with pytest.raises(ValueError, match="words must begin with"):
        NgramModel(["a"], uniform(["a"]).levels)
