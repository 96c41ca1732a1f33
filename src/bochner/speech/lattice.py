"""Word lattices: n-best sentences, posterior probabilities of words, Kaldi's text format."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner import checks


class WordPosterior(NamedTuple):
    """A word of the best path, the frame at which its label is, and its posterior probability."""

    word: str
    frame: int
    confidence: float


@dataclass(frozen=True, eq=False)
class WordLattice:
    """Arcs [A]: source and target state, word (0: none), graph cost, unweighted acoustic cost; states from 0.

    Final states are arcs to -1. `emitting` [A] are the arcs that last for a frame. `acoustic_weight` is the weight with
    which the lattice was pruned.
    """

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    word: NDArray[np.int64]
    graph_cost: NDArray[np.float64]
    acoustic_cost: NDArray[np.float64]
    emitting: NDArray[np.bool_]
    words: tuple[str, ...]
    acoustic_weight: float

    @cached_property
    def _order(self) -> list[int]:
        """The arcs such that all arcs into a state come before those out of it (Kahn 1962)."""
        leaving: dict[int, list[int]] = {}
        waiting = Counter(self.target.tolist())
        for arc, source in enumerate(self.source.tolist()):
            leaving.setdefault(source, []).append(arc)
        ready = sorted(leaving.keys() - waiting.keys())
        order, target = [], self.target.tolist()
        while ready:
            for arc in leaving.get(ready.pop(), ()):
                order.append(arc)
                waiting[target[arc]] -= 1
                if not waiting[target[arc]]:
                    ready.append(target[arc])
        return order

    def word_posteriors(self) -> list[WordPosterior]:
        """The words of the best path with their posterior probabilities, from the paths of the lattice.

        log p(arc) = alpha(source) - cost + beta(target) - log Z, by the forward-backward algorithm. The confidence of a
        word is the sum over the arcs with the same word nearer in time to it than to its neighbours: the graph may
        place the label of a word at any of its frames. O(arcs). Source: Wessel, Schlueter, Macherey & Ney 2001.
        """
        cost = (self.graph_cost + self.acoustic_weight * self.acoustic_cost).tolist()
        source, target, emitting = self.source.tolist(), self.target.tolist(), self.emitting.tolist()
        forward: dict[int, float] = {source[self._order[0]]: 0.0}
        best: dict[int, tuple[float, int]] = {source[self._order[0]]: (0.0, -1)}
        frame = {source[self._order[0]]: 0}
        for arc in self._order:
            here, there = source[arc], target[arc]
            forward[there] = _log_add(forward.get(there, -math.inf), forward[here] - cost[arc])
            frame[there] = frame[here] + emitting[arc]
            if best[here][0] + cost[arc] < best.get(there, (math.inf, -1))[0]:
                best[there] = best[here][0] + cost[arc], arc
        backward = {-1: 0.0}
        for arc in reversed(self._order):
            total = backward.get(target[arc], -math.inf) - cost[arc]
            backward[source[arc]] = _log_add(backward.get(source[arc], -math.inf), total)
        path, state = [], -1
        while (arc := best[state][1]) >= 0:
            path.append(arc)
            state = source[arc]
        word_arcs = [arc for arc in reversed(path) if self.word[arc] > 0]
        times = [frame[source[arc]] for arc in word_arcs]
        bounds = [-math.inf, *((a + b) / 2 for a, b in pairwise(times)), math.inf]
        labelled: dict[int, list[tuple[int, float]]] = {}
        for arc in np.flatnonzero(self.word > 0).tolist():
            posterior = math.exp(forward[source[arc]] - cost[arc] + backward[target[arc]] - forward[-1])
            labelled.setdefault(int(self.word[arc]), []).append((frame[source[arc]], posterior))
        return [
            WordPosterior(
                self.words[int(self.word[arc]) - 1], time,
                min(1.0, sum(p for t, p in labelled[int(self.word[arc])] if low <= t <= high)),
            )
            for arc, time, (low, high) in zip(word_arcs, times, pairwise(bounds), strict=True)
        ]  # fmt: skip

    def to_kaldi(self, name: str) -> str:
        """The lattice in Kaldi's text format of compact lattices, which `lattice-copy ark,t:FILE ark:FILE` reads.

        Arcs are `source target word graph_cost,acoustic_cost,` with unweighted acoustic costs; there are no transition
        ids.
        """
        arcs = zip(self.source, self.target, self.word, self.graph_cost, self.acoustic_cost, strict=True)
        start, rows = self.source[self._order[0]], list(arcs)
        rows.sort(key=lambda row: row[0] != start)  # the first line is of the start state
        lines = [
            f"{s} {graph:.6g},{acoustic:.6g}," if t < 0
            else f"{s} {t} {self.words[w - 1] if w else '<eps>'} {graph:.6g},{acoustic:.6g},"
            for s, t, w, graph, acoustic in rows
        ]  # fmt: skip
        return "\n".join([name, *lines, "", ""])

    def nbest(
        self, num_sentences: int, *, acoustic_weight: float | None = None, word_penalty: float = 0.0
    ) -> list[tuple[tuple[str, ...], float]]:
        """The best distinct sentences and their costs, best first; fewer if the lattice holds fewer.

        A weight or penalty other than the lattice's own is exact among the paths that the lattice holds.
        """
        checks.positive_int("num_sentences", num_sentences)
        weight = self.acoustic_weight if acoustic_weight is None else acoustic_weight
        cost = self.graph_cost + checks.positive_float("acoustic_weight", weight) * self.acoustic_cost
        cost += word_penalty * (self.word > 0)
        found: list[tuple[tuple[str, ...], float]] = []
        for words, total in self._sentences(cost):
            found.append((tuple(self.words[word - 1] for word in words), total))
            if len(found) == num_sentences:
                break
        return found

    def _sentences(self, cost: NDArray[np.float64]) -> Iterator[tuple[tuple[int, ...], float]]:
        """Distinct sequences of words and their costs, best first, by the A* algorithm.

        A node is a state with the words that lead to it, of which only the best path is continued; its priority is the
        cost of the best path through it. The number of nodes is at most that of the states times that of the beginnings
        of the sentences found.
        """
        source, target, word, costs = (x.tolist() for x in (self.source, self.target, self.word, cost))
        remaining = {-1: 0.0}  # costs from a state to the end
        leaving: dict[int, list[int]] = {}
        for arc in reversed(self._order):
            leaving.setdefault(source[arc], []).append(arc)
            total = costs[arc] + remaining[target[arc]]
            remaining[source[arc]] = min(total, remaining.get(source[arc], math.inf))
        start, numbers = source[self._order[0]], count()
        queue: list[tuple[float, int, int, float, tuple[int, ...]]] = [
            (remaining[start], next(numbers), start, 0.0, ())
        ]
        done: set[object] = set()
        while queue:
            total, _, state, spent, words = heapq.heappop(queue)
            if state == -1:
                if words not in done:
                    done.add(words)
                    yield words, total
            elif (state, words) not in done:
                done.add((state, words))
                for arc in leaving[state]:
                    there, cost_there = target[arc], spent + costs[arc]
                    extended = (*words, word[arc]) if word[arc] else words
                    priority = cost_there + remaining[there]
                    heapq.heappush(queue, (priority, next(numbers), there, cost_there, extended))


def parse_lattice(lattice: Any, words: tuple[str, ...], acoustic_weight: float) -> WordLattice:
    """A raw lattice of kaldi-decoder; via text, since the Python bindings have no iterator over its arcs."""
    rows = [line.split() for line in lattice.to_str(show_weight_one=True).splitlines()]
    arcs = [(s, t, i, w, *cost.split(",")) for s, t, i, w, cost in (row for row in rows if len(row) > 2)]
    finals = [(row[0], "-1", "0", "0", *row[1].split(",")) for row in rows if len(row) == 2]
    columns = list(zip(*arcs, *finals, strict=True))
    source, target, label, word = (np.array(column, dtype=np.int64) for column in columns[:4])
    graph_cost, acoustic_cost = (np.array(column, dtype=np.float64) for column in columns[4:])
    return WordLattice(
        source, target, word, graph_cost, acoustic_cost / acoustic_weight, label > 0, words, acoustic_weight
    )


def _log_add(a: float, b: float) -> float:
    low, high = min(a, b), max(a, b)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))
