"""Viterbi forced alignment: the best path of frames through the graph of what was said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.checks import positive_float, positive_int
from bochner.speech.align.graphs import AlignmentGraph
from bochner.speech.kaldi import kaldi_hmm_gmm, kaldifst

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Search:
    """How the best path is looked for: scores are acoustic_scale log p(x|pdf) + transition weights; paths that fall
    `beam` behind the best are given up; where none reaches the end, `retry_beam` is tried."""

    acoustic_scale: float = 0.1
    transition_scale: float = 1.0
    self_loop_scale: float = 0.1
    beam: float = 10.0
    retry_beam: float = 400.0

    def __post_init__(self) -> None:
        positive_float("acoustic_scale", self.acoustic_scale)
        positive_float("beam", self.beam)
        if self.retry_beam <= self.beam:
            raise ValueError(f"retry_beam must be above beam {self.beam}, got {self.retry_beam}.")


def best_path(graph: AlignmentGraph, scores: Array, *, beam: float, retry_beam: float) -> Array | None:
    """The transition ids [T] of the path with the largest sum of scores [T, ids of the graph]; None where the search
    found no way to the end."""
    settings = kaldi_hmm_gmm.AlignConfig(beam=beam, retry_beam=retry_beam)
    frames = kaldi_hmm_gmm.DecodableCtc(np.ascontiguousarray(scores, dtype=np.float32))
    *_, labels, _ = kaldi_hmm_gmm.align_utterance_wrapper(settings, "", 1.0, graph.fst, frames, 0, 0, 0, 0.0, 0)
    return graph.transition_ids[np.array(labels) - 1] if labels else None


def equal_path(graph: AlignmentGraph, num_frames: int, *, seed: int) -> Array | None:
    """A random path in which every state lasts equally long: where training starts that knows nothing."""
    found, path = kaldifst.equal_align(graph.fst, positive_int("num_frames", num_frames), seed)
    if not found:
        return None
    _, labels, _, _ = kaldifst.get_linear_symbol_sequence(path)
    return graph.transition_ids[np.array(labels) - 1] if len(labels) == num_frames else None
