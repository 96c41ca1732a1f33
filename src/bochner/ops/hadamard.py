"""The fast Walsh-Hadamard transform, as a few small matrix products."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

# Small factors need little arithmetic, few factors need few passes; 16 was the fastest of 8 to 128 on a CPU.
FACTOR = 16
SINGLE_PRODUCT = 64  # up to this size one product with the whole matrix is as fast


def hadamard_matrix(size: int, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """H_1 = [1], H_2n = [[H_n, H_n], [H_n, -H_n]]: entries +1 and -1, H H^T = size I.

    >>> hadamard_matrix(2)
    tensor([[ 1.,  1.],
            [ 1., -1.]])
    """
    if size < 1 or size & (size - 1):
        raise ValueError(f"size must be a power of two, got {size}.")
    H = torch.ones(1, 1, dtype=dtype)
    while len(H) < size:
        H = torch.cat([torch.cat([H, H], dim=1), torch.cat([H, -H], dim=1)])
    return H


def hadamard_transform(X: Tensor, *, scratch: Tensor | None = None) -> Tensor:
    """X H / sqrt(d) along the last dimension, whose size d is a power of two; orthogonal and its own inverse.

    H_d is the Kronecker product of factors of 16 rows, so the axes of the reshaped array are multiplied one after
    another: O(N d (a + b + ...)) for d = a b .... Differentiable; any device and float dtype.

    With `scratch`, a contiguous buffer of X's shape, nothing is allocated: X and `scratch` are both overwritten and
    the result is one of the two.

    >>> hadamard_transform(torch.tensor([1.0, 0.0]))
    tensor([0.7071, 0.7071])
    """
    shape = X.shape
    for inner, factor in _axes(shape[-1]):
        H = _scaled_factor(factor, X.dtype, X.device)
        grid = (-1, factor) if inner == 1 else (-1, factor, inner)
        operands = (X.reshape(grid), H) if inner == 1 else (H, X.reshape(grid))
        if scratch is None:
            X = torch.matmul(*operands)
        else:
            torch.matmul(*operands, out=scratch.view(grid))
            X, scratch = scratch, X
    return X.reshape(shape)


def _axes(d: int) -> list[tuple[int, int]]:
    """(stride, factor) for each axis of the Kronecker factorisation, the last axis first."""
    if d < 1 or d & (d - 1):
        raise ValueError(f"the last dimension must be a power of two, got {d}.")
    axes: list[tuple[int, int]] = []
    inner = 1
    while inner < d or not axes:
        factor = d if d <= SINGLE_PRODUCT else min(FACTOR, d // inner)
        axes.append((inner, factor))
        inner *= factor
    return axes


@lru_cache(maxsize=64)
def _scaled_factor(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # a cached inference tensor could not enter a later backward pass
        return (hadamard_matrix(size, dtype=torch.float64) / math.sqrt(size)).to(dtype=dtype, device=device)
