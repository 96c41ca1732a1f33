"""The low-rank methods by name, for the estimators, `bochner approximate` and the studies."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

from torch import Generator, Tensor

from bochner import checks
from bochner.kernels import Kernel
from bochner.lowrank.als import fit_als
from bochner.lowrank.factor import Factor
from bochner.lowrank.meka import fit_meka
from bochner.lowrank.nystrom import fit_ensemble, fit_fourier, fit_nystrom, fit_pivoted_cholesky
from bochner.lowrank.svd import truncate

Fit = Callable[..., Factor]
"""fit(kernel, X, rank=..., generator=..., **options), as every fit_* function of `bochner.lowrank`."""

MethodName = Literal[
    "nystrom",
    "truncated-kmeans-nystrom",
    "uniform-nystrom",
    "kmeans-nystrom",
    "ensemble",
    "pivoted-cholesky",
    "als",
    "svd",
    "meka",
    "fourier",
    "thesis-als",
    "thesis-meka",
]
MEKA_CLUSTERS = 5  # Si, Hsieh & Dhillon use 3 to 10; the thesis does not state its number


def fit_factor(
    method: str | Fit, kernel: Kernel, X: Tensor, *, rank: int, generator: Generator, **options: Any
) -> Factor:
    """K = k(X, X) ~ U U^T for X [n, d], by a method of `LOWRANK_METHODS` or by a function with the signature of `Fit`.

    Every method represents K by about n r numbers, r = `rank`. L are landmarks, F = k(X, L) k(L, L)^{-1/2}.

    | name | U | source |
    |---|---|---|
    | "nystrom" | best rank r of F F^T, L = 8 r random pivots | Chen et al. 2025; Tropp et al. 2017 |
    | "truncated-kmeans-nystrom" | best rank r of F F^T, L = 8 r k-means centres | the same; Zhang et al. 2008 |
    | "uniform-nystrom" | F, L = r uniform points; nothing is truncated | Williams & Seeger 2001 |
    | "kmeans-nystrom" | F, L = r k-means centres; nothing is truncated | Zhang, Tsang & Kwok 2008 |
    | "ensemble" | best rank r of the mean of 4 F F^T on r uniform points each | Kumar, Mohri & Talwalkar 2009 |
    | "pivoted-cholesky" | partial Cholesky factor on r random pivots | Chen et al. 2025 |
    | "als" | least squares on r n log n entries of K, alternating | Bhardwaj 2015 |
    | "svd" | Q_r L_r^{1/2}, the r largest eigenpairs of K | Eckart & Young 1936 |
    | "meka" | `fit_equal_meka`: low rank in 5 clusters, with links | Si, Hsieh & Dhillon 2014 |
    | "fourier" | r random Fourier features | Rahimi & Recht 2007 |
    | "thesis-als", "thesis-meka" | "als" and "meka" with algorithm="thesis", as published | Bhardwaj 2015 |

    `options` replace those of the method; the standard Nystrom method of the thesis, with 4 r landmarks and the r
    largest eigenpairs of k(L, L), is "nystrom" with landmarks="uniform", num_landmarks=4 * r, truncation="landmarks".

    >>> import torch; from bochner.kernels import Gaussian
    >>> X = torch.randn(200, 3, generator=Generator().manual_seed(0))
    >>> fit_factor("kmeans-nystrom", Gaussian(), X, rank=20, generator=Generator().manual_seed(0)).root.shape
    torch.Size([200, 20])
    """
    if isinstance(method, str):
        checks.one_of("method", method, LOWRANK_METHODS)
        method = LOWRANK_METHODS[method]
    return method(kernel, X, rank=rank, generator=generator, **options)


def _fit_untruncated(kernel: Kernel, X: Tensor, *, rank: int, landmarks: str, generator: Generator) -> Factor:
    """A Nystrom factor with as many landmarks as columns.

    For a supervised model r columns from r landmarks cost an eighth of the best r columns from 8 r landmarks, and a
    higher rank is a better use of the time.
    """
    shared: dict[str, Any] = {"rank": rank, "num_landmarks": rank, "truncation": "landmarks"}
    return fit_nystrom(kernel, X, landmarks=landmarks, generator=generator, **shared)


def fit_equal_meka(kernel: Kernel, X: Tensor, *, rank: int, algorithm: str = "default", generator: Generator) -> Factor:
    """MEKA with n q + (c q)^2 >= n r parameters, c = 5 clusters and the smallest such q: its rank c q exceeds r.
    `algorithm` as in `fit_meka`.

    >>> import torch; from bochner.kernels import Gaussian
    >>> X = torch.randn(200, 3, generator=Generator().manual_seed(0))
    >>> factor = fit_equal_meka(Gaussian(bandwidth=2.0), X, rank=10, generator=Generator().manual_seed(0))
    >>> factor.rank, factor.num_parameters
    (30, 2100)
    """
    n, c = len(X), min(MEKA_CLUSTERS, len(X))
    q = (math.sqrt(n**2 + 4 * c**2 * n * rank) - n) / (2 * c**2)
    q = min(math.ceil(q - 1e-9), n // c)
    return fit_meka(kernel, X, rank=c * q, num_clusters=c, algorithm=algorithm, generator=generator)


LOWRANK_METHODS: Mapping[str, Fit] = MappingProxyType(
    {
        "nystrom": fit_nystrom,
        "truncated-kmeans-nystrom": partial(fit_nystrom, landmarks="kmeans"),
        "uniform-nystrom": partial(_fit_untruncated, landmarks="uniform"),
        "kmeans-nystrom": partial(_fit_untruncated, landmarks="kmeans"),
        "ensemble": fit_ensemble,
        "pivoted-cholesky": fit_pivoted_cholesky,
        "als": fit_als,
        "svd": truncate,
        "meka": fit_equal_meka,
        "fourier": fit_fourier,
        "thesis-als": partial(fit_als, algorithm="thesis"),
        "thesis-meka": partial(fit_equal_meka, algorithm="thesis"),
    }
)
