"""Several steps of plain SGD with one read of the weights."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from bochner.ops.step import long_product, update_head
from bochner.ops.tiles import row_tiles

Gradient = Callable[[Tensor, slice, Tensor], object]
"""Called with the outputs [B, C] of the rows in the slice, to write the derivative of their mean loss by them."""

# Operations that a GPU of today does while it reads a byte, times the bytes of a weight that is read and written.
BALANCE = 2000


def superbatch_steps(
    weights: Tensor,
    Z: Tensor,
    gradient: Gradient,
    *,
    rate: float,
    batch_size: int,
    copy: Tensor | None = None,
    along: Tensor | None = None,
) -> None:
    """weights <- weights - rate g_k^T z_k for the minibatches k = 1, 2, .. of Z [n, D], `batch_size` rows each.

    The outputs of minibatch k with the weights of its own moment are

        z_k Theta_k = z_k Theta_1 - rate sum_(j < k) (z_k z_j^T) g_j,

    so one product with weights [C, D] serves all of them, small ones between minibatches correct it, and the weights
    are written once: the iterates of plain SGD up to rounding. O(nDC + n^2 D / 2), and the weights' traffic divided by
    the number of minibatches. `copy` is that of `update_head`; with it products read the copy. Where `along` [n, D]
    is given, steps go along its rows: they stand for the z_k of the first line and the z_j of the second.

    >>> Z, weights = torch.eye(2).repeat(2, 1), torch.zeros(1, 2)
    >>> superbatch_steps(weights, Z, lambda outputs, rows, out: torch.sub(outputs, 1, out=out), rate=0.5, batch_size=1)
    >>> weights  # half of the way to 1, twice
    tensor([[0.7500, 0.7500]])
    """
    along = Z if along is None else along
    outputs = long_product(Z, weights if copy is None else copy)[:, : len(weights)]
    G = torch.empty_like(outputs)
    for rows in row_tiles(len(Z), row_elements=1, tile_elements=batch_size):
        current, before = outputs[rows], slice(0, rows.start)
        if rows.start:
            current = torch.addmm(current, long_product(Z[rows], along[before]), G[before], alpha=-rate)
        gradient(current, rows, G[rows])
    update_head(weights, G, along, rate=rate, copy=copy)


def minibatches_at_once(num_outputs: int, batch_size: int) -> int:
    """The superbatch that balances its two costs on a GPU: reading C weights a feature once, comparing n rows.

    With c bytes of a weight's traffic and f operations a byte, C c f / K + B^2 (K - 1) is least at sqrt(C c f) / B.

    >>> minibatches_at_once(147, 256), minibatches_at_once(1000, 256), minibatches_at_once(147, 32)
    (2, 6, 17)
    """
    return max(1, round(math.sqrt(BALANCE * num_outputs) / batch_size))
