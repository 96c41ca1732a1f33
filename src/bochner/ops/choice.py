"""Which implementation serves a tensor: the fused kernels or plain torch."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor


def implementation(like: Tensor, *, multiplies: bool = True) -> Any:
    """The module whose functions compute on tensors such as `like`.

    The fused kernels where there are matrix units for them: an NVIDIA GPU of compute capability 8 or more, Triton
    installed (CUDA builds of torch bring it), and bfloat16, float16, or float32 whose products may be TF32; for an
    operation without products, any float32.

    >>> implementation(torch.ones(1)).__name__
    'bochner.ops.reference'
    """
    suits = _is_short(like.dtype) or (like.dtype == torch.float32 and not multiplies)
    name = "fused" if suits and like.is_cuda and _has_matrix_units(like.device) else "reference"
    return import_module(f"bochner.ops.{name}")


def _is_short(dtype: torch.dtype) -> bool:
    short = dtype in (torch.bfloat16, torch.float16)
    return short or (dtype == torch.float32 and torch.backends.cuda.matmul.allow_tf32)


@cache
def _has_matrix_units(device: torch.device) -> bool:
    return (
        torch.version.cuda is not None
        and find_spec("triton") is not None
        and torch.cuda.get_device_capability(device) >= (8, 0)
    )
