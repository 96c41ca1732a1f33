"""G: the cost of a path along the highest orders is that of the model."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from bochner.speech.graph import grammar_fst
from bochner.speech.kaldi import kaldifst
from bochner.speech.lm import estimate, read_arpa, uniform

RHYME = (Path(__file__).parent / "lm" / "jack.txt").read_text().splitlines()
WORDS = sorted({word for line in RHYME for word in line.split()})
SENTENCES = ["this is the cat", "the cat that jack killed", "jack", "malt malt malt rat the", "all forlorn and"]


def walked(fst, sentence, words):
    """The cost if a word's own arc is followed where there is one, otherwise #0 with its cost."""
    state, cost, mark = fst.start, 0.0, len(words) + 1
    for word in [*(words.index(word) + 1 for word in sentence.split()), None]:
        while True:
            arcs = {arc.ilabel: arc for arc in kaldifst.ArcIterator(fst, state)}
            if word is None and not math.isinf(fst.final(state).value):
                return cost + fst.final(state).value
            arc = arcs[word] if word in arcs else arcs[mark]
            state, cost = arc.nextstate, cost + arc.weight.value
            if arc.ilabel == word:
                break
    raise AssertionError


@pytest.mark.parametrize("prune", [(0,), (0, 0, 5), (0, 3), (0, 0, 1000)])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_a_walk_costs_what_the_model_says(order, prune):
    model = estimate(RHYME, order=order, prune=prune[:order], fallback_discounts=(0.5, 1.0, 1.5))
    fst = grammar_fst(model, words=WORDS)
    for sentence in SENTENCES:
        expected = -math.log(10) * model.score(model.encode([sentence])).sum()
        assert walked(fst, sentence, WORDS) == pytest.approx(expected, abs=1e-4), sentence


def test_a_file_whose_suffixes_are_missing(tmp_path):
    """SRILM prunes each n-gram by itself: `a b c` may stay where `b c` is gone."""
    (tmp_path / "m").write_text(
        "\\data\\\nngram 1=5\nngram 2=2\nngram 3=1\n\n\\1-grams:\n-0.5 </s>\n-99 <s> -0.1\n-0.6 a -0.2\n-0.7 b -0.3\n"
        "-0.8 c -0.4\n\n\\2-grams:\n-0.3 <s> a -0.15\n-0.2 a b -0.25\n\n\\3-grams:\n-0.05 a b c\n\n\\end\\\n"
    )
    model = read_arpa(tmp_path / "m")
    fst = grammar_fst(model, words=["a", "b", "c"])
    for sentence in ("a b c", "a b c a", "a b a", "c"):
        expected = -math.log(10) * model.score(model.encode([sentence])).sum()
        assert walked(fst, sentence, ["a", "b", "c"]) == pytest.approx(expected, abs=1e-4), sentence


def test_words_outside_the_lexicon_are_left_out():
    fst = grammar_fst(uniform(["a", "b", "c"]), words=["b", "z"])
    labels = {arc.ilabel for state in range(fst.num_states) for arc in kaldifst.ArcIterator(fst, state)}
    assert labels == {1}
    assert walked(fst, "b", ["b", "z"]) == pytest.approx(2 * np.log(4), abs=1e-5)


def test_no_common_word_is_an_error():
    with pytest.raises(ValueError, match="no word in common"):
        grammar_fst(uniform(["a"]), words=["b"])
