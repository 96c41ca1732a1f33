"""Mixtures of diagonal Gaussians, one for each pdf, as flat arrays."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from bochner.storage import read_tensors, write_tensors

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Mixtures:
    """p(x | pdf) = sum_g weights[g] Normal(x; means[g], variances[g]) over the Gaussians g of that pdf.

    The Gaussians of pdf p are the rows offsets[p] <= g < offsets[p + 1]: `sizes` [P] counts them, `weights` [G] sum
    to 1 over each pdf, `means` and `variances` are [G, d]; all float64. Frames are [T, d].

    >>> one = Mixtures(sizes=np.array([1]), weights=np.ones(1), means=np.zeros((1, 2)), variances=np.ones((1, 2)))
    >>> one.log_likelihoods(np.zeros((1, 2))).round(4)  # -log(2 pi)
    array([[-1.8379]], dtype=float32)
    """

    sizes: Array
    weights: Array
    means: Array
    variances: Array

    def __post_init__(self) -> None:
        gaussians, dim = self.means.shape
        if self.weights.shape != (gaussians,) or self.variances.shape != (gaussians, dim):
            raise ValueError(
                f"weights and variances must fit means {self.means.shape}, got {self.weights.shape} "
                f"and {self.variances.shape}."
            )
        if self.sizes.sum() != gaussians or (self.sizes < 1).any():
            raise ValueError(f"sizes must be at least 1 and sum to the {gaussians} Gaussians, got {self.sizes}.")
        if not (self.variances > 0).all() or not np.isfinite(self.means).all():
            raise ValueError("variances must be positive and means finite.")

    @property
    def num_pdfs(self) -> int:
        return len(self.sizes)

    @property
    def num_gaussians(self) -> int:
        return len(self.weights)

    @property
    def dim(self) -> int:
        return int(self.means.shape[1])

    @cached_property
    def offsets(self) -> Array:
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @property
    def pdf_of_gaussian(self) -> Array:
        return np.repeat(np.arange(self.num_pdfs), self.sizes)

    def log_likelihoods(self, frames: Array, *, pdfs: Array | None = None) -> Array:
        """log p(x_t | pdf) as float32 [T, P], or one column for each of `pdfs`. O(T G d)."""
        chosen = np.arange(self.num_pdfs) if pdfs is None else np.asarray(pdfs)
        sizes = self.sizes[chosen]
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        rows = np.arange(sizes.sum()) + np.repeat(self.offsets[chosen] - starts, sizes)
        return _log_sums(self._components(frames, rows), starts, sizes).T

    def component_log_likelihoods(self, frames: Array, rows: Array | slice) -> Array:
        """log(weights[g] Normal(x_t; g)) for the Gaussians `rows`, as float32 [T, rows]."""
        return self._components(frames, rows).T

    def _components(self, frames: Array, rows: Array | slice) -> Array:
        """[rows, T]: the Gaussians of a pdf lie in neighbouring rows, where sums over them are fast."""
        constant, linear, quadratic = self._polynomial
        frames = np.asarray(frames, dtype=np.float32)
        if frames.ndim != 2 or frames.shape[1] != self.dim:
            raise ValueError(f"frames must be [T, {self.dim}], got {list(frames.shape)}.")
        scores: Array = linear[rows] @ frames.T
        scores += quadratic[rows] @ (frames * frames).T
        scores += constant[rows, None]
        return scores

    def save(self, path: str | os.PathLike[str]) -> None:
        arrays = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in self._arrays().items()}
        write_tensors(path, arrays, {"mixtures": 1})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Mixtures:
        tensors, _ = read_tensors(path)
        try:
            return cls(**{name: tensor.numpy() for name, tensor in tensors.items()})
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path} does not hold mixtures of Gaussians: {error}") from error

    def _arrays(self) -> dict[str, Array]:
        return {"sizes": self.sizes, "weights": self.weights, "means": self.means, "variances": self.variances}

    @cached_property
    def _polynomial(self) -> _Polynomial:
        logs = np.log(np.maximum(self.weights, 1e-30)) - 0.5 * np.log(2 * np.pi * self.variances).sum(axis=1)
        constant = logs - 0.5 * (self.means**2 / self.variances).sum(axis=1)
        parts = (constant, self.means / self.variances, -0.5 / self.variances)
        return _Polynomial(*(part.astype(np.float32) for part in parts))


class _Polynomial(NamedTuple):
    """log(w Normal(x)) = constant + linear . x + quadratic . x^2."""

    constant: Array
    linear: Array
    quadratic: Array


def _log_sums(scores: Array, starts: Array, sizes: Array) -> Array:
    """log sum exp over each stretch of rows. Stretches of one size go together: `reduceat` takes four times as long."""
    if (sizes == 1).all():
        return scores
    sums = np.empty((len(sizes), scores.shape[1]), scores.dtype)
    for size in np.unique(sizes):
        alike = np.flatnonzero(sizes == size)
        terms = scores[starts[alike, None] + np.arange(size)]
        highest = terms.max(axis=1)
        np.exp(terms - highest[:, None], out=terms)
        sums[alike] = highest + np.log(terms.sum(axis=1))
    return sums
