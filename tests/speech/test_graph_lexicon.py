"""L: the phones of words."""

from __future__ import annotations

import math

import pytest

from bochner.speech.graph import lexicon_fst
from bochner.speech.kaldi import kaldifst
from bochner.speech.lexicon import Lexicon

LEXICON = Lexicon({"no": [("n", "o")], "know": [("n", "o")], "on": [("o", "n"), ("a", "n")]})


def words_of(fst, phones, lexicon):
    """All (words, cost) that L gives for phones."""
    ids = {phone: number for number, phone in enumerate(lexicon.phones, start=1)}
    acceptor = kaldifst.make_linear_acceptor([ids[phone] for phone in phones])
    both = kaldifst.StdVectorFst(kaldifst.compose(acceptor, sorted_by_phone(fst)))
    paths = kaldifst.convert_nbest_to_vector(kaldifst.shortest_path(both, n=20))
    found = [kaldifst.get_linear_symbol_sequence(path) for path in paths]
    return {(tuple(lexicon.words[i - 1] for i in labels), round(weight.value, 4)) for _, _, labels, weight in found}


def sorted_by_phone(fst):
    kaldifst.arcsort(fst, "ilabel")
    return fst


def test_silence_is_optional_before_between_and_after():
    fst = lexicon_fst(LEXICON, disambiguate=False, silence_probability=0.2)
    on, off = -math.log(0.2), -math.log(0.8)
    assert words_of(fst, ["o", "n"], LEXICON) == {(("on",), round(2 * off, 4))}
    assert words_of(fst, ["SIL", "a", "n"], LEXICON) == {(("on",), round(on + off, 4))}
    assert words_of(fst, ["SIL", "o", "n", "SIL", "o", "n", "SIL"], LEXICON) == {(("on", "on"), round(3 * on, 4))}
    assert words_of(fst, ["SIL", "SIL", "o", "n"], LEXICON) == set()


def test_homophones_are_both_there():
    fst = lexicon_fst(LEXICON, disambiguate=False)
    assert {words for words, _ in words_of(fst, ["n", "o"], LEXICON)} == {("no",), ("know",)}


def test_without_silence_phone_words_follow_each_other_at_no_cost():
    plain = Lexicon(LEXICON.entries, silence=None)
    fst = lexicon_fst(plain, disambiguate=False)
    assert words_of(fst, ["o", "n", "a", "n"], plain) == {(("on", "on"), 0.0)}


def test_disambiguated_it_can_be_determinised():
    """Equal input labels never lead to different words: every input sequence has one output."""
    fst = lexicon_fst(LEXICON)
    kaldifst.determinize_star(fst)
    for state in range(fst.num_states):
        labels = [arc.ilabel for arc in kaldifst.ArcIterator(fst, state)]
        assert len(set(labels)) == len(labels)
        assert 0 not in labels


def test_phones_of_the_model_give_the_labels():
    fst = lexicon_fst(Lexicon({"a": [("x",)]}, silence=None), phones=["u", "v", "x"], disambiguate=False)
    assert {arc.ilabel for state in range(fst.num_states) for arc in kaldifst.ArcIterator(fst, state)} == {0, 3}


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="phones must be known to the model, but SIL, a, n, o are not"):
        lexicon_fst(LEXICON, phones=["x"])
    with pytest.raises(ValueError, match=r"silence_probability must lie between 0 and 1, got 1\.0"):
        lexicon_fst(LEXICON, silence_probability=1.0)


def test_a_pronunciation_costs_its_probability_relative_to_the_best_of_its_word():
    """ "on" was counted seven times as o n and never as a n: 8/9 and 1/9."""
    lexicon = LEXICON.with_counts({("on", ("o", "n")): 7})
    assert lexicon.probabilities["on", ("a", "n")] == pytest.approx(1 / 9)
    assert lexicon.probabilities["no", ("n", "o")] == 1.0
    plain, fst = (lexicon_fst(given, disambiguate=False) for given in (LEXICON, lexicon))
    for phones, cost in ((["o", "n"], 0.0), (["a", "n"], math.log(8)), (["n", "o"], 0.0)):
        (before, *_), (after, *_) = (sorted(words_of(given, phones, lexicon)) for given in (plain, fst))
        assert after == (before[0], pytest.approx(before[1] + cost, abs=1e-3))


def test_probabilities_of_unknown_pronunciations_are_refused():
    with pytest.raises(ValueError, match=r"probabilities must be .* got 0.5 for 'on' as n"):
        Lexicon(LEXICON.entries, probabilities={("on", ("n",)): 0.5})
    with pytest.raises(ValueError, match=r"got 0.0 for 'on' as o n"):
        Lexicon(LEXICON.entries, probabilities={("on", ("o", "n")): 0.0})
