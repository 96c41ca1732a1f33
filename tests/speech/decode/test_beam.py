"""The best path: the right words, compared with the best of all paths by dynamic programming, and wrong input."""

from __future__ import annotations

import numpy as np
import pytest

from bochner.speech.decode import NoPathError, Search, decode, log_priors, scaled_likelihoods
from bochner.speech.graph import compose_graph
from bochner.speech.hmm.model import monophone_hmm
from bochner.speech.kaldi import kaldifst
from bochner.speech.lexicon import phone_lexicon
from bochner.speech.lm import estimate, uniform
from tests.speech.decode.made import passed_pdfs, pointing_at


def least_cost(graph, scores, weight):
    """The lowest cost to a final state, by relaxing every arc for every frame."""
    arcs = [
        (s, a.nextstate, a.ilabel, a.weight.value)
        for s in range(graph.fst.num_states)
        for a in kaldifst.ArcIterator(graph.fst, s)
    ]
    source, target, label, cost = (np.array(column) for column in zip(*arcs, strict=True))
    best = np.full(graph.fst.num_states, np.inf)
    best[graph.fst.start] = 0.0
    for frame in range(len(scores) + 1):
        silent = label == 0
        for _ in range(graph.fst.num_states):  # Bellman and Ford over arcs that take no frame
            before = best.copy()
            np.minimum.at(best, target[silent], best[source[silent]] + cost[silent])
            if np.array_equal(before, best):
                break
        if frame < len(scores):
            acoustic = -weight * scores[frame, graph.pdfs[label[~silent] - 1]]
            after = np.full_like(best, np.inf)
            np.minimum.at(after, target[~silent], best[source[~silent]] + cost[~silent] + acoustic)
            best = after
    return min(best[s] + graph.fst.final(s).value for s in range(graph.fst.num_states))


@pytest.mark.parametrize("seed", range(4))
def test_a_wide_beam_finds_the_least_cost_of_all_paths(recogniser, seed):
    scores = recogniser.likelihoods("no moon on", height=2.0, noise=1.5, seed=seed)
    found = decode(recogniser.graph, scores, acoustic_weight=0.7, search=Search(beam=1000.0, max_active=10**6))
    assert found.cost == pytest.approx(least_cost(recogniser.graph, scores.astype(np.float64), 0.7), rel=1e-5)


@pytest.mark.parametrize("sentence", ["no", "on no", "noon moon nun", "no on no on nun"])
@pytest.mark.parametrize("seed", range(3))
def test_peaky_posteriors_give_their_words(recogniser, sentence, seed):
    scores = recogniser.likelihoods(sentence, height=6.0, noise=1.0, seed=seed)
    found = decode(recogniser.graph, scores, acoustic_weight=0.5)
    assert found.words == tuple(sentence.split())
    assert found.complete
    assert len(found.transition_ids) == len(scores)


def test_the_weight_scales_acoustics_alone(recogniser):
    scores = recogniser.likelihoods("noon", height=9.0, noise=0.5)
    one, two = (decode(recogniser.graph, scores, acoustic_weight=weight) for weight in (1.0, 2.0))
    assert two.acoustic_cost == pytest.approx(2 * one.acoustic_cost, rel=1e-5)
    assert two.graph_cost == pytest.approx(one.graph_cost, rel=1e-5)


def test_dividing_by_priors_undoes_what_the_classifier_learnt_of_them(recogniser):
    """Posteriors under skewed priors are wrong as likelihoods and right after the division."""
    clean = recogniser.likelihoods("moon", height=3.0)
    skewed = np.zeros(recogniser.hmm.num_pdfs)
    for phone in ("n", "u", "n"):  # noon, as if it were the only word in training
        skewed[3 * (recogniser.hmm.phone_ids[phone] - 1) + np.arange(3)] = 6.0
    biased = clean + skewed
    assert decode(recogniser.graph, biased, acoustic_weight=1.0).words != ("moon",)
    restored = scaled_likelihoods(biased, skewed)
    assert decode(recogniser.graph, restored, acoustic_weight=1.0).words == ("moon",)


def test_phone_loop_and_phone_bigram():
    phones = ("SIL", "a", "b", "c")
    hmm = monophone_hmm(phones=phones)
    sentence = ["SIL", "a", "b", "a", "c", "SIL"]
    scores = pointing_at(passed_pdfs(hmm, sentence), num_pdfs=hmm.num_pdfs)
    bigram = estimate(["SIL a b a c SIL", "SIL c SIL"], order=2, fallback_discounts=(0.5, 1.0, 1.5))
    for grammar in (uniform(phones), bigram):
        graph = compose_graph(hmm=hmm, lexicon=phone_lexicon(phones), grammar=grammar)
        assert decode(graph, scores, acoustic_weight=1.0).words == tuple(sentence)


@pytest.mark.parametrize("known", ["b", "c"])
def test_a_phone_bigram_decides_where_frames_do_not(known):
    phones = ("SIL", "a", "b", "c")
    hmm = monophone_hmm(phones=phones)
    paths = [passed_pdfs(hmm, ["SIL", "a", phone, "SIL"]) for phone in ("b", "c")]
    scores = np.maximum(*(pointing_at(pdfs, num_pdfs=hmm.num_pdfs) for pdfs in paths))
    grammar = estimate([f"SIL a {known} SIL"] * 2 + ["b c a"], order=2, fallback_discounts=(0.5, 1.0, 1.5))
    graph = compose_graph(hmm=hmm, lexicon=phone_lexicon(phones), grammar=grammar)
    assert decode(graph, scores, acoustic_weight=1.0).words == ("SIL", "a", known, "SIL")


def test_too_few_frames_for_any_sentence_are_not_complete(recogniser):
    scores = recogniser.likelihoods("noon")[6:8]
    found = decode(recogniser.graph, scores)
    assert not found.complete


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.zeros((0, 18)), "no frames"),
        (np.zeros((5, 3)), r"log_likelihoods must be \[T, 18\] for this graph, got \(5, 3\)"),
        (np.zeros(18), r"log_likelihoods must be \[T, 18\]"),
        (np.full((5, 18), np.nan), "finite, but hold NaN"),
        (np.full((5, 18), -np.inf), "finite, but hold NaN or infinity"),
    ],
)
def test_wrong_likelihoods_are_named(recogniser, scores, message):
    assert recogniser.graph.num_pdfs == 18
    with pytest.raises(ValueError, match=message):
        decode(recogniser.graph, scores)


def test_wrong_settings_are_named(recogniser):
    scores = recogniser.likelihoods("no")
    with pytest.raises(ValueError, match="acoustic_weight must be a positive finite number, got 0"):
        decode(recogniser.graph, scores, acoustic_weight=0)
    with pytest.raises(ValueError, match="max_active must be an integer of at least 1, got 0"):
        Search(max_active=0)
    assert issubclass(NoPathError, ValueError)


def test_priors_are_counts():
    found = log_priors(np.array([[2, 2], [0, 2]]), num_pdfs=4, pseudo_count=0.5)
    assert np.exp(found) == pytest.approx(np.array([1.5, 0.5, 3.5, 0.5]) / 6)
    with pytest.raises(ValueError, match="labels must be below num_pdfs=2, got 2"):
        log_priors([2], num_pdfs=2)
    with pytest.raises(ValueError, match=r"log_posteriors must be \[T, S\]"):
        scaled_likelihoods(np.zeros((3, 2)), np.zeros(3))
