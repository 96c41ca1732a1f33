"""The fast Hadamard transform compared with a product with the matrix and with butterflies."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.report import Row
from benchmarks.suite.race import PLAIN, race
from benchmarks.suite.sizes import Sizes
from bochner.ops import hadamard_matrix, hadamard_transform


def rows(sizes: Sizes) -> Iterator[Row]:
    count, d = sizes.transform_rows, sizes.transform_width
    X = torch.randn(count, d, generator=torch.Generator().manual_seed(0)).to(sizes.device)
    H, out = hadamard_matrix(d).to(sizes.device).div_(d**0.5), torch.empty_like(X)
    buffers = torch.empty_like(X), torch.empty_like(X)

    def in_buffers() -> Tensor:
        return hadamard_transform(buffers[0].copy_(X), scratch=buffers[1])

    ours = {"hadamard_transform": lambda: hadamard_transform(X), "with scratch": in_buffers}
    peers = {f"{PLAIN}: product": lambda: torch.mm(X, H, out=out), f"{PLAIN}: butterflies": lambda: butterflies(X)}
    yield from race(f"Hadamard transform, {count:,} x {d:,}", ours, peers, sizes)


def butterflies(X: Tensor) -> Tensor:
    """The textbook algorithm: log2(d) passes of sums and differences."""
    count, d = X.shape
    half = 1
    while half < d:
        left, right = X.view(count, -1, 2, half).unbind(dim=2)
        X = torch.stack([left + right, left - right], dim=2).view(count, d)
        half *= 2
    return X / d**0.5
