"""The distance to the k-th nearest neighbour among all rows, which are read block by block."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from bochner import checks
from bochner.ops import row_tiles, squared_distances

# Yu et al. 2016 use the 50th: far enough not to depend on single points, near enough to depend on the density.
NEIGHBORS = 50
# Distances from the queries to some rows, in float64: 8 MiB.
TILE_ELEMENTS = 2**20


def neighbor_distance(
    queries: Tensor, blocks: Iterable[Tensor], *, norm: float = 2.0, subsets: Tensor, neighbors: int = NEIGHBORS
) -> float:
    """The mean over queries x [m, d] of the distance ||x - y||_norm to the k-th nearest row y of all `blocks` [., d].

    The queries are rows of the blocks, and no row is its own neighbour; of k rows or fewer the farthest counts.
    Distances are those over a subset of the inputs, and their mean over the `subsets` [s, inputs] is returned. In
    float64. O(N m d) for N rows and one subset of all inputs, O(s m k) memory beside a block.
    Source: Yu et al. 2016, Section 4.

    >>> X = torch.tensor([[0.0], [1.0], [3.0], [7.0]])
    >>> neighbor_distance(X, [X[:2], X[2:]], subsets=torch.tensor([[0]]), neighbors=1)  # the mean of 1, 1, 2 and 4
    2.0
    """
    checks.positive_int("neighbors", neighbors)
    queries, num_rows = queries.double(), 0
    # A query is at distance 0 from itself, so that its k-th neighbour has the (k + 1)-th smallest distance.
    nearest = [queries.new_full((len(queries), neighbors + 1), torch.inf) for _ in subsets]
    for block in blocks:
        num_rows += len(block)
        for tile in row_tiles(len(block), row_elements=len(queries), tile_elements=TILE_ELEMENTS):
            rows = block[tile].to(queries)
            for place, inputs in enumerate(subsets):
                U, V = queries[:, inputs], rows[:, inputs]
                distances = squared_distances(U, V).sqrt_() if norm == 2 else torch.cdist(U, V, p=norm)
                both = torch.cat([nearest[place], distances], dim=1)
                nearest[place] = both.topk(neighbors + 1, largest=False).values
    return float(torch.stack(nearest)[:, :, min(neighbors, num_rows - 1)].mean())
