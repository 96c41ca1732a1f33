"""The best path through a decoding graph, by Viterbi search within a beam."""

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
