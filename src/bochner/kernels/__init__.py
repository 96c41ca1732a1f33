"""Kernels k(x, y): values on blocks, diagonals, spectral samplers and bandwidth rules."""

from bochner.kernels.combined import Product, Sum
from bochner.kernels.dot_product import ArcCosine, Polynomial
from bochner.kernels.gaussian import Gaussian, SparseGaussian
from bochner.kernels.heavy_tailed import Cauchy, Laplacian
from bochner.kernels.kernel import Kernel
from bochner.kernels.matern import Matern
from bochner.kernels.named import KERNEL_NAMES, kernel_named
from bochner.kernels.stationary import Spectral, Stationary

__all__ = [
    "KERNEL_NAMES",
    "ArcCosine",
    "Cauchy",
    "Gaussian",
    "Kernel",
    "Laplacian",
    "Matern",
    "Polynomial",
    "Product",
    "SparseGaussian",
    "Spectral",
    "Stationary",
    "Sum",
    "kernel_named",
]
