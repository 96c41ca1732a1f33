"""Kernels k(x, y): values on blocks, diagonals, spectral samplers and bandwidth rules; and kernels by name."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

from bochner.kernels.combined import Product, Sum
from bochner.kernels.dot_product import ArcCosine, Polynomial
from bochner.kernels.kernel import Kernel
from bochner.kernels.stationary import (
    Cauchy,
    Gaussian,
    Laplacian,
    Matern,
    PowerExponential,
    SparseGaussian,
    Spectral,
    Stationary,
)

__all__ = [
    "KERNEL_ALIASES",
    "KERNEL_NAMES",
    "STATIONARY_NAMES",
    "ArcCosine",
    "Cauchy",
    "Gaussian",
    "Kernel",
    "Laplacian",
    "Matern",
    "Polynomial",
    "PowerExponential",
    "Product",
    "SparseGaussian",
    "Spectral",
    "Stationary",
    "Sum",
    "kernel_named",
]

SUBSET_SIZE = 5  # of the sparse Gaussian kernel, as in May 2018, Section 5.2

# Each is called with the number of inputs.
_STATIONARY: dict[str, Callable[[int], Kernel]] = {
    "cauchy": lambda num_inputs: Cauchy(),
    "gaussian": lambda num_inputs: Gaussian(),
    "laplacian": lambda num_inputs: Laplacian(),
    "matern12": lambda num_inputs: Matern(smoothness=0.5),
    "matern32": lambda num_inputs: Matern(smoothness=1.5),
    "matern52": lambda num_inputs: Matern(smoothness=2.5),
    "power-exponential": lambda num_inputs: PowerExponential(),
    "sparse-gaussian": lambda num_inputs: SparseGaussian(subset_size=min(SUBSET_SIZE, num_inputs)),
}
_DOT_PRODUCT: dict[str, Callable[[int], Kernel]] = {
    "arc-cosine0": lambda num_inputs: ArcCosine(order=0),
    "arc-cosine1": lambda num_inputs: ArcCosine(order=1),
    "arc-cosine2": lambda num_inputs: ArcCosine(order=2),
    # The defaults of sklearn.metrics.pairwise.polynomial_kernel: (x . y / d + 1)^3.
    "polynomial": lambda num_inputs: Polynomial(degree=3, offset=1.0, scale=num_inputs**-0.5),
}
STATIONARY_NAMES = list(_STATIONARY)
"""Kernels that have a bandwidth."""
KERNEL_NAMES = sorted([*_STATIONARY, *_DOT_PRODUCT])
KERNEL_ALIASES = {
    "arc-cosine": "arc-cosine1",
    "laplace": "laplacian",
    "matern": "matern52",
    "poly": "polynomial",
    "rbf": "gaussian",
}


def kernel_named(name: str, *, num_inputs: int) -> Kernel:
    """The kernel of that name or alias for data with `num_inputs` columns, with bandwidth 1 where it has one.

    >>> kernel_named("sparse-gaussian", num_inputs=3)
    SparseGaussian(subset_size=3, bandwidth=1.0)
    >>> kernel_named("rbf", num_inputs=3)
    Gaussian(bandwidth=1.0)
    >>> kernel_named("guassian", num_inputs=3)
    Traceback (most recent call last):
        ...
    ValueError: kernel must be one of ['arc-cosine0', ..., 'sparse-gaussian'], got 'guassian'; did you mean 'gaussian'?
    """
    if not isinstance(name, str) or KERNEL_ALIASES.get(name, name) not in KERNEL_NAMES:
        close = get_close_matches(str(name).lower(), [*KERNEL_NAMES, *KERNEL_ALIASES], n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        raise ValueError(f"kernel must be one of {KERNEL_NAMES}, got {name!r}{hint}")
    canonical = KERNEL_ALIASES.get(name, name)
    return (_STATIONARY.get(canonical) or _DOT_PRODUCT[canonical])(num_inputs)
