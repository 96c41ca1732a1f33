"""Shared by the Triton kernels: Triton's names, tiles, dtypes of products, cosines and sines.

Without Triton the package can be imported but is not used.
"""

# mypy: ignore-errors

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

try:
    import triton.language as tl
    from triton import cdiv, jit, next_power_of_2
    from triton.tools.tensor_descriptor import TensorDescriptor
except ModuleNotFoundError:
    TensorDescriptor = cdiv = next_power_of_2 = tl = None

    def jit(kernel: Any) -> Any:
        return kernel


# sin(2 pi u) for |u| <= 1/4 as u (c0 + c1 u^2 + ..), with an error of at most 6e-7: below that of float32 angles.
SERIES = (6.283164044062762, -41.33714233293181, 81.34076742677588, -70.99341772580206)
TURNS = 1 / (2 * math.pi)


class Tiles(NamedTuple):
    """Tiles of a product: rows and columns of the result, terms of its sums read at once, warps and pipeline stages."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int

    def of(self, like: Tensor) -> Tiles:
        """The tiles for another dtype: `depth` is for 16-bit numbers, and the bytes read at once stay the same."""
        return self._replace(depth=self.depth * 2 // like.itemsize)


def factor_type(like: Tensor) -> Any:
    """The type of the factors of a product: their own, but float32 for bfloat16 in Triton's interpreter."""
    interpreted = not like.is_cuda
    names = {torch.float32: tl.float32, torch.bfloat16: tl.float32 if interpreted else tl.bfloat16}
    return names.get(like.dtype, tl.float16)


def precision(like: Tensor) -> str:
    """TF32 for float32 if it is allowed for torch's own products, else full precision."""
    return "tf32" if like.dtype != torch.float32 or torch.backends.cuda.matmul.allow_tf32 else "ieee"


def scaled_series(amplitude: float) -> tuple[float, ...]:
    """The coefficients for amplitude sin(2 pi u); the factor then costs nothing."""
    return tuple(amplitude * c for c in SERIES)


@jit
def scaled_cosine(turns, c0, c1, c2, c3):
    """a cos(2 pi turns), with the amplitude a in the coefficients c0 to c3.

    Ten operations without a branch. Adding and subtracting 1.5 * 2^23 rounds to the nearest integer, at four times the
    rate of the rounding instruction.
    """
    turns = turns - ((turns + 12582912.0) - 12582912.0)
    u = 0.25 - tl.abs(turns)
    square = u * u
    return u * (c0 + square * (c1 + square * (c2 + square * c3)))


@jit
def fast_cosine(angles, INTERPRETED: tl.constexpr):
    """cos(angles) by the special function unit, with an error of at most 2^-20: enough for 16-bit results."""
    return tl.cos(angles) if INTERPRETED else _special_function(angles, "cos.approx.ftz.f32 $0, $1;")


@jit
def fast_sine(angles, INTERPRETED: tl.constexpr):
    """sin(angles) in the same way."""
    return tl.sin(angles) if INTERPRETED else _special_function(angles, "sin.approx.ftz.f32 $0, $1;")


@jit
def _special_function(angles, INSTRUCTION: tl.constexpr):
    return tl.inline_asm_elementwise(INSTRUCTION, "=f,f", [angles], dtype=tl.float32, is_pure=True, pack=1)
