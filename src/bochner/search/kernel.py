"""From an estimator's words (a kernel's name, a bandwidth rule) to kernels and maps."""

from __future__ import annotations

from numbers import Real
from typing import Any

import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Generator, Tensor

from bochner import checks
from bochner.features import ArcCosineMap, FeatureMap, FourierMap, NystromMap, TensorSketchMap
from bochner.kernels import (
    KERNEL_ALIASES,
    KERNEL_NAMES,
    ArcCosine,
    Gaussian,
    Kernel,
    Laplacian,
    Polynomial,
    Spectral,
    Stationary,
    kernel_named,
)

KERNEL_CONSTRAINTS: dict[str, list[Any]] = {
    "kernel": [StrOptions({*KERNEL_NAMES, *KERNEL_ALIASES}), Kernel],
    "bandwidth": [None, StrOptions({"median", "mean"}), Interval(Real, 0, None, closed="neither")],
    "gamma": [None, Interval(Real, 0, None, closed="neither")],
}
# From so many inputs a chain of Hadamard transforms takes a fraction of a dense product, its bias far below the noise.
STRUCTURED_INPUTS = 256


def resolve_kernel(
    kernel: str | Kernel, bandwidth: float | str | None, X: Tensor, generator: Generator, *, gamma: float | None = None
) -> Kernel:
    """The kernel for data like X [n, d]: a name gets the median rule unless `bandwidth` or `gamma` is given.

    >>> X = torch.randn(10, 2, generator=Generator().manual_seed(0))
    >>> resolve_kernel("laplacian", None, X, Generator(), gamma=0.5)
    Laplacian(bandwidth=2.0)
    """
    resolved = kernel_named(kernel, num_inputs=X.shape[1]) if isinstance(kernel, str) else kernel
    if gamma is not None:
        if bandwidth is not None:
            raise ValueError(f"give bandwidth or gamma, not both; got bandwidth={bandwidth!r} and gamma={gamma!r}.")
        return with_gamma(resolved, gamma)
    if bandwidth is None and isinstance(kernel, str) and isinstance(resolved, Stationary):
        bandwidth = "median"
    return resolved if bandwidth is None else resolved.with_bandwidth(bandwidth, X, generator=generator)


def with_gamma(kernel: Kernel, gamma: float) -> Kernel:
    """The kernel with scikit-learn's gamma: exp(-gamma ||x - y||^2) (Gaussian), exp(-gamma ||x - y||_1) (Laplacian) or
    (gamma x . y + offset)^degree (polynomial).

    >>> with_gamma(Gaussian(), 0.125)
    Gaussian(bandwidth=2.0)
    """
    gamma = checks.positive_float("gamma", gamma)
    if isinstance(kernel, Gaussian):
        return kernel.replace(bandwidth=(2 * gamma) ** -0.5)
    if isinstance(kernel, Laplacian):
        return kernel.replace(bandwidth=1 / gamma)
    if isinstance(kernel, Polynomial):
        return kernel.replace(scale=gamma**0.5)
    raise ValueError(
        f"gamma={gamma!r} was given, but only Gaussian, Laplacian and polynomial kernels have one, not {kernel!r}; "
        "use bandwidth."
    )


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
