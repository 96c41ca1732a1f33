"""Mixtures of diagonal Gaussians: likelihoods, statistics, maximum likelihood updates, growth by splitting."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch

from bochner.checks import nonnegative_float, positive_int
from bochner.speech.frames import Array
from bochner.speech.text_files import FilePath
from bochner.storage import read_tensors, write_tensors

MIN_VARIANCE, MIN_WEIGHT = 1e-3, 1e-5
SPLIT_POWER, MIN_FRAMES = 0.25, 20.0  # Kaldi's; frames per Gaussian


@dataclass(frozen=True, eq=False)
class Mixtures:
    """p(x | pdf) = sum_g weights[g] Normal(x; means[g], variances[g]) over the Gaussians g of that pdf.

    The Gaussians of pdf p are the rows offsets[p] <= g < offsets[p + 1]: `sizes` [P] counts them, `weights` [G] sum
    to 1 over each pdf, `means` and `variances` are [G, d]; all float64. Frames are [T, d].

    >>> normal = Mixtures(sizes=np.array([1]), weights=np.ones(1), means=np.zeros((1, 2)), variances=np.ones((1, 2)))
    >>> normal.log_likelihoods(np.zeros((1, 2))).round(4)  # -log(2 pi)
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
        """[rows, T]: the Gaussians of a pdf are adjacent rows, over which sums are fast."""
        constant, linear, quadratic = self._polynomial
        frames = np.asarray(frames, dtype=np.float32)
        if frames.ndim != 2 or frames.shape[1] != self.dim:
            raise ValueError(f"frames must be [T, {self.dim}], got {list(frames.shape)}.")
        scores: Array = linear[rows] @ frames.T
        scores += quadratic[rows] @ (frames * frames).T
        scores += constant[rows, None]
        return scores

    def save(self, path: FilePath) -> None:
        arrays = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in self._arrays().items()}
        write_tensors(path, arrays, {"mixtures": 1})

    @classmethod
    def load(cls, path: FilePath) -> Mixtures:
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
    """log sum exp over consecutive rows, all pdfs of one size at once, four times as fast as `reduceat`."""
    if (sizes == 1).all():
        return scores
    sums = np.empty((len(sizes), scores.shape[1]), scores.dtype)
    for size in np.unique(sizes):
        pdfs = np.flatnonzero(sizes == size)
        terms = scores[starts[pdfs, None] + np.arange(size)]
        highest = terms.max(axis=1)
        np.exp(terms - highest[:, None], out=terms)
        sums[pdfs] = highest + np.log(terms.sum(axis=1))
    return sums


@dataclass(frozen=True, eq=False)
class MixtureStatistics:
    """Posterior-weighted sums over frames: `occupancy` [G], `first` and `second` moments [G, d]; log likelihood."""

    occupancy: Array
    first: Array
    second: Array
    log_likelihood: float

    @classmethod
    def zeros(cls, *, num_gaussians: int, dim: int) -> MixtureStatistics:
        moments = np.zeros((num_gaussians, dim))
        return cls(np.zeros(num_gaussians), moments, moments.copy(), 0.0)

    def __add__(self, other: MixtureStatistics) -> MixtureStatistics:
        return MixtureStatistics(
            self.occupancy + other.occupancy,
            self.first + other.first,
            self.second + other.second,
            self.log_likelihood + other.log_likelihood,
        )

    @property
    def num_frames(self) -> float:
        return float(self.occupancy.sum())


def accumulate(mixtures: Mixtures, frames: Array, pdfs: Array) -> MixtureStatistics:
    """Statistics of frames [N, d] whose pdfs [N] are given: gamma_t(g) = p(g | x_t, pdf_t). O(N d G / P)."""
    sums = MixtureStatistics.zeros(num_gaussians=mixtures.num_gaussians, dim=mixtures.dim)
    frames, total = np.asarray(frames), 0.0
    for rows, places in _by_pdf(mixtures, pdfs):
        here = frames[places]
        posteriors, log_likelihoods = _posteriors(mixtures.component_log_likelihoods(here, rows))
        sums.occupancy[rows] = posteriors.sum(axis=0, dtype=np.float64)
        sums.first[rows] = posteriors.T @ here
        sums.second[rows] = posteriors.T @ (here * here)
        total += float(log_likelihoods.sum(dtype=np.float64))
    return MixtureStatistics(sums.occupancy, sums.first, sums.second, total)


def best_gaussians(mixtures: Mixtures, frames: Array, pdfs: Array) -> Array:
    """The likeliest Gaussian [N] of each frame [N, d] among those of its pdf [N]."""
    frames, best = np.asarray(frames), np.empty(len(pdfs), dtype=np.int64)
    for rows, places in _by_pdf(mixtures, pdfs):
        best[places] = rows.start + mixtures.component_log_likelihoods(frames[places], rows).argmax(axis=1)
    return best


def update(
    mixtures: Mixtures, statistics: MixtureStatistics, *, min_occupancy: float = 3.0, shared_variance: bool = False
) -> Mixtures:
    """The maximum likelihood estimate.

    A Gaussian with an occupancy below `min_occupancy` or a weight below 1e-5 is dropped, unless it is the heaviest of a
    pdf that would lose all its Gaussians; that one is not changed. Variances are at least 1e-3. With `shared_variance`
    all Gaussians have the mean of their variances, so that no broad one attracts the frames of the others.

    Source: Kaldi's `MleDiagGmmUpdate`.
    """
    nonnegative_float("min_occupancy", min_occupancy)
    occupancy, pdf = statistics.occupancy, mixtures.pdf_of_gaussian
    totals = np.repeat(np.add.reduceat(occupancy, mixtures.offsets[:-1]), mixtures.sizes)
    weights = np.where(totals > 0, occupancy / np.where(totals > 0, totals, 1.0), mixtures.weights)
    seen = (occupancy >= max(min_occupancy, 1e-10)) & (weights >= MIN_WEIGHT)
    divisor = np.where(seen, occupancy, 1.0)[:, None]
    means = np.where(seen[:, None], statistics.first / divisor, mixtures.means)
    spread = np.maximum(statistics.second / divisor - means**2, MIN_VARIANCE)
    if shared_variance and seen.any():
        spread[:] = np.average(spread[seen], axis=0, weights=occupancy[seen])
    variances = np.where(seen[:, None] | shared_variance, spread, mixtures.variances)
    kept = seen | _sole_survivors(seen, weights, mixtures)
    sizes = np.bincount(pdf[kept], minlength=mixtures.num_pdfs)
    weights = weights[kept] / np.repeat(np.add.reduceat(weights[kept], np.cumsum(sizes) - sizes), sizes)
    return Mixtures(sizes, weights, means[kept], variances[kept])


def split(
    mixtures: Mixtures,
    *,
    counts: Array,
    num_gaussians: int,
    generator: np.random.Generator,
    perturbation: float = 0.01,
) -> Mixtures:
    """Grow to `num_gaussians` in total by splitting, more for the pdfs with larger `counts` [P] of frames.

    The next Gaussian goes to the pdf with the largest counts^0.25 / size, as long as 20 frames remain for each of its
    Gaussians. A split halves the heaviest Gaussian and moves the halves apart by `perturbation` standard deviations in
    a random direction, from where EM separates them.

    Source: Kaldi's `AmDiagGmm::SplitByCount`.
    """
    targets = _targets(mixtures.sizes, np.asarray(counts, dtype=float), num_gaussians)
    if (targets == mixtures.sizes).all():
        return mixtures
    parts = []
    for pdf, target in enumerate(targets):
        rows = slice(mixtures.offsets[pdf], mixtures.offsets[pdf + 1])
        part = (mixtures.weights[rows], mixtures.means[rows], mixtures.variances[rows])
        parts.append(_split_one(*part, target, generator, perturbation))
    return Mixtures(targets, *(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _by_pdf(mixtures: Mixtures, pdfs: Array) -> Iterator[tuple[slice, Array]]:
    """For each pdf that occurs, its Gaussians and the frames that it occurs in."""
    order = np.argsort(pdfs, kind="stable")
    present, starts = np.unique(np.asarray(pdfs)[order], return_index=True)
    for pdf, places in zip(present, np.split(order, starts[1:]), strict=True):
        yield slice(int(mixtures.offsets[pdf]), int(mixtures.offsets[pdf + 1])), places


def _posteriors(scores: Array) -> tuple[Array, Array]:
    """Softmax over columns, and the logarithm of its denominator."""
    highest = scores.max(axis=1, keepdims=True)
    scores = np.exp(scores - highest)
    sums = scores.sum(axis=1, keepdims=True)
    return scores / sums, highest[:, 0] + np.log(sums[:, 0])


def _sole_survivors(seen: Array, weights: Array, mixtures: Mixtures) -> Array:
    """The heaviest Gaussian of each pdf that would lose all."""
    alone = np.zeros(len(seen), dtype=bool)
    survivors = np.add.reduceat(seen.astype(int), mixtures.offsets[:-1])
    for pdf in np.flatnonzero(survivors == 0):
        start, stop = mixtures.offsets[pdf], mixtures.offsets[pdf + 1]
        alone[start + np.argmax(weights[start:stop])] = True
    return alone


def _targets(sizes: Array, counts: Array, num_gaussians: int) -> Array:
    positive_int("num_gaussians", num_gaussians)
    targets = sizes.copy()
    queue = [(-(count**SPLIT_POWER) / size, pdf) for pdf, (count, size) in enumerate(zip(counts, sizes, strict=True))]
    heapq.heapify(queue)
    while queue and targets.sum() < num_gaussians:
        _, pdf = heapq.heappop(queue)
        if counts[pdf] >= (targets[pdf] + 1) * MIN_FRAMES:  # otherwise this pdf is full
            targets[pdf] += 1
            heapq.heappush(queue, (-(counts[pdf] ** SPLIT_POWER) / targets[pdf], pdf))
    return targets


def _split_one(
    weights: Array, means: Array, variances: Array, target: int, generator: np.random.Generator, perturbation: float
) -> tuple[Array, Array, Array]:
    while len(weights) < target:
        heaviest = int(np.argmax(weights))
        step = perturbation * np.sqrt(variances[heaviest]) * generator.standard_normal(means.shape[1])
        weights = np.append(weights, weights[heaviest] / 2)
        weights[heaviest] /= 2
        means = np.vstack([means, means[heaviest] - step])
        means[heaviest] += step
        variances = np.vstack([variances, variances[heaviest]])
    return weights, means, variances
