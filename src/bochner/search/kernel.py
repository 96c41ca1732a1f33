"""From an estimator's words (a kernel's name, a bandwidth rule) to kernels and maps."""

from __future__ import annotations

from numbers import Real
from typing import Any

import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Generator, Tensor

from bochner.features import ArcCosineMap, FeatureMap, FourierMap, NystromMap, TensorSketchMap
from bochner.kernels import (
    KERNEL_ALIASES,
    KERNEL_NAMES,
    ArcCosine,
    Kernel,
    Polynomial,
    Spectral,
    Stationary,
    kernel_named,
)

KERNEL_CONSTRAINTS: dict[str, list[Any]] = {
    "kernel": [StrOptions({*KERNEL_NAMES, *KERNEL_ALIASES}), Kernel],
    "bandwidth": [None, StrOptions({"median", "mean"}), Interval(Real, 0, None, closed="neither")],
}
# From so many inputs a chain of Hadamard transforms takes a fraction of a dense product, its bias far below the noise.
STRUCTURED_INPUTS = 256


def resolve_kernel(kernel: str | Kernel, bandwidth: float | str | None, X: Tensor, generator: Generator) -> Kernel:
    """The kernel for data like X [n, d]: a name gets the median rule unless `bandwidth` says otherwise."""
    if isinstance(kernel, str):
        kernel = kernel_named(kernel, num_inputs=X.shape[1])
        if bandwidth is None and isinstance(kernel, Stationary):
            bandwidth = "median"
    return kernel if bandwidth is None else kernel.with_bandwidth(bandwidth, X, generator=generator)


def draw_map(
    kernel: Kernel,
    X: Tensor,
    *,
    num_features: int,
    projection: str,
    generator: Generator,
) -> FeatureMap:
    """The map that suits the kernel: Fourier for spectral ones, their own for arc-cosine and polynomial, else Nystrom.

    X [n, d] are rows to take landmarks from; only their width and dtype matter to the other maps.
    """
    shared: dict[str, Any] = {
        "num_inputs": X.shape[1],
        "num_features": num_features,
        "generator": generator,
        "dtype": X.dtype,
    }
    if isinstance(kernel, Spectral) and kernel.spectral:
        if projection == "auto" and kernel.isotropic and X.shape[1] >= STRUCTURED_INPUTS:
            projection = "hadamard3"
        return FourierMap.draw(kernel, projection=projection, **shared)
    if isinstance(kernel, ArcCosine):
        return ArcCosineMap.draw(kernel, **shared)
    if isinstance(kernel, Polynomial):
        return TensorSketchMap.draw(kernel, **shared)
    return NystromMap.fit(kernel, X, num_landmarks=min(num_features, len(X)), generator=generator)


def dtype_of(precision: str) -> torch.dtype:
    """What is stored and computed in; tf32 and bf16 are only for products."""
    return torch.float64 if precision == "float64" else torch.float32
