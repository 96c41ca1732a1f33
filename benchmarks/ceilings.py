"""The machine's ceilings: rates of large products and of a copy."""

from __future__ import annotations

import numpy as np
import torch

from benchmarks.measure import Run, best_seconds
from bochner.ops import has_bf16_units

SIZE = {"cpu": 4096, "cuda": 8192}


def ceilings(device: torch.device, *, size: int | None = None) -> dict[str, float]:
    """GFLOP/s of square products of random numbers, by their precision, and GB/s of a copy, read and written.

    No dense step is faster than the products, and none that reads its numbers once is faster than the copy. "numpy" is
    NumPy's float32 product on a CPU; "bf16" is included if the device has units for it.
    """
    A = _square(device, size)
    size = len(A)
    runs = {"float32": _product(A)}
    if device.type == "cpu":
        runs["numpy"] = _numpy_product(A)
    if has_bf16_units(device):
        runs["bf16"] = _product(A.bfloat16())
    rates = {name: 2 * size**3 / best_seconds(run, device) / 1e9 for name, run in runs.items()}
    long = A.repeat(4, 1)
    target = torch.empty_like(long)
    return rates | {"copy": 2 * long.nbytes / best_seconds(lambda: target.copy_(long), device) / 1e9}


def large_product(device: torch.device, *, size: int | None = None) -> tuple[Run, float]:
    """The float32 product whose rate is the ceiling, and its operations."""
    A = _square(device, size)
    return _product(A), 2.0 * len(A) ** 3


def _square(device: torch.device, size: int | None) -> torch.Tensor:
    size = size or SIZE[device.type]
    return torch.randn(size, size, generator=torch.Generator().manual_seed(0)).to(device)


def shown(rates: dict[str, float]) -> str:
    """`float32 176 GFLOP/s, .., copy 30 GB/s`."""
    return ", ".join(f"{name} {rate:,.0f} {'GB/s' if name == 'copy' else 'GFLOP/s'}" for name, rate in rates.items())


def _product(A: torch.Tensor) -> Run:
    out = torch.empty_like(A)
    return lambda: torch.mm(A, A, out=out)


def _numpy_product(A: torch.Tensor) -> Run:
    B = A.numpy()
    out = np.empty_like(B)
    return lambda: np.matmul(B, B, out=out)
