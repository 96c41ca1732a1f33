"""Fresh random inputs for the operations of a step, and how far each dtype may be off."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

# Relative error in the Frobenius norm: of the stored result, and of sums of rounded features.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 3e-6, torch.float16: 1e-3, torch.bfloat16: 1e-2}
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Draw:
    """Inputs from one seed; no size is a multiple of a tile's."""

    def __init__(self, seed: int) -> None:
        self.generator = Generator().manual_seed(seed)

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64).to(DEVICE, dtype)

    def below(self, limit: int, *shape: int) -> Tensor:
        return torch.randint(limit, shape, generator=self.generator).to(DEVICE)


def exact(*tensors: Tensor | None) -> list[Tensor | None]:
    """The same numbers in float64."""
    return [None if tensor is None else tensor.double() for tensor in tensors]


def error(found: Tensor, wanted: Tensor) -> float:
    assert found.shape == wanted.shape
    return float((found.double() - wanted.double()).norm() / wanted.double().norm())
