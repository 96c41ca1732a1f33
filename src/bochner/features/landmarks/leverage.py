"""Sampling by approximate ridge leverage scores."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

from bochner.features.landmarks.sampling import uniform_sample, weighted_sample
from bochner.kernels import Kernel
from bochner.ops import row_tiles

TILE_ELEMENTS = 2**22


def leverage_sample(kernel: Kernel, X: Tensor, num_landmarks: int, *, generator: Generator) -> Tensor:
    """Indices [m] of distinct points of X [n, d], in proportion to their approximate ridge leverage scores.

    The score of a point, l_i = (K (K + lambda I)^-1)_ii, says how much of it the others cannot explain. The recursion
    of Musco & Musco 2017: points are halved at random until about m are left; going back up, the sample of one level
    gives the scores of the next, twice as large, and they give its sample. O(n m^2 + nmd) in all.
    """
    n = len(X)
    order = uniform_sample(n, n, generator=generator).to(X.device)
    sizes = [n]
    while sizes[-1] > 2 * num_landmarks:
        sizes.append(sizes[-1] // 2)
    chosen, weights = order[: sizes[-1]][:num_landmarks], X.new_ones(num_landmarks).double()
    oversampling = math.log(max(num_landmarks, 3))
    for size in reversed(sizes):
        level = order[:size]
        scores = _leverage_scores(kernel, X[level], X[chosen], weights, oversampling)
        if size == n:
            return level[weighted_sample(scores, num_landmarks, generator=generator)]
        keep = (oversampling * scores).clamp_max(1)
        keep = keep * min(1.0, num_landmarks / float(keep.sum()))  # about m points a level, never many more
        coins = torch.rand(size, generator=generator, device=generator.device).to(X.device)
        picked = (coins < keep).nonzero().squeeze(1)
        if len(picked) > 0:
            chosen, weights = level[picked], keep[picked].rsqrt()
    raise AssertionError("the last level is the whole set")


def _leverage_scores(kernel: Kernel, X: Tensor, sample: Tensor, weights: Tensor, oversampling: float) -> Tensor:
    """Scores [n] of X from a weighted sample [s, d]: (k(x, x) - k_x S (S^T K S + lambda I)^-1 S^T k_x) / lambda.

    lambda is the sum of the eigenvalues of the weighted sample past the first q = s / (4 log m), divided by q: the
    ridge that makes about q dimensions count.
    """
    K = weights[:, None] * kernel(sample.double()) * weights
    values = torch.linalg.eigvalsh(K).flip(0).clamp_min(0)
    top = max(1, math.ceil(len(sample) / (4 * oversampling)))
    ridge = max(float(values[top:].sum()) / top, 1e-9 * float(values[0]), 1e-300)
    K.diagonal().add_(ridge)
    L = torch.linalg.cholesky(K)
    scores = torch.empty(len(X), dtype=torch.float64, device=X.device)
    for tile in row_tiles(len(X), row_elements=len(sample), tile_elements=TILE_ELEMENTS):
        block = kernel(X[tile], sample).double() * weights
        explained = torch.linalg.solve_triangular(L, block.T, upper=False).square().sum(dim=0)
        scores[tile] = (kernel.diagonal(X[tile]).double() - explained) / ridge
    return scores.clamp(1e-12, 1)
