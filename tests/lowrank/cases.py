"""Every low-rank method, for the conformance suite: a new one is one line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor

from bochner.kernels import Gaussian, Kernel, Laplacian, Matern, Polynomial
from bochner.lowrank import (
    Factor,
    fit_als,
    fit_ensemble,
    fit_fourier,
    fit_meka,
    fit_nystrom,
    fit_pivoted_cholesky,
    truncate,
)

NUM_INPUTS = 3
RANK = 12


@dataclass(frozen=True)
class Case:
    """A method and the properties that it has."""

    name: str
    kernel: Kernel
    fit: Callable[..., Factor]  # kernel, X, rank=, generator=
    below: bool = True  # U U^T never exceeds K
    maps_points_to_root: bool = True  # transform(points) is U
    converges: bool = True  # the error falls with the rank
    random: bool = True
    exact_at_full_rank: bool = True
    all_columns: bool = True  # K fills all columns of U when it has the rank

    def __str__(self) -> str:
        return self.name

    def make(self, X: Tensor, *, rank: int = RANK, seed: int = 0, kernel: Kernel | None = None) -> Factor:
        return self.fit(kernel or self.kernel, X, rank=rank, generator=generator(seed))


def points(count: int = 60, *, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(count, NUM_INPUTS, generator=generator(seed), dtype=torch.float64).to(dtype)


def generator(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


GAUSSIAN = Gaussian(bandwidth=1.5)


def _nystrom(name: str, kernel: Kernel = GAUSSIAN, **options: Any) -> Case:
    return Case(name, kernel, partial(fit_nystrom, **options))


CASES = [
    Case("svd", GAUSSIAN, truncate, maps_points_to_root=False, random=False),
    Case("svd-polynomial", Polynomial(degree=3), truncate, maps_points_to_root=False, random=False),
    _nystrom("nystrom-uniform", landmarks="uniform"),
    _nystrom("nystrom-kmeans", landmarks="kmeans"),
    _nystrom("nystrom-leverage", landmarks="leverage"),
    _nystrom("nystrom-pivoted-cholesky", landmarks="pivoted-cholesky"),
    _nystrom("nystrom-landmarks", landmarks="uniform", truncation="landmarks"),
    _nystrom("nystrom-scale", Laplacian(bandwidth=5.0, scale=2.0), landmarks="uniform"),
    Case("pivoted-cholesky", GAUSSIAN, fit_pivoted_cholesky),
    Case("pivoted-cholesky-matern", Matern(smoothness=1.5, bandwidth=2.0), fit_pivoted_cholesky),
    Case("ensemble", GAUSSIAN, fit_ensemble, exact_at_full_rank=False),
    Case("ensemble-fitted", GAUSSIAN, partial(fit_ensemble, weighting="fitted"), below=False, exact_at_full_rank=False),
    Case("fourier", GAUSSIAN, fit_fourier, below=False, exact_at_full_rank=False),
    Case("meka", GAUSSIAN, partial(fit_meka, num_clusters=3), below=False, exact_at_full_rank=False, all_columns=False),
    Case(
        "meka-thesis",
        GAUSSIAN,
        partial(fit_meka, num_clusters=3, algorithm="thesis"),
        below=False,
        converges=False,
        exact_at_full_rank=False,
        all_columns=False,
    ),
    Case("als", GAUSSIAN, fit_als, below=False, maps_points_to_root=False, exact_at_full_rank=False),
    Case(
        "als-thesis",
        GAUSSIAN,
        partial(fit_als, algorithm="thesis"),
        below=False,
        maps_points_to_root=False,
        exact_at_full_rank=False,
    ),
    Case(
        "meka-unlinked",
        GAUSSIAN,
        partial(fit_meka, num_clusters=2, threshold=2.0),
        below=False,
        converges=False,
        exact_at_full_rank=False,
        all_columns=False,
    ),
]
