"""What a basis is adapted for: functions of the features of one batch that should fall."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from bochner.data.blocks import Block
from bochner.kernels import Kernel
from bochner.learn.heads import Head
from bochner.learn.losses import LOSSES

OBJECTIVES = ["kernel", "alignment", "loss"]
Objective = Callable[[Tensor, Block], Tensor]  # features Z [n, D], and the rows they were made of


def kernel_error(Z: Tensor, K: Tensor) -> Tensor:
    """The mean over pairs i != j of (k_ij - z_i . z_j)^2 / 2, for Z [n, D] and K [n, n].

    A batch of n rows holds n (n - 1) / 2 pairs: their mean has the expectation of one pair of different rows and much
    less noise than n / 2 separate ones, for the same features. O(n^2 D). Source: Alber et al. 2017, Eq. 8.

    >>> float(kernel_error(torch.eye(2), torch.full((2, 2), 0.5)))
    0.125
    """
    n = len(Z)
    errors = (Z @ Z.T - K).square()
    return (errors.sum() - errors.diagonal().sum()) / (2 * n * (n - 1))


def misalignment(Z: Tensor, y: Tensor) -> Tensor:
    """1 - <K, K_Y> / sqrt(<K, K> <K_Y, K_Y>) for K = Z Z^T and k_Y = 1 for equal classes, else 0; Z [n, D], y [n].

    All pairs count, those of a row with itself too. O(n^2 D).
    Source: Alber et al. 2017, Eq. 9, after Cristianini et al. 2001.

    >>> abs(float(misalignment(torch.eye(3)[[0, 0, 2]], torch.tensor([5, 5, 1])))) < 1e-6
    True
    """
    K = Z @ Z.T
    same = (y[:, None] == y).to(K)
    return 1 - (K * same).sum() / (K.norm() * same.norm())


def kernel_objective(kernel: Kernel) -> Objective:
    def value(Z: Tensor, block: Block) -> Tensor:
        with torch.no_grad():
            K = kernel(block.X)
        return kernel_error(Z, K)

    return value


def alignment_objective() -> Objective:
    def value(Z: Tensor, block: Block) -> Tensor:
        if block.y.ndim != 1 or block.y.is_floating_point():
            raise ValueError(
                f"objective='alignment' needs class indices [rows] as targets, got {block.y.dtype} "
                f"{tuple(block.y.shape)}; use objective='kernel', or 'loss' with Plan(loss='squared')."
            )
        return misalignment(Z, block.y)

    return value


def loss_objective(head: Head, loss: str) -> Objective:
    def value(Z: Tensor, block: Block) -> Tensor:
        return LOSSES[loss](head(Z), block.y, block.weight)

    return value
