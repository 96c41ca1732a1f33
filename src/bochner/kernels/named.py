"""Kernels by name, for estimators and the command line."""

from __future__ import annotations

from bochner import checks
from bochner.kernels.gaussian import Gaussian, SparseGaussian
from bochner.kernels.heavy_tailed import Cauchy, Laplacian
from bochner.kernels.matern import Matern
from bochner.kernels.stationary import Stationary

SPARSE_INPUTS = 5  # the papers' subset size

KERNEL_NAMES = ["cauchy", "gaussian", "laplacian", "matern12", "matern32", "matern52", "sparse-gaussian"]


def kernel_named(name: str, *, num_inputs: int) -> Stationary:
    """The stationary kernel of that name, bandwidth 1, for data with `num_inputs` columns.

    >>> kernel_named("sparse-gaussian", num_inputs=3)
    SparseGaussian(subset_size=3, bandwidth=1.0)
    """
    checks.one_of("kernel", name, KERNEL_NAMES)
    match name:
        case "gaussian":
            return Gaussian()
        case "laplacian":
            return Laplacian()
        case "cauchy":
            return Cauchy()
        case "sparse-gaussian":
            return SparseGaussian(subset_size=min(SPARSE_INPUTS, num_inputs))
        case _:
            return Matern(smoothness=int(name[-2]) / 2)
