"""The methods of the tables: those of `bochner.lowrank`, and those of the thesis with its settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from torch import Generator, Tensor

from bochner.kernels import Kernel
from bochner.lowrank import Factor, fit_factor

# Names in the tables and in the stored cells, and the method of `LOWRANK_METHODS` that each stands for.
REGISTERED: Mapping[str, str] = MappingProxyType(
    {
        "nystrom": "nystrom",
        "kmeans-nystrom": "truncated-kmeans-nystrom",
        "ensemble": "ensemble",
        "pivoted-cholesky": "pivoted-cholesky",
        "svd": "svd",
        "meka": "meka",
        "fourier": "fourier",
        "thesis meka": "thesis-meka",
    }
)

StudiedFit = Callable[[Kernel, Tensor, int, Generator, float | None, int], Factor]
"""fit(kernel, X, rank, generator, samples, rounds): |Omega| in units of n log n, None for the method's default."""

THESIS_LANDMARKS = 4  # per column of U
THESIS_PREFIX = "thesis "  # of the names of methods with algorithm="thesis"
SCHEMES = (
    "l1", "l2", "approximate-l2", "uniform", "clustering", "uniform+clustering", "uniform+diagonal",
    "uniform+clustering+diagonal",
)  # fmt: skip
# Options of `fit_als` for the starts of the thesis; starts far from K need a smaller penalty
# (docs/lowrank.md#alternating-least-squares).
START_OPTIONS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "random": {"start": "random", "alpha": 0.05},
        "nystrom": {"start": "uniform"},
        "kmeans-nystrom": {"start": "kmeans"},
        "sparse-svd": {"start": "sparse-svd", "alpha": 0.05, "block_size": 1},
    }
)
STARTS = tuple(START_OPTIONS)
THESIS_STARTS: Mapping[str, str] = MappingProxyType({name: options["start"] for name, options in START_OPTIONS.items()})


def _als(**options: Any) -> StudiedFit:
    def fit(k: Kernel, X: Tensor, r: int, g: Generator, samples: float | None, rounds: int) -> Factor:
        count = None if samples is None else min(len(X) ** 2, round(samples * len(X) * math.log(len(X))))
        return fit_factor("als", k, X, rank=r, generator=g, num_samples=count, rounds=rounds, **options)

    return fit


def _nystrom(landmarks: str, truncation: str) -> StudiedFit:
    """4 r landmarks, or as many as there are columns of K in |Omega| entries."""

    def fit(k: Kernel, X: Tensor, r: int, g: Generator, samples: float | None, rounds: int) -> Factor:
        m = THESIS_LANDMARKS * r if samples is None else round(samples * math.log(len(X)))
        options = {"num_landmarks": min(m, len(X)), "landmarks": landmarks, "truncation": truncation}
        return fit_factor("nystrom", k, X, rank=r, generator=g, **options)

    return fit


def _registered(method: str) -> StudiedFit:
    return lambda k, X, r, g, samples, rounds: fit_factor(method, k, X, rank=r, generator=g)


STUDIED: Mapping[str, StudiedFit] = MappingProxyType(
    {name: _registered(method) for name, method in REGISTERED.items()}
    | {
        "als": _als(),
        "standard nystrom": _nystrom("uniform", "landmarks"),
        "standard kmeans-nystrom": _nystrom("kmeans", "landmarks"),
        "cut nystrom": _nystrom("uniform", "factor"),
        "cut kmeans-nystrom": _nystrom("kmeans", "factor"),
    }
    | {f"als, {scheme}": _als(sampling=scheme) for scheme in SCHEMES}
    | {f"als from {start}": _als(**START_OPTIONS[start]) for start in STARTS}
    | {"thesis als": _als(algorithm="thesis")}
    | {f"thesis als, {scheme}": _als(sampling=scheme, algorithm="thesis") for scheme in SCHEMES}
    | {f"thesis als from {name}": _als(start=start, algorithm="thesis") for name, start in THESIS_STARTS.items()}
)
