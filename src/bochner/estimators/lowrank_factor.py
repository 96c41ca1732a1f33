"""What the low-rank estimators share: the kernel, the method and the rank, and from them a factor of the points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral
from types import MappingProxyType
from typing import Any

from sklearn.utils._param_validation import Interval, StrOptions
from torch import Generator, Tensor

from bochner.kernels import Kernel
from bochner.lowrank import Factor, fit_als, fit_fourier, fit_nystrom, fit_pivoted_cholesky, truncate
from bochner.search.kernel import KERNEL_CONSTRAINTS, resolve_kernel

Fit = Callable[..., Factor]
"""fit(kernel, X, rank=.., generator=..) -> Factor, as every function of `bochner.lowrank` that is named fit_*."""

DEFAULT_RANK = 1000


def _on_landmarks(landmarks: str) -> Fit:
    """The Nystrom factor of as many landmarks as columns: nothing is cut.

    A learner gains more from the span of more landmarks than from the best part of it: time is better spent on rank.
    """

    def fit(kernel: Kernel, X: Tensor, *, rank: int, generator: Generator) -> Factor:
        return fit_nystrom(
            kernel,
            X,
            rank=rank,
            num_landmarks=rank,
            landmarks=landmarks,
            truncation="landmarks",
            generator=generator,
        )

    return fit


METHODS: Mapping[str, Fit] = MappingProxyType(
    {
        "uniform-nystrom": _on_landmarks("uniform"),
        "kmeans-nystrom": _on_landmarks("kmeans"),
        "pivoted-cholesky": fit_pivoted_cholesky,
        "nystrom": fit_nystrom,
        "svd": truncate,
        "als": fit_als,
        "fourier": fit_fourier,
    }
)

FACTOR_CONSTRAINTS: dict[str, list[Any]] = {
    **KERNEL_CONSTRAINTS,
    "method": [StrOptions(set(METHODS)), callable],
    "rank": [None, Interval(Integral, 1, None, closed="left")],
    "random_state": ["random_state"],
}


def fit_factor(
    X: Tensor,
    *,
    kernel: str | Kernel,
    bandwidth: float | str | None,
    method: str | Fit,
    rank: int | None,
    generator: Generator,
) -> Factor:
    """The factor of X [n, d] that an estimator's parameters ask for; its kernel is `factor.kernel`."""
    fit = METHODS[method] if isinstance(method, str) else method
    resolved = resolve_kernel(kernel, bandwidth, X, generator)
    count = min(DEFAULT_RANK, len(X)) if rank is None else int(rank)
    return fit(resolved, X, rank=count, generator=generator)
