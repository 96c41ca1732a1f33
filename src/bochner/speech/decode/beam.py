"""Many paths at once: a lattice of words that can be weighted anew, and its best sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bochner import checks
from bochner.speech.graph.decoding import DecodingGraph
from bochner.speech.kaldi import kaldi_decoder, kaldifst


class NoPathError(ValueError):
    """No path through the graph stayed within the beam to the last frame."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """How wide to search: paths within `beam` of the best, at most `max_active` a frame; lattices have their own."""

    beam: float = 11.0
    max_active: int = 2500
    lattice_beam: float = 6.0

    def __post_init__(self) -> None:
        checks.positive_float("beam", self.beam)
        checks.positive_int("max_active", self.max_active)
        checks.positive_float("lattice_beam", self.lattice_beam)


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """Words, the transition id of each frame [T], and the cost -ln p of the path by graph and (weighted) acoustics.

    `complete` is False where no path ended in a final state, and the best unfinished one stands here.
    """

    words: tuple[str, ...]
    transition_ids: NDArray[np.int32]
    graph_cost: float
    acoustic_cost: float
    complete: bool

    @property
    def cost(self) -> float:
        return self.graph_cost + self.acoustic_cost


def decode(
    graph: DecodingGraph, log_likelihoods: ArrayLike, *, acoustic_weight: float = 0.1, search: Search | None = None
) -> Hypothesis:
    """argmax over paths of acoustic_weight * sum_t log p(x_t | s_t) + log p(path), for log likelihoods [T, num_pdfs].

    Weight 1 trusts frames as if they were independent; 0.05 to 0.2 is usual, and `tune` finds it. O(T * active paths).

    >>> from bochner.speech.graph import compose_graph, phone_lexicon
    >>> from bochner.speech.hmm.model import monophone_hmm
    >>> from bochner.speech.lm import uniform
    >>> phones = ("SIL", "a", "b")
    >>> hmm = monophone_hmm(phones=phones, num_states=1)
    >>> graph = compose_graph(hmm=hmm, lexicon=phone_lexicon(phones), grammar=uniform(phones))
    >>> spoken = np.eye(3)[[0, 0, 1, 1, 1, 2, 2, 0]]  # pdf of each of 8 frames
    >>> decode(graph, 9 * spoken, acoustic_weight=1.0).words
    ('SIL', 'a', 'b', 'SIL')
    """
    search = search or Search()
    options = kaldi_decoder.FasterDecoderOptions(beam=search.beam, max_active=search.max_active)
    decoder = kaldi_decoder.FasterDecoder(graph.fst, options)
    decoder.decode(decodable(graph, log_likelihoods, acoustic_weight))
    complete = decoder.reached_final()
    found, path = decoder.get_best_path(use_final_probs=complete)
    if not found:
        raise NoPathError(f"no path survived (beam {search.beam}; widen it, or check the likelihoods).")
    _, ids, labels, weight = kaldifst.get_linear_symbol_sequence(path)
    transition_ids = np.array(ids, dtype=np.int32)
    return Hypothesis(graph.spelled(labels), transition_ids, weight.value1, weight.value2, complete)


def decodable(graph: DecodingGraph, log_likelihoods: ArrayLike, acoustic_weight: float) -> Any:
    """What the decoders read: one column per transition id, which is ten times as fast as asking Python for each."""
    scores = np.asarray(log_likelihoods, dtype=np.float32)
    if scores.ndim != 2 or scores.shape[1] < graph.num_pdfs:
        raise ValueError(f"log_likelihoods must be [T, {graph.num_pdfs}] for this graph, got {scores.shape}.")
    if not len(scores):
        raise ValueError("no frames.")
    if not np.isfinite(scores).all():
        raise ValueError("log_likelihoods must be finite, but hold NaN or infinity.")
    scaled = scores * np.float32(checks.positive_float("acoustic_weight", acoustic_weight))
    return kaldi_decoder.DecodableCtc(np.take(scaled, graph.pdfs, axis=1))


@dataclass(frozen=True, eq=False)
class WordLattice:
    """Arcs [A]: source and target state, word (0: none), graph cost, acoustic cost without its weight; states from 0.

    Final states stand as arcs to -1. `acoustic_weight` is the weight that the lattice was pruned with.
    """

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    word: NDArray[np.int64]
    graph_cost: NDArray[np.float64]
    acoustic_cost: NDArray[np.float64]
    words: tuple[str, ...]
    acoustic_weight: float

    def nbest(
        self, num_sentences: int, *, acoustic_weight: float | None = None, word_penalty: float = 0.0
    ) -> list[tuple[tuple[str, ...], float]]:
        """The best different sentences and their costs, best first; fewer where the lattice holds fewer.

        Another weight or penalty than the lattice's own is exact among the paths that the lattice holds.
        """
        checks.positive_int("num_sentences", num_sentences)
        weight = self.acoustic_weight if acoustic_weight is None else acoustic_weight
        cost = self.graph_cost + checks.positive_float("acoustic_weight", weight) * self.acoustic_cost
        fst = self._acceptor(cost + word_penalty * (self.word > 0))
        kaldifst.determinize_star(fst)  # one path a sentence: no sentence comes twice
        paths = kaldifst.convert_nbest_to_vector(kaldifst.shortest_path(fst, n=num_sentences))
        return sorted((self._sentence(path) for path in paths), key=lambda found: found[1])

    def _sentence(self, path: Any) -> tuple[tuple[str, ...], float]:
        _, labels, _, weight = kaldifst.get_linear_symbol_sequence(path)
        return tuple(self.words[label - 1] for label in labels), weight.value

    def _acceptor(self, cost: NDArray[np.float64]) -> Any:
        columns = (self.source.tolist(), self.target.tolist(), self.word.tolist(), cost.tolist())
        lines = (
            f"{source} {c!r}" if target < 0 else f"{source} {target} {word} {word} {c!r}"
            for source, target, word, c in zip(*columns, strict=True)
        )
        return kaldifst.compile("\n".join(lines) + "\n")


def decode_lattice(
    graph: DecodingGraph, log_likelihoods: ArrayLike, *, acoustic_weight: float = 0.1, search: Search | None = None
) -> WordLattice:
    """All paths within `lattice_beam` of the best, for log likelihoods [T, num_pdfs].

    Slower than `decode`, and without its limit on active paths: narrow the beam where frames say little.

    >>> from bochner.speech.graph import compose_graph, phone_lexicon
    >>> from bochner.speech.hmm.model import monophone_hmm
    >>> from bochner.speech.lm import uniform
    >>> hmm = monophone_hmm(phones=("a", "b"), num_states=1)
    >>> graph = compose_graph(hmm=hmm, lexicon=phone_lexicon(hmm.phones), grammar=uniform(hmm.phones))
    >>> lattice = decode_lattice(graph, [[4, 0], [1, 0], [0, 4]], acoustic_weight=1.0)
    >>> [words for words, cost in lattice.nbest(2)]
    [('a', 'b'), ('a', 'a', 'b')]
    """
    search = search or Search()
    config = kaldi_decoder.LatticeSimpleDecoderConfig(beam=search.beam, lattice_beam=search.lattice_beam)
    decoder = kaldi_decoder.LatticeSimpleDecoder(graph.fst, config)
    found = decoder.decode(decodable(graph, log_likelihoods, acoustic_weight))
    found, lattice = decoder.get_raw_lattice() if found else (False, None)
    if not found:
        raise NoPathError(f"no path survived (beam {search.beam}; widen it, or check the likelihoods).")
    return _parsed(lattice, graph.words, acoustic_weight)


def _parsed(lattice: Any, words: tuple[str, ...], acoustic_weight: float) -> WordLattice:
    """Through text: the wheels give no iterator over the arcs of a lattice."""
    rows = [line.split() for line in lattice.to_str(show_weight_one=True).splitlines()]
    arcs = [(s, t, w, *cost.split(",")) for s, t, _, w, cost in (row for row in rows if len(row) > 2)]
    finals = [(row[0], "-1", "0", *row[1].split(",")) for row in rows if len(row) == 2]
    source, target, word, graph_cost, acoustic_cost = zip(*arcs, *finals, strict=True)
    return WordLattice(
        source=np.array(source, dtype=np.int64),
        target=np.array(target, dtype=np.int64),
        word=np.array(word, dtype=np.int64),
        graph_cost=np.array(graph_cost, dtype=np.float64),
        acoustic_cost=np.array(acoustic_cost, dtype=np.float64) / acoustic_weight,
        words=words,
        acoustic_weight=acoustic_weight,
    )
