"""The denominator: every sequence of states that could have been said, with its probability."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bochner import checks
from bochner.speech.hmm.contexts import phone_starts
from bochner.speech.hmm.model import Hmm

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class StateGraph:
    """A Markov chain over N nodes: node n emits `pdfs`[n], and a path begins, moves and ends with these probabilities.

    pdfs [N] integers; starts [N] and ends [N]; `sources`, `targets` and `weights` [A], one for each arc, all float64
    probabilities (0 where impossible). A path n_1 ... n_T weighs
    starts[n_1] weights[n_1, n_2] ... weights[n_{T-1}, n_T] ends[n_T].
    """

    pdfs: Tensor
    starts: Tensor
    ends: Tensor
    sources: Tensor
    targets: Tensor
    weights: Tensor

    @property
    def num_nodes(self) -> int:
        return len(self.pdfs)

    @property
    def num_arcs(self) -> int:
        return len(self.weights)

    @cached_property
    def num_pdfs(self) -> int:
        """The least number of columns that scores must have."""
        return int(self.pdfs.max()) + 1

    def to(self, device: torch.device) -> StateGraph:
        fields = (self.pdfs, self.starts, self.ends, self.sources, self.targets, self.weights)
        return self if self.pdfs.device == device else StateGraph(*(field.to(device) for field in fields))

    def __repr__(self) -> str:
        return f"StateGraph({self.num_nodes} nodes, {self.num_arcs} arcs, {self.num_pdfs} pdfs)"


def phone_graph(hmm: Hmm, paths: Iterable[Array], *, order: int = 2) -> StateGraph:
    """A phone n-gram of this `order` over the states of the HMM, counted from alignments.

    `paths` are transition ids [T], one array an utterance: those of the training part. A node is a state of a phone
    with its pdf, remembered together with the order - 2 phones before it; an arc is as probable as it was frequent
    among those from its node. With one pdf a state (monophones) that is the phone n-gram and the states' durations to
    the letter; with tied triphones the pdfs bring what they know of the neighbours. Nothing is smoothed: every training
    path is in the graph, few others, and it stays small. O(frames log frames).

    Source: Povey et al. 2016, Section 2.3 (there an n-gram that never backs off below 3).

    >>> from bochner.speech.hmm import monophone_hmm
    >>> hmm = monophone_hmm(phones=["a", "b"], num_states=1)
    >>> graph = phone_graph(hmm, [np.array([2, 1, 4]), np.array([2])])  # a a b, and a
    >>> graph.starts.tolist(), graph.ends.tolist()
    ([1.0, 0.0], [0.3333333333333333, 1.0])
    >>> list(zip(graph.sources.tolist(), graph.targets.tolist()))  # a a, a b
    [(0, 0), (0, 1)]
    """
    if checks.positive_int("order", order) < 2:
        raise ValueError(f"order must be at least 2: without the phone before there is no sequence, got {order}.")
    rows = [_remembered(hmm, np.asarray(ids), order - 2) for ids in paths if len(ids)]
    if not rows:
        raise ValueError("paths must hold the alignment of at least one utterance, got none.")
    unique, nodes = np.unique(np.concatenate(rows), axis=0, return_inverse=True)
    pdf_of_source = np.zeros(hmm.table.source.max() + 1, dtype=np.int64)
    pdf_of_source[hmm.table.source] = hmm.table.pdf
    return _counted(pdf_of_source[unique[:, -1]], nodes.reshape(-1), np.cumsum([len(row) for row in rows]))


def _remembered(hmm: Hmm, transition_ids: Array, memory: int) -> Array:
    """[T, memory + 1]: the phones before that of each frame, the nearest last (0 for none), and its state."""
    begins = phone_starts(hmm, transition_ids)
    phones = np.concatenate([np.zeros(memory, dtype=np.int64), hmm.table.phone[transition_ids[begins]]])
    lengths = np.diff([*begins, len(transition_ids)])
    before = [np.repeat(phones[place : place + len(begins)], lengths) for place in range(memory)]
    return np.column_stack([*before, hmm.table.source[transition_ids]])


def _counted(pdfs: Array, nodes: Array, stops: Array) -> StateGraph:
    """The chain of the nodes of all utterances one after the other, which stop at `stops`."""
    N, first, last = len(pdfs), np.concatenate([[0], stops[:-1]]), stops - 1
    inside = np.ones(len(nodes) - 1, dtype=bool)
    inside[last[:-1]] = False
    arcs, times = np.unique(nodes[:-1][inside] * N + nodes[1:][inside], return_counts=True)
    sources, targets = np.divmod(arcs, N)
    total = np.bincount(nodes, minlength=N)
    starts, ends = (np.bincount(nodes[edge], minlength=N) for edge in (first, last))
    columns = (pdfs, starts / len(stops), ends / total, sources, targets, times / total[sources])
    return StateGraph(*map(torch.from_numpy, columns))
