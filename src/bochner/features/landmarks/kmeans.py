"""K-means centres."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.features.landmarks.sampling import uniform_sample
from bochner.ops import row_tiles, squared_distances

# Lloyd's algorithm looks at this many points a centre; more do not move the centres noticeably.
POINTS_PER_CENTER = 50
TILE_ELEMENTS = 2**22


def kmeans_centers(X: Tensor, num_centers: int, *, generator: Generator, rounds: int = 10) -> Tensor:
    """Centres [m, d] of X [n, d] by `rounds` of Lloyd's algorithm from random points, on X's device.

    At most 50 points a centre are used. An empty cluster moves to the point farthest from its centre.
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
