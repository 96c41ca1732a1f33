"""Triton's names, tile sizes and dtypes of products. Without Triton the package can be imported but is not used."""

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
