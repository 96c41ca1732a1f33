"""Decision trees that tie the states of phones in context, in Kaldi's binary format."""

from __future__ import annotations

import heapq
import itertools
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bochner.checks import nonnegative_float, positive_int
from bochner.speech.frames import Array
from bochner.speech.hmm.contexts import (
    CENTRE,
    FAR_LEFT,
    FAR_RIGHT,
    LEFT,
    RIGHT,
    STATE,
    EventStatistics,
    gaussian_log_likelihood,
    heldout_log_likelihood,
)
from bochner.speech.hmm.model import tree_from_bytes

Phones = frozenset[int]
# Kaldi's names for the columns of an event, by the width of the context.
KEYS = {
    3: {LEFT: 0, CENTRE: 1, RIGHT: 2, STATE: -1},
    5: {FAR_LEFT: 0, LEFT: 1, CENTRE: 2, RIGHT: 3, FAR_RIGHT: 4, STATE: -1},
}


def cluster_phones(statistics: EventStatistics) -> tuple[Phones, ...]:
    """Sets of similar phones, as questions about the neighbours of a phone.

    Agglomerative clustering: the pair of clusters whose common Gaussian loses the least likelihood is merged first;
    every phone and every merger but the last is a question. A phone is represented by the frames of its second state
    (or its only one), which depends least on its neighbours. O(n^3 + n^2 d) for n phones. Deterministic.

    Kaldi's `cluster-phones` splits top-down by k-means instead.
    """
    clusters, sums = _phone_sums(statistics)
    questions = list(clusters)
    losses = np.full((len(clusters), len(clusters)), np.inf)
    for row in range(len(clusters)):
        losses[row, :row] = _losses(sums, row)[:row]
    while len(clusters) > 2:
        high, low = np.unravel_index(int(np.argmin(losses)), losses.shape)
        clusters[low] |= clusters[high]
        sums[low] += sums[high]
        del clusters[high]
        sums = np.delete(sums, high, axis=0)
        losses = np.delete(np.delete(losses, high, axis=0), high, axis=1)
        renewed = _losses(sums, int(low))
        losses[low, :low] = renewed[:low]
        losses[low + 1 :, low] = renewed[low + 1 :]
        questions.append(clusters[low])
    return tuple(dict.fromkeys(questions))


def _losses(sums: Array, row: int) -> Array:
    """The loss of likelihood when `row` is merged with each of the others."""
    separate = gaussian_log_likelihood(sums)
    return separate + separate[row] - gaussian_log_likelihood(sums + sums[row])


def _phone_sums(statistics: EventStatistics) -> tuple[list[Phones], Array]:
    phones = np.unique(statistics.events[:, CENTRE])
    sums = []
    for phone in phones:
        rows = statistics.events[:, CENTRE] == phone
        middle = rows & (statistics.events[:, STATE] == 1)
        sums.append(statistics.sums[middle if middle.any() else rows].sum(axis=0))
    return [frozenset({int(phone)}) for phone in phones], np.array(sums)


@dataclass(frozen=True)
class Leaf:
    """A pdf."""

    pdf: int


@dataclass(frozen=True)
class Split:
    """The question whether the event's value in column `column` is one of `values`."""

    column: int
    values: frozenset[int]
    yes: Node
    no: Node


@dataclass(frozen=True)
class Table:
    """A branch for each value in column `column`."""

    column: int
    branches: Mapping[int, Node]


Node = Leaf | Split | Table


@dataclass(frozen=True)
class Tree:
    """The root of a tree that maps every event to a pdf, the number of pdfs, and the width of the context."""

    root: Table
    num_pdfs: int
    context_width: int = 3


def grow_tree(
    statistics: EventStatistics,
    questions: Sequence[Phones],
    *,
    roots: Sequence[Sequence[int]],
    untied: Sequence[int] = (),
    states_of: Mapping[int, int],
    num_leaves: int,
    min_count: float = 100.0,
    min_gain: float = 0.0,
) -> Tree:
    """Split greedily by gain in likelihood, until there are `num_leaves` pdfs or no split gains more than `min_gain`.

    A tree starts from each of `roots`, sets of phones that may share pdfs; its questions are about the neighbours, the
    phone itself if a root has several, and the state. Phones in `untied` (silence) share one pdf for each state.
    `states_of` gives the number of states of every phone. Both sides of a split keep `min_count` frames. There are at
    least as many leaves as roots. O(leaves x questions x phones x d), times the number of groups.

    If the events contain groups of speakers, the likelihood is cross-validated: that of each group under the Gaussian
    of the others. Splits that only separate speakers or sentences then have no gain.

    Source: Young, Odell & Woodland 1994; Kaldi's `build-tree` without its last merging of leaves; Shinozaki 2006.
    """
    nonnegative_float("min_count", min_count)
    fixed = range(max((states_of[phone] for phone in untied), default=0))
    growing = [_Growing(np.flatnonzero(np.isin(statistics.events[:, CENTRE], list(root)))) for root in roots]
    _grow(
        growing,
        positive_int("num_leaves", num_leaves) - len(fixed),
        _Search(statistics, questions, states_of, min_count),
        min_gain,
    )
    numbers = itertools.count()
    silence = Table(STATE, {state: Leaf(next(numbers)) for state in fixed})
    branches: dict[int, Node] = dict.fromkeys(untied, silence)
    for root, start in zip(roots, growing[: len(roots)], strict=True):
        branches |= dict.fromkeys(root, start.frozen(numbers))
    return Tree(Table(CENTRE, branches), next(numbers), statistics.context_width)


class _Growing:
    """A leaf with the rows of statistics that reach it, or, once split, its two children."""

    def __init__(self, rows: Array) -> None:
        self.rows = rows
        self.question: tuple[int, frozenset[int]] | None = None
        self.children: tuple[_Growing, _Growing] | None = None

    def frozen(self, numbers: itertools.count[int]) -> Node:
        if self.question is None or self.children is None:
            return Leaf(next(numbers))
        yes, no = (child.frozen(numbers) for child in self.children)
        return Split(*self.question, yes, no)


class _Search:
    """The best question for a set of rows: all questions about a column in one product of matrices."""

    def __init__(
        self, statistics: EventStatistics, questions: Sequence[Phones], states_of: Mapping[int, int], min_count: float
    ) -> None:
        self.statistics, self.min_count = statistics, min_count
        states = range(1, max(states_of.values(), default=1))
        columns = [column for column in KEYS[statistics.context_width] if column != STATE]
        self._questions = dict.fromkeys(columns, tuple(questions))
        self._questions[STATE] = tuple(frozenset(range(last)) for last in states)
        width = int(max(statistics.events.max(initial=0), max(states_of, default=0))) + 1
        self._members = {column: _membership(sets, width) for column, sets in self._questions.items()}
        no_groups = np.zeros(len(statistics.events), dtype=np.int64)
        self._groups = no_groups if statistics.groups is None else statistics.groups
        self._num_groups = int(self._groups.max(initial=0)) + 1
        total = statistics.sums.sum(axis=0)
        self._frame = total / max(float(total[0]), 1e-10)  # the mean frame

    def best(self, rows: Array) -> tuple[float, int, frozenset[int]]:
        """(gain, column, values); the gain is -inf if no question leaves enough frames on both sides."""
        best = (-np.inf, 0, frozenset[int]())
        for column, sets in self._questions.items():
            if sets and len(rows):
                gains = self._gains(rows, column)
                place = int(np.argmax(gains))
                best = max(best, (float(gains[place]), column, sets[place]), key=lambda option: option[0])
        return best

    def divided(self, rows: Array, column: int, values: frozenset[int]) -> tuple[Array, Array]:
        inside = np.isin(self.statistics.events[rows, column], list(values))
        return rows[inside], rows[~inside]

    def _gains(self, rows: Array, column: int) -> Array:
        sums = self.statistics.sums[rows]
        members = self._members[column]
        by_value = np.zeros((members.shape[1], self._num_groups, sums.shape[1]))
        np.add.at(by_value, (self.statistics.events[rows, column], self._groups[rows]), sums)
        total = by_value.sum(axis=0)
        yes = np.tensordot(members, by_value, axes=1)
        no = total - yes
        gains = self._log_likelihood(yes) + self._log_likelihood(no) - self._log_likelihood(total)
        return np.where(self._enough(yes) & self._enough(no), gains, -np.inf)

    def _enough(self, sums: Array) -> Array:
        """Whether there are enough frames, and from at least two groups, which cross-validation needs."""
        counts = sums[..., 0]
        num_groups = (counts > 0.5).sum(axis=-1)  # counts are integers up to rounding
        return (counts.sum(axis=-1) >= max(self.min_count, 1e-6)) & (num_groups >= min(2, self._num_groups))

    def _log_likelihood(self, sums: Array) -> Array:
        """Of frames from their sums by group [..., K, 1 + 2 d]."""
        if self._num_groups == 1:
            return gaussian_log_likelihood(sums[..., 0, :])
        return heldout_log_likelihood(sums, self._frame)


def _grow(growing: list[_Growing], num_leaves: int, search: _Search, min_gain: float) -> None:
    tickets = itertools.count()  # ties are broken by age
    queue: list[tuple[float, int, _Growing, int, frozenset[int]]] = []

    def offer(leaf: _Growing) -> None:
        gain, column, values = search.best(leaf.rows)
        if gain > min_gain:
            heapq.heappush(queue, (-gain, next(tickets), leaf, column, values))

    for leaf in growing:
        offer(leaf)
    leaves = len(growing)
    while queue and leaves < num_leaves:
        _, _, leaf, column, values = heapq.heappop(queue)
        yes, no = search.divided(leaf.rows, column, values)
        leaf.question, leaf.children = (column, values), (_Growing(yes), _Growing(no))
        for child in leaf.children:
            offer(child)
        leaves += 1


def _membership(sets: Sequence[frozenset[int]], width: int) -> Array:
    members = np.zeros((len(sets), width))
    for row, values in enumerate(sets):
        members[row, list(values)] = 1.0
    return members


def context_dependency(tree: Tree) -> Any:
    """The tree as kaldi_hmm_gmm's ContextDependency, with one or two phones of context on each side."""
    width = tree.context_width
    head = _token("ContextDependency") + _integer(width) + _integer(width // 2) + _token("ToPdf")
    return tree_from_bytes(head + _written(tree.root, KEYS[width]) + _token("EndContextDependency"))


def _written(node: Node, keys: Mapping[int, int]) -> bytes:
    if isinstance(node, Leaf):
        return _token("CE") + _integer(node.pdf)
    if isinstance(node, Split):
        question = _token("SE") + _integer(keys[node.column]) + _integers(sorted(node.values))
        return question + _token("{") + _written(node.yes, keys) + _written(node.no, keys) + _token("}")
    size = max(node.branches) + 1
    branches = [node.branches.get(value) for value in range(size)]
    table = b"".join(_token("NULL") if branch is None else _written(branch, keys) for branch in branches)
    return _token("TE") + _integer(keys[node.column]) + _unsigned(size) + _token("(") + table + _token(")")


def _token(name: str) -> bytes:
    return name.encode() + b" "


def _integer(value: int) -> bytes:
    return struct.pack("<bi", 4, value)


def _unsigned(value: int) -> bytes:
    return struct.pack("<bI", -4, value)  # negative sizes mean unsigned


def _integers(values: list[int]) -> bytes:
    return struct.pack(f"<bi{len(values)}i", 4, len(values), *values)
