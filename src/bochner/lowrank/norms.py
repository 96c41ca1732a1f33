"""Norms of matrices that are only multiplied with, and numbers with what is unsure about them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.features.landmarks import uniform_sample

# Columns of a block of Lanczos vectors: a sweep over K costs its kernel values, not these few products.
LANCZOS_COLUMNS = 4
LANCZOS_SWEEPS = 40


class Estimate(NamedTuple):
    """A number and what is unsure about it.

    `error` is a standard error where points were sampled, the bound ||E v - value v|| where a norm was iterated for
    (some eigenvalue of E lies that near), and 0 where nothing was estimated.
    """

    value: float
    error: float


def spectral_norm(
    multiply: Callable[[Tensor], Tensor], X: Tensor, *, generator: Generator, tolerance: float = 0.01
) -> Estimate:
    """The largest |eigenvalue| of a symmetric [n, n] operator, V [n, c] -> multiply(V), by block Lanczos.

    It ends when the residual ||E v - value v|| of the Ritz pair is below `tolerance` times the value, or after 40
    sweeps. The value is a lower bound, and the residual, its `error`, bounds the distance to an eigenvalue.
    X [n, d] gives n, dtype and device.

    >>> d = torch.linspace(-3, 2, 100, dtype=torch.float64)
    >>> found = spectral_norm(lambda V: d[:, None] * V, d[:, None], generator=Generator().manual_seed(0))
    >>> 2.9 < found.value <= 3, found.error < 0.03
    (True, True)
    """
    checks.positive_float("tolerance", tolerance)
    columns = min(LANCZOS_COLUMNS, len(X))
    normals = torch.randn(len(X), columns, generator=generator, device=generator.device, dtype=torch.float64)
    basis = torch.linalg.qr(normals.to(X)).Q
    images = latest = multiply(basis)
    last = min(LANCZOS_SWEEPS, len(X) // columns) - 1
    for sweep in range(last + 1):
        value, residual = _ritz_pair(basis, images)
        if residual <= tolerance * abs(value) or sweep == last:
            break
        new = orthogonal(latest, basis)
        latest = multiply(new)
        basis, images = torch.cat([basis, new], dim=1), torch.cat([images, latest], dim=1)
    return Estimate(abs(value), residual)


def orthogonal(new: Tensor, Q: Tensor) -> Tensor:
    """Orthonormal columns beside those of Q that span what `new` adds to them, in their shape.

    One factorisation of both: where `new` adds nothing, subtracting projections would leave columns of rounding.
    """
    return torch.linalg.qr(torch.cat([Q, new], dim=1)).Q[:, Q.shape[1] :]


def _ritz_pair(basis: Tensor, images: Tensor) -> tuple[float, float]:
    """The Ritz value of largest size, and its residual."""
    core = basis.T @ images
    values, vectors = torch.linalg.eigh((core + core.T) / 2)
    top = int(values.abs().argmax())
    v = vectors[:, top]
    return float(values[top]), float((images @ v - values[top] * (basis @ v)).norm())


def largest(symmetric: Tensor) -> float:
    """The spectral norm of a small symmetric matrix."""
    return float(torch.linalg.eigvalsh(symmetric).abs().max())


def subset(population: int, count: int | None, name: str, generator: Generator) -> Tensor:
    """`count` random indices below `population`; all of them when None or too many."""
    if count is None or checks.positive_int(name, count) >= population:
        return torch.arange(population)
    return uniform_sample(population, count, generator=generator)


def over_subsets(
    measure: Callable[[Tensor], float], X: Tensor, num_points: int | None, repeats: int, generator: Generator
) -> Estimate:
    """Mean and standard error of `measure` over random sets of points; all points, once, when there are no more."""
    if num_points is None or checks.positive_int("num_points", num_points) >= len(X):
        return Estimate(measure(torch.arange(len(X), device=X.device)), 0.0)
    if checks.positive_int("repeats", repeats) < 2:
        raise ValueError(f"repeats must be at least 2, since one set says nothing of the spread, got {repeats}.")
    draws = (subset(len(X), num_points, "num_points", generator).to(X.device) for _ in range(repeats))
    values = torch.tensor([measure(index) for index in draws], dtype=torch.float64)
    return Estimate(float(values.mean()), float(values.std()) / math.sqrt(repeats))


def root_of_total(sums: Tensor, population: int) -> Estimate:
    """sqrt(total) of `population` non-negative numbers of which `sums` are a random part, without replacement."""
    total = population * float(sums.mean())
    if len(sums) == population or total == 0:
        return Estimate(math.sqrt(total), 0.0)
    share = 1 - len(sums) / population
    error = population * float(sums.std()) * math.sqrt(share / len(sums))
    return Estimate(math.sqrt(total), error / (2 * math.sqrt(total)))
