"""Mixtures of Gaussians in independent streams over shared codebooks: the densities of pre-trained models."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bochner.speech.frames import Array

BLOCK = 10_000  # frames scored at a time: 10 MB for 128 Gaussians
DELTA_REACH = 3  # frames on each side that the second deltas of a frame depend on


@dataclass(frozen=True, eq=False)
class StreamMixtures:
    """log p(x | pdf) = sum_s log sum_k weights[pdf, s, k] Normal(x_s; means[c, s, k], variances[c, s, k]).

    A frame is x [S, d], one vector in each of S streams: the cepstra, their deltas, their second deltas. The pdfs of
    one codebook c = codebooks[pdf] share its K Gaussians in each stream and differ in their weights: `codebooks` [P],
    `weights` [P, S, K], `means` and `variances` [C, S, K, d].

    >>> normal = StreamMixtures(codebooks=np.array([0]), weights=np.ones((1, 1, 1)), means=np.zeros((1, 1, 1, 2)),
    ...     variances=np.ones((1, 1, 1, 2)))
    >>> normal.log_likelihoods(np.zeros((1, 1, 2))).round(4)  # -log(2 pi)
    array([[-1.8379]], dtype=float32)
    """

    codebooks: Array
    weights: Array
    means: Array
    variances: Array

    def __post_init__(self) -> None:
        shape = self.means.shape
        if len(shape) != 4 or self.variances.shape != shape or self.weights.shape[1:] != shape[1:3]:
            raise ValueError(
                f"variances and weights must fit means {list(shape)}, got {list(self.variances.shape)} and "
                f"{list(self.weights.shape)}."
            )
        if self.codebooks.shape != self.weights.shape[:1] or self.codebooks.max() >= shape[0]:
            raise ValueError(f"codebooks must name one of {shape[0]} for each of {len(self.weights)} pdfs.")
        if not (self.variances > 0).all() or not np.isfinite(self.means).all() or not (self.weights > 0).all():
            raise ValueError("variances and weights must be positive and means finite.")

    @property
    def num_pdfs(self) -> int:
        return len(self.codebooks)

    def log_likelihoods(self, frames: Array, pdfs: Array | None = None) -> Array:
        """float32 [T, P] for frames [T, S, d], of all pdfs or those given. O(T C S K d) for C codebooks in use."""
        pdfs = np.arange(self.num_pdfs) if pdfs is None else np.asarray(pdfs)
        scores = np.empty((len(frames), len(pdfs)), np.float32)
        for start in range(0, len(frames), BLOCK):
            block = np.asarray(frames[start : start + BLOCK], np.float32)
            for codebook in np.unique(self.codebooks[pdfs]):
                columns = np.flatnonzero(self.codebooks[pdfs] == codebook)
                scores[start : start + BLOCK, columns] = sum(
                    _log_sums(self._gaussians(block, codebook, stream), self.weights[pdfs[columns], stream])
                    for stream in range(self.means.shape[1])
                )
        return scores

    def _gaussians(self, frames: Array, codebook: int, stream: int) -> Array:
        """log Normal(x_t; k) [T, K]."""
        constants, slopes = self._polynomial
        x = frames[:, stream]
        scores: Array = np.hstack([x, x * x]) @ slopes[codebook, stream].T
        return scores + constants[codebook, stream]

    @cached_property
    def _polynomial(self) -> tuple[Array, Array]:
        """log Normal(x) = constant [C, S, K] + slopes [C, S, K, 2 d] . (x, x^2)."""
        constants = -0.5 * (np.log(2 * np.pi * self.variances) + self.means**2 / self.variances).sum(axis=-1)
        slopes = np.concatenate([self.means / self.variances, -0.5 / self.variances], axis=-1)
        return constants.astype(np.float32), slopes.astype(np.float32)


def _log_sums(scores: Array, weights: Array) -> Array:
    """log sum_k weights[p, k] exp(scores[t, k]): [T, P]."""
    highest = scores.max(axis=1, keepdims=True)
    sums = np.exp(scores - highest) @ weights.T.astype(np.float32)
    return np.asarray(highest + np.log(np.maximum(sums, np.finfo(np.float32).tiny)))


def stream_frames(cepstra: Array) -> Array:
    """Cepstra [T, d] with deltas c[t + 2] - c[t - 2] and second deltas as three streams [T, 3, d], as in CMU Sphinx.

    >>> stream_frames(np.arange(8.0)[:, None])[3].ravel().tolist()
    [3.0, 4.0, 0.0]
    """
    places = np.arange(len(cepstra))

    def at(offset: int) -> Array:
        return cepstra[(places + offset).clip(0, len(cepstra) - 1)]

    return np.stack([cepstra, at(2) - at(-2), at(3) - at(-1) - at(1) + at(-3)], axis=1)
