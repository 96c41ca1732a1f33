"""The papers' two shapes, with synthetic frames that can be learned."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor


@dataclass(frozen=True)
class Shape:
    """A model and a training set of the papers; `rank` None is a head without a bottleneck."""

    name: str
    num_inputs: int
    num_features: int
    num_classes: int
    rank: int | None
    num_rows: int
    rate: float
    signal: float = 0.25  # distance of class centres, relative to the noise
    batch_size: int = 256

    @property
    def steps(self) -> int:
        """Steps per epoch."""
        return math.ceil(self.num_rows / self.batch_size)

    @property
    def amplitude(self) -> float:
        return math.sqrt(2 / self.num_features)

    @property
    def flops(self) -> float:
        """Operations of a plain step: projection, scores and derivatives."""
        head = 2 * self.num_features * (self.rank or self.num_classes)
        second = 3 * self.rank * self.num_classes if self.rank else 0
        return 2.0 * self.batch_size * (self.num_inputs * self.num_features + head + second)

    def with_features(self, num_features: int) -> Shape:
        return replace(self, num_features=num_features)


TIMIT = Shape("TIMIT", 440, 200_000, 147, None, 2_300_000, rate=64.0)
BN50 = Shape("BN-50", 360, 100_000, 5000, 1000, 16_000_000, rate=10.0, signal=1.0)


@dataclass(frozen=True)
class Problem:
    """Frames X [N, d] and states y [N], a map W [d, D], b [D], and the initial head; all float32."""

    shape: Shape
    X: Tensor
    y: Tensor
    W: Tensor
    b: Tensor
    head: list[Tensor]


def make_problem(shape: Shape, *, num_rows: int, device: torch.device, seed: int = 0) -> Problem:
    """Classes around random centres in noise; the bandwidth is sqrt(2 d)."""
    G = Generator(device).manual_seed(seed)
    d, D, C = shape.num_inputs, shape.num_features, shape.num_classes

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, generator=G, device=device)

    y = torch.randint(C, (num_rows,), generator=G, device=device)
    X = shape.signal * normal(C, d)[y] + normal(num_rows, d)
    W = normal(d, D).div_(math.sqrt(2 * d))
    b = torch.rand(D, generator=G, device=device) * (2 * math.pi)
    return Problem(shape, X, y, W, b, _head(shape, G, device))


def _head(shape: Shape, G: Generator, device: torch.device) -> list[Tensor]:
    """Zeros, or Glorot's uniform factors; the bias last."""
    D, C, r = shape.num_features, shape.num_classes, shape.rank
    bias = torch.zeros(C, device=device)
    if r is None:
        return [torch.zeros(C, D, device=device), bias]
    factors = [
        (2 * torch.rand(m, n, generator=G, device=device) - 1).mul_(math.sqrt(6 / (m + n))) for m, n in ((r, D), (C, r))
    ]
    return [*factors, bias]
