"""Triton where it is installed; without it this package still imports, and nothing chooses it."""

# mypy: ignore-errors

from __future__ import annotations

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


__all__ = ["TensorDescriptor", "Tiles", "cdiv", "factor_type", "jit", "next_power_of_2", "precision", "tl"]


class Tiles(NamedTuple):
    """How a product is cut: rows and columns of a tile of the result, terms of its sums read at once, and who works."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int

    def of(self, like: Tensor) -> Tiles:
        """For that dtype: the depth is given for two bytes a number, and what is read at once stays as many bytes."""
        return self._replace(depth=self.depth * 2 // like.itemsize)


def factor_type(like: Tensor) -> Any:
    """What the factors of a product are read as: as they lie, but Triton's interpreter multiplies no bfloat16."""
    interpreted = not like.is_cuda
    names = {torch.float32: tl.float32, torch.bfloat16: tl.float32 if interpreted else tl.bfloat16}
    return names.get(like.dtype, tl.float16)


def precision(like: Tensor) -> str:
    """TF32 for float32 where the caller has allowed it to torch's own products, else every bit."""
    return "tf32" if like.dtype != torch.float32 or torch.backends.cuda.matmul.allow_tf32 else "ieee"
