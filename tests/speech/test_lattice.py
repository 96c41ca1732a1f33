"""Lattices: posteriors of words against the sum over all paths."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("kaldifst")

from bochner.speech.lattice import WordLattice

# state 0 -a-> 1 -b-> 3; 0 -a-> 2 -c-> 3; 0 -c-> 2; the last arc is final. Each arc lasts for a frame.
ARCS = [(0, 1, 1, 1.0), (1, 3, 2, 1.0), (0, 2, 1, 2.0), (2, 3, 3, 1.5), (0, 2, 3, 2.5), (3, -1, 0, 0.5)]
PATHS = {("a", "b"): [0, 1, 5], ("a", "c"): [2, 3, 5], ("c", "c"): [4, 3, 5]}


def lattice(order: list[int]) -> WordLattice:
    source, target, word, cost = (np.array(column) for column in zip(*(ARCS[k] for k in order), strict=True))
    return WordLattice(source, target, word, cost / 2, cost / 2, target >= 0, ("a", "b", "c"), 1.0)


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5], [5, 3, 1, 4, 2, 0]])
def test_posteriors_are_the_shares_of_the_paths_with_the_word_at_its_place(order: list[int]) -> None:
    weight = {words: math.exp(-sum(ARCS[k][3] for k in path)) for words, path in PATHS.items()}
    total = sum(weight.values())
    first, second = lattice(order).word_posteriors()
    assert (first.word, first.frame, second.word, second.frame) == ("a", 0, "b", 1)
    assert first.confidence == pytest.approx((weight["a", "b"] + weight["a", "c"]) / total)
    assert second.confidence == pytest.approx(weight["a", "b"] / total)


def test_a_word_that_paths_hold_twice_has_a_posterior_of_at_most_one() -> None:
    """Of the words "a" and "a a" the first is the better one; all labels are nearest to its only word."""
    arcs = [(0, 1, 1, 1.0), (1, 2, 0, 1.0), (1, 2, 1, 1.1), (2, -1, 0, 0.5)]
    source, target, word, cost = (np.array(column) for column in zip(*arcs, strict=True))
    doubled = WordLattice(source, target, word, cost / 2, cost / 2, target >= 0, ("a",), 1.0)
    assert [(w.word, w.confidence) for w in doubled.word_posteriors()] == [("a", 1.0)]


def test_kaldis_text_format() -> None:
    lines = lattice([5, 3, 1, 4, 2, 0]).to_kaldi("talk").splitlines()
    assert lines[0] == "talk"
    assert lines[1] == "0 2 c 1.25,1.25,"  # of the start state
    assert "3 0.25,0.25," in lines
    assert lines[-1] == ""
    assert len(lines) == 1 + len(ARCS) + 1


def test_the_best_sentences_come_first_by_cost() -> None:
    """In the order of their words, "a c" would precede "c c" and follow "a b", too: so change the costs."""
    cheap = [(s, t, w, 0.1 if (s, w) == (0, 3) else c) for s, t, w, c in ARCS]
    source, target, word, cost = (np.array(column) for column in zip(*cheap, strict=True))
    lattice = WordLattice(source, target, word, cost / 2, cost / 2, target >= 0, ("a", "b", "c"), 1.0)
    sentences, costs = zip(*lattice.nbest(3), strict=True)
    assert sentences == (("c", "c"), ("a", "b"), ("a", "c"))
    assert costs == pytest.approx((2.1, 2.5, 4.0))


def layers(num_frames: int, width: int, generator: np.random.Generator) -> WordLattice:
    """A lattice of all arcs between `width` states of each frame and those of the next; a third of them has a word."""
    ends = range(1, 1 + width * num_frames, width)
    arcs = [(0, 1 + k) for k in range(width)]
    arcs += [(first + i, first + width + j) for first in ends[:-1] for i in range(width) for j in range(width)]
    arcs += [(ends[-1] + k, -1) for k in range(width)]
    source, target = np.array(arcs).T
    word = np.maximum(generator.integers(-5, 4, len(arcs)), 0) * (target >= 0)
    cost = generator.uniform(-1.0, 1.0, len(arcs))
    return WordLattice(source, target, word, cost / 2, cost / 2, target >= 0, ("a", "b", "c"), 1.0)


def test_the_best_sentences_are_those_of_all_paths() -> None:
    generator = np.random.default_rng(0)
    for _ in range(5):
        small = layers(4, 3, generator)
        arcs = {}
        for arc, source in enumerate(small.source.tolist()):
            arcs.setdefault(source, []).append(arc)
        best: dict[tuple[str, ...], float] = {}
        paths = [(0, (), 0.0)]
        while paths:
            state, words, cost = paths.pop()
            if state == -1:
                best[words] = min(cost, best.get(words, math.inf))
                continue
            for arc in arcs[state]:
                longer = (*words, small.words[small.word[arc] - 1]) if small.word[arc] else words
                total = cost + small.graph_cost[arc] + small.acoustic_cost[arc]
                paths.append((int(small.target[arc]), longer, total))
        expected = sorted(best.items(), key=lambda pair: pair[1])
        found = small.nbest(1000)
        assert [words for words, _ in found] == [words for words, _ in expected]
        assert [cost for _, cost in found] == pytest.approx([cost for _, cost in expected])


def test_sentences_of_a_lattice_with_very_many_paths_are_found_in_time() -> None:
    """Such as that of noise: determinisation would need a state for each of very many sets of states."""
    large = layers(100, 30, np.random.default_rng(0))
    sentences = large.nbest(20)
    assert len({words for words, _ in sentences}) == 20
    total = np.array([cost for _, cost in sentences])
    assert (np.diff(total) >= 0).all()
