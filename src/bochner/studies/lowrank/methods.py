"""The methods by name, at equal numbers of parameters: every one stands for K by about n r numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from torch import Generator, Tensor

from bochner.kernels import Kernel
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

Fit = Callable[[Kernel, Tensor, int, Generator], Factor]
"""Called with the kernel, points [n, d], r and a generator."""

# Si, Hsieh & Dhillon use 3 to 10; the thesis does not say.
MEKA_CLUSTERS = 5


def fit_equal_meka(kernel: Kernel, X: Tensor, rank: int, generator: Generator) -> Factor:
    """MEKA with n q + (c q)^2 >= n r parameters, c = 5 clusters and the smallest such q: rank c q, more than r.

    >>> import torch; from bochner.kernels import Gaussian
    >>> X = torch.randn(200, 3, generator=Generator().manual_seed(0))
    >>> factor = fit_equal_meka(Gaussian(bandwidth=2.0), X, 10, Generator().manual_seed(0))
    >>> factor.rank, factor.num_parameters
    (30, 2100)
    """
    n, c = len(X), min(MEKA_CLUSTERS, len(X))
    q = (math.sqrt(n**2 + 4 * c**2 * n * rank) - n) / (2 * c**2)
    q = min(math.ceil(q - 1e-9), n // c)
    return fit_meka(kernel, X, rank=c * q, num_clusters=c, generator=generator)


METHODS: Mapping[str, Fit] = MappingProxyType(
    {
        "nystrom": lambda k, X, r, g: fit_nystrom(k, X, rank=r, generator=g),
        "kmeans-nystrom": lambda k, X, r, g: fit_nystrom(k, X, rank=r, landmarks="kmeans", generator=g),
        "ensemble": lambda k, X, r, g: fit_ensemble(k, X, rank=r, generator=g),
        "pivoted-cholesky": lambda k, X, r, g: fit_pivoted_cholesky(k, X, rank=r, generator=g),
        "als": lambda k, X, r, g: fit_als(k, X, rank=r, generator=g),
        "svd": lambda k, X, r, g: truncate(k, X, rank=r, generator=g),
        "meka": fit_equal_meka,
        "fourier": lambda k, X, r, g: fit_fourier(k, X, rank=r, generator=g),
    }
)
"""What a user chooses among, each with its defaults."""

StudiedFit = Callable[[Kernel, Tensor, int, Generator, float | None, int], Factor]
"""Called with |Omega| in units of n log n (None: the method's default) and the rounds besides."""

THESIS_LANDMARKS = 4  # per column of U
SCHEMES = (
    "l1",
    "l2",
    "approximate-l2",
    "uniform",
    "clustering",
    "uniform+clustering",
    "uniform+diagonal",
    "uniform+clustering+diagonal",
)
STARTS = ("random", "nystrom", "kmeans-nystrom", "sparse-svd")
# What the starts that are far off want, by docs/als.md.
START_OPTIONS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {"random": {"ridge": 0.05}, "sparse-svd": {"ridge": 0.05, "block_size": 1}}
)


def _als(**options: Any) -> StudiedFit:
    def fit(k: Kernel, X: Tensor, r: int, g: Generator, samples: float | None, rounds: int) -> Factor:
        count = None if samples is None else min(len(X) ** 2, round(samples * len(X) * math.log(len(X))))
        return fit_als(k, X, rank=r, generator=g, num_samples=count, rounds=rounds, **options)

    return fit


def _nystrom(landmarks: str, truncation: str) -> StudiedFit:
    """4 r landmarks, or as many columns of K as have |Omega| entries."""

    def fit(k: Kernel, X: Tensor, r: int, g: Generator, samples: float | None, rounds: int) -> Factor:
        m = THESIS_LANDMARKS * r if samples is None else round(samples * math.log(len(X)))
        m = min(m, len(X))
        return fit_nystrom(k, X, rank=r, num_landmarks=m, landmarks=landmarks, truncation=truncation, generator=g)

    return fit


def _plain(fit: Fit) -> StudiedFit:
    return lambda k, X, r, g, samples, rounds: fit(k, X, r, g)


STUDIED: Mapping[str, StudiedFit] = MappingProxyType(
    {name: _plain(fit) for name, fit in METHODS.items()}
    | {
        "als": _als(),
        "standard nystrom": _nystrom("uniform", "landmarks"),
        "standard kmeans-nystrom": _nystrom("kmeans", "landmarks"),
        "cut nystrom": _nystrom("uniform", "factor"),
        "cut kmeans-nystrom": _nystrom("kmeans", "factor"),
    }
    | {f"als, {scheme}": _als(sampling=scheme) for scheme in SCHEMES}
    | {f"als from {start}": _als(start=start, **START_OPTIONS.get(start, {})) for start in STARTS}
)
"""The methods of the tables: ours, and those that the thesis compares, with its settings."""
