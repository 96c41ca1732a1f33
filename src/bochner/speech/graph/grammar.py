"""G: an n-gram model as an acceptor of words, a state for each history, an arc #0 for each back-off."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.speech.kaldi import kaldifst
from bochner.speech.lm.model import NgramModel, values_at
from bochner.speech.lm.sentences import BEGIN, END, Ids

Floats = NDArray[np.float64]
ROOT = 0  # the empty history
LEAST = -98.0  # ARPA files write -99 for a probability of 0


def grammar_fst(model: NgramModel, *, words: Sequence[str]) -> Any:
    """G as kaldifst.StdVectorFst, costs -ln p; labels are places in `words` from 1, and the next number is #0.

    A path's cost along the highest orders is exactly that of the model. #0 stands on the input side only. N-grams with
    a word outside `words` are left out, and words that the model lacks cannot be reached. Source: Kaldi's arpa2fst.

    >>> from bochner.speech.lm import estimate
    >>> model = estimate(["a b", "a c", "b"], order=2, fallback_discounts=(0.5, 1.0, 1.5))
    >>> grammar_fst(model, words=["a", "b", "c"]).num_states  # histories: none, <s>, a, b, c
    5
    """
    label = _labels(model, words)
    states = _states(model)
    fst = kaldifst.StdVectorFst()
    for _ in range(1 + sum(int((s >= 0).sum()) for s in states)):
        fst.add_state()
    fst.start = max(int(states[0][BEGIN]), ROOT) if model.order > 1 else ROOT
    for n in range(1, model.order + 1):
        _add_grams(fst, model, n, states, label)
        _add_back_offs(fst, model, n, states, len(words) + 1)
    kaldifst.connect(fst)
    if fst.num_states == 0:
        raise ValueError("no sentence of the language model can be said with these words.")
    kaldifst.arcsort(fst, "ilabel")
    return fst


def _labels(model: NgramModel, words: Sequence[str]) -> Ids:
    """The graph's label of each word of the model, -1 where it is not in the graph."""
    place = {word: number for number, word in enumerate(words, start=1)}
    label = np.array([place.get(word, -1) for word in model.words])
    if (label < 0).all():
        raise ValueError("the lexicon and the language model have no word in common.")
    return label


def _states(model: NgramModel) -> list[Ids]:
    """For each order the state of every n-gram that is the history of another, -1 for the rest."""
    states, used = [], ROOT + 1
    for n in range(1, model.order + 1):
        history = model.histories(n)
        states.append(np.where(history, used + np.cumsum(history) - 1, -1))
        used += int(history.sum())
    return states


def _shorter(model: NgramModel, n: int, states: Sequence[Ids]) -> tuple[Ids, Floats]:
    """Each n-gram without its first word: the state of the longest history left, and the log10 back-offs passed."""
    state = np.full(len(model.levels[n - 1]), -1, dtype=np.int64)
    log_cost = np.zeros(len(state))
    for m, rows in reversed(list(enumerate(model.suffixes(n)))):
        there = values_at(states[m], rows, missing=-1)
        passed = values_at(model.levels[m].back_off, rows, missing=0.0)
        log_cost += np.where((state < 0) & (there < 0), passed, 0.0)
        state = np.where(state < 0, there, state)
    return np.where(state < 0, ROOT, state), log_cost


def _add_grams(fst: Any, model: NgramModel, n: int, states: Sequence[Ids], label: Ids) -> None:
    level = model.levels[n - 1]
    shorter, passed = _shorter(model, n, states)
    own = states[n - 1]
    there = np.where(own >= 0, own, shorter)
    log_prob = level.log_prob + np.where(own >= 0, 0.0, passed + level.back_off)
    here = states[n - 2][level.context] if n > 1 else np.full(len(level), ROOT)
    possible = (level.log_prob > LEAST) & (level.word != BEGIN)
    for i in np.flatnonzero(possible & (level.word == END)).tolist():
        fst.set_final(int(here[i]), -math.log(10) * level.log_prob[i])
    rows = np.flatnonzero(possible & (label[level.word] > 0))
    columns = (here[rows], label[level.word[rows]], -math.log(10) * log_prob[rows], there[rows])
    for source, word, cost, target in zip(*(column.tolist() for column in columns), strict=True):
        fst.add_arc(source, kaldifst.StdArc(word, word, cost, target))


def _add_back_offs(fst: Any, model: NgramModel, n: int, states: Sequence[Ids], mark: int) -> None:
    shorter, passed = _shorter(model, n, states)
    rows = np.flatnonzero(states[n - 1] >= 0)
    cost = -math.log(10) * (model.levels[n - 1].back_off + passed)[rows]
    for source, c, target in zip(states[n - 1][rows].tolist(), cost.tolist(), shorter[rows].tolist(), strict=True):
        fst.add_arc(source, kaldifst.StdArc(mark, 0, c, target))
