"""Tiles that bound memory, and squared Euclidean distances as one matrix product."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

# Numbers in one tile of a large array (a block of features or of a kernel matrix), unless a module says otherwise:
# 16 MiB in float32. Matrix products reach full speed well below this size, and memory stays small beside the data.
TILE_ELEMENTS = 2**22


def row_tiles(num_rows: int, *, row_elements: int, tile_elements: int) -> Iterator[slice]:
    """Slices that cover `num_rows`, each as many rows as fit into `tile_elements` (at least one).

    >>> list(row_tiles(5, row_elements=10, tile_elements=25))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, tile_elements // max(1, row_elements))
    for start in range(0, num_rows, step):
        yield slice(start, min(start + step, num_rows))


def squared_distances(X: Tensor, Y: Tensor) -> Tensor:
    """||x_i - y_j||^2 for X [n, d] and Y [m, d], as [n, m].

    ||x||^2 + ||y||^2 - 2 x.y loses digits when the points lie far from the origin, so both are first moved by the
    mean of Y. Cost O(nmd), and two arrays [n, m].
    """
    center = Y.mean(dim=0)
    X, Y = X - center, Y - center
    squares = torch.addmm(Y.square().sum(dim=1), X, Y.T, alpha=-2)
    return (squares + X.square().sum(dim=1, keepdim=True)).clamp_min_(0)
