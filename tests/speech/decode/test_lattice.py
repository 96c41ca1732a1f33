"""Lattices: the best sentence is the decoder's, none comes twice, and other weights are exact."""

from __future__ import annotations

import numpy as np
import pytest

from bochner.speech.decode import Search, decode, decode_lattice

WIDE = Search(beam=40.0, lattice_beam=25.0)


@pytest.fixture
def scores(recogniser):
    return recogniser.likelihoods("noon no", height=2.0, noise=1.0, seed=3)


def test_the_best_sentence_is_the_decoders(recogniser, scores):
    best = decode(recogniser.graph, scores, acoustic_weight=0.5, search=WIDE)
    (words, cost), *_ = decode_lattice(recogniser.graph, scores, acoustic_weight=0.5, search=WIDE).nbest(3)
    assert words == best.words
    assert cost == pytest.approx(best.cost, abs=1e-2)


def test_sentences_differ_and_get_dearer(recogniser, scores):
    found = decode_lattice(recogniser.graph, scores, acoustic_weight=0.5, search=WIDE).nbest(30)
    assert len(found) == 30
    assert len({words for words, _ in found}) == 30
    costs = [cost for _, cost in found]
    assert costs == sorted(costs)
    assert costs[0] < costs[-1] <= costs[0] + WIDE.lattice_beam


@pytest.mark.parametrize(("weight", "penalty"), [(0.5, 2.0), (1.0, 0.0), (0.4, -1.0)])
def test_a_lattice_weighted_anew_is_a_new_decode(recogniser, scores, weight, penalty):
    lattice = decode_lattice(recogniser.graph, scores, acoustic_weight=0.5, search=WIDE)
    (words, cost), *_ = lattice.nbest(1, acoustic_weight=weight, word_penalty=penalty)
    again = decode(recogniser.graph.with_word_penalty(penalty), scores, acoustic_weight=weight, search=WIDE)
    assert words == again.words
    assert cost == pytest.approx(again.cost, abs=2e-2)


def test_a_narrow_lattice_holds_few_sentences(recogniser):
    scores = recogniser.likelihoods("noon", height=20.0)
    lattice = decode_lattice(recogniser.graph, scores, acoustic_weight=1.0, search=Search(lattice_beam=0.5))
    assert [words for words, _ in lattice.nbest(5)] == [("noon",)]


def test_wrong_input_is_named(recogniser):
    with pytest.raises(ValueError, match="no frames"):
        decode_lattice(recogniser.graph, np.zeros((0, 18)))
    with pytest.raises(ValueError, match="num_sentences must be an integer of at least 1, got 0"):
        decode_lattice(recogniser.graph, recogniser.likelihoods("no")).nbest(0)
