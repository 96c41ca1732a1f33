"""Landmarks of Nystrom maps: uniform, k-means, ridge leverage scores and pivoted Cholesky."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.kernels import Kernel
from bochner.ops import TILE_ELEMENTS, row_tiles, squared_distances

LANDMARK_RULES = ["uniform", "kmeans", "leverage", "pivoted-cholesky"]


def uniform_sample(population: int, count: int, *, generator: Generator) -> Tensor:
    """`count` distinct indices below `population`, each subset equally likely."""
    return torch.randperm(population, generator=generator, device=generator.device)[:count]


def weighted_sample(weights: Tensor, count: int, *, generator: Generator) -> Tensor:
    """`count` distinct indices, drawn one after another in proportion to the weights that are left.

    This is the distribution of the largest log-weights after Gumbel noise is added; indices of weight 0 come last.
    """
    uniforms = torch.rand(len(weights), generator=generator, device=generator.device, dtype=torch.float64)
    gumbel = -torch.log(-torch.log(uniforms.clamp(1e-300, 1 - 1e-16)))
    return (weights.double().log() + gumbel.to(weights.device)).topk(count).indices


# Points per centre for Lloyd's algorithm; more do not move the centres noticeably.
POINTS_PER_CENTER = 50


def kmeans_centers(X: Tensor, num_centers: int, *, generator: Generator, rounds: int = 10) -> Tensor:
    """Centres [m, d] of X [n, d] by `rounds` of Lloyd's algorithm from random points, on X's device.

    At most 50 points per centre are used. An empty cluster moves to the point farthest from its centre.
    O(rounds * n' m d) with n' = min(n, 50 m). Source for Nystrom: Zhang, Tsang & Kwok 2008.

    >>> X = torch.tensor([[0.0], [0.1], [9.0], [9.1]])
    >>> kmeans_centers(X, 2, generator=Generator().manual_seed(0)).sort(dim=0).values
    tensor([[0.0500],
            [9.0500]])
    """
    checks.positive_int("num_centers", num_centers)
    if num_centers > len(X):
        raise ValueError(f"num_centers must be at most the number of points, {len(X)}, got {num_centers}.")
    points = min(len(X), POINTS_PER_CENTER * num_centers)
    X = X[uniform_sample(len(X), points, generator=generator).to(X.device)]
    centers = X[:num_centers].clone()
    for _ in range(rounds):
        distances, nearest = _assign(X, centers)
        counts = torch.bincount(nearest, minlength=num_centers)
        sums = torch.zeros_like(centers).index_add_(0, nearest, X)
        moved = sums / counts.clamp_min(1)[:, None]
        empty = counts == 0
        if empty.any():
            moved[empty] = X[distances.topk(int(empty.sum())).indices]
        if torch.equal(moved, centers):
            break
        centers = moved
    return centers


def _assign(X: Tensor, centers: Tensor) -> tuple[Tensor, Tensor]:
    """Squared distance to the nearest centre and its index, for every point."""
    distances, nearest = X.new_empty(len(X)), torch.empty(len(X), dtype=torch.long, device=X.device)
    for tile in row_tiles(len(X), row_elements=len(centers), tile_elements=TILE_ELEMENTS):
        least = squared_distances(X[tile], centers).min(dim=1)
        distances[tile], nearest[tile] = least.values, least.indices
    return distances, nearest


def leverage_sample(kernel: Kernel, X: Tensor, num_landmarks: int, *, generator: Generator) -> Tensor:
    """Indices [m] of distinct points of X [n, d], in proportion to their approximate ridge leverage scores.

    The score l_i = (K (K + lambda I)^-1)_ii is large for points that the others approximate poorly. The points are
    halved at random until about m are left. The sample of each level then gives the scores of the next larger one, from
    which its sample is drawn. O(n m^2 + nmd). Source: Musco & Musco 2017.
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
        keep = keep * min(1.0, num_landmarks / float(keep.sum()))  # about m points per level
        coins = torch.rand(size, generator=generator, device=generator.device).to(X.device)
        picked = (coins < keep).nonzero().squeeze(1)
        if len(picked) > 0:
            chosen, weights = level[picked], keep[picked].rsqrt()
    raise AssertionError("the last level is the whole set")


def _leverage_scores(kernel: Kernel, X: Tensor, sample: Tensor, weights: Tensor, oversampling: float) -> Tensor:
    """Scores [n] of X from a weighted sample [s, d]: (k(x, x) - k_x S (S^T K S + lambda I)^-1 S^T k_x) / lambda.

    lambda is the sum of the eigenvalues of the weighted sample past the first q = s / (4 log m), divided by q: with
    this penalty the effective dimension is about q.
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


class PivotedCholesky(NamedTuple):
    """K ~ F F^T from the columns of K at the pivots."""

    pivots: Tensor  # [m] indices into X
    factor: Tensor  # [n, m]


def pivoted_cholesky(
    kernel: Kernel, X: Tensor, rank: int, *, generator: Generator, block_size: int = 64
) -> PivotedCholesky:
    """Partial Cholesky factorisation of k(X, X), X [n, d], with pivots drawn in proportion to the residual diagonal.

    The accelerated form: `block_size` pivots are proposed at once from the residual diagonal, and each is accepted with
    the probability that gives the distribution of one pivot at a time. Only m columns of K are evaluated, in float64.
    O(n m^2 + nmd) time, O(nm) memory. Source: Chen et al. 2025; Epperly et al. 2024.
    """
    points = X.double()
    residual = kernel.diagonal(points).clone()
    start = float(residual.sum())
    factor = residual.new_zeros(len(X), rank)
    pivots: list[int] = []
    while len(pivots) < rank:
        if float(residual.sum()) <= 1e-14 * start:  # K is reproduced exactly: any further points will do
            unused = torch.ones(len(X), dtype=torch.bool)
            unused[pivots] = False
            pivots += unused.nonzero().squeeze(1)[: rank - len(pivots)].tolist()
            break
        proposals = _proposals(residual, min(block_size, 2 * (rank - len(pivots))), generator)
        known = factor[:, : len(pivots)]
        core = checks.finite("k(X, X)", kernel(points[proposals])) - known[proposals] @ known[proposals].T
        accepted = _accept(core, residual[proposals], proposals, generator)[: rank - len(pivots)]
        if not accepted:
            continue
        new = proposals[accepted]
        columns = checks.finite("k(X, X)", kernel(points, points[new])) - known @ known[new].T
        L = torch.linalg.cholesky(core[accepted][:, accepted])
        columns = torch.linalg.solve_triangular(L, columns.T, upper=False).T
        factor[:, len(pivots) : len(pivots) + len(accepted)] = columns
        residual = (residual - columns.square().sum(dim=1)).clamp_min(0)
        residual[new] = 0
        pivots += new.tolist()
    return PivotedCholesky(torch.tensor(pivots, device=X.device), factor)


def _proposals(residual: Tensor, count: int, generator: Generator) -> Tensor:
    """Indices drawn with replacement in proportion to the residual, by inverting its cumulative sum."""
    heights = residual.cumsum(0)
    uniforms = torch.rand(count, generator=generator, device=generator.device, dtype=torch.float64)
    return torch.searchsorted(heights, uniforms.to(residual.device) * heights[-1]).clamp_max(len(residual) - 1)


def _accept(core: Tensor, bounds: Tensor, proposals: Tensor, generator: Generator) -> list[int]:
    """Indices of accepted proposals: each is accepted with the share of its residual that the previous ones leave."""
    coins = torch.rand(len(core), generator=generator, device=generator.device, dtype=torch.float64)
    H, coins, bounds = core.cpu().clone(), coins.cpu(), bounds.cpu()
    accepted: list[int] = []
    for i in range(len(H)):
        left = float(H[i, i])
        # The floor keeps the Cholesky factorisation of the accepted block positive definite.
        if left > 1e-10 * float(bounds[i]) and float(coins[i]) * float(bounds[i]) < left:
            accepted.append(i)
            column = H[:, i] / left**0.5
            H -= column[:, None] * column
    return accepted


def choose_landmarks(rule: str, kernel: Kernel, X: Tensor, num_landmarks: int, *, generator: Generator) -> Tensor:
    """`num_landmarks` points [m, d] for X [n, d]:

    "uniform" points of X, "kmeans" centres, or points of X by ridge "leverage" scores or by random pivots of a
    "pivoted-cholesky" factorisation of k(X, X).
    """
    checks.one_of("landmarks", rule, LANDMARK_RULES)
    checks.positive_int("num_landmarks", num_landmarks)
    checks.inputs("X", X)
    if num_landmarks > len(X):
        raise ValueError(f"num_landmarks must be at most the number of points, {len(X)}, got {num_landmarks}.")
    match rule:
        case "uniform":
            return X[uniform_sample(len(X), num_landmarks, generator=generator).to(X.device)]
        case "kmeans":
            return kmeans_centers(X, num_landmarks, generator=generator)
        case "leverage":
            return X[leverage_sample(kernel, X, num_landmarks, generator=generator)]
        case _:
            return X[pivoted_cholesky(kernel, X, num_landmarks, generator=generator).pivots]
