"""A small map of every adaptable family, and rows to adapt it to."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from bochner.data import ArraySource
from bochner.features import ArcCosineMap, FeatureMap, FourierMap
from bochner.kernels import ArcCosine, Gaussian, Kernel, Laplacian, SparseGaussian

NUM_INPUTS = 6
FOURIER: dict[str, tuple[Kernel, str, str]] = {
    "orthogonal": (Gaussian(bandwidth=2.0), "orthogonal", "paired"),
    "orthogonal cosine": (Gaussian(bandwidth=2.0), "orthogonal", "cosine"),
    "laplacian": (Laplacian(bandwidth=8.0), "iid", "paired"),
    "sparse gaussian": (SparseGaussian(subset_size=2, bandwidth=1.0), "sparse", "paired"),
    "hadamard1": (Gaussian(bandwidth=2.0), "hadamard1", "paired"),
    "hadamard2": (Gaussian(bandwidth=2.0), "hadamard2", "paired"),
    "hadamard3": (Gaussian(bandwidth=2.0, scale=0.9), "hadamard3", "cosine"),
    "fastfood": (Gaussian(bandwidth=2.0), "fastfood", "paired"),
    "circulant": (Gaussian(bandwidth=2.0), "circulant", "paired"),
}
ARC_COSINE = {f"arc-cosine {depth}": depth for depth in (1, 2, 3)}
FAMILIES = [*FOURIER, *ARC_COSINE]


def draw(
    family: str, *, num_inputs: int = NUM_INPUTS, num_features: int = 24, dtype: torch.dtype = torch.float32
) -> FeatureMap:
    sizes = {"num_inputs": num_inputs, "num_features": num_features, "dtype": dtype}
    generator = Generator().manual_seed(3)
    if family in ARC_COSINE:
        return ArcCosineMap.draw(ArcCosine(depth=ARC_COSINE[family]), **sizes, generator=generator)
    kernel, projection, form = FOURIER[family]
    return FourierMap.draw(kernel, **sizes, projection=projection, form=form, generator=generator)


def points(count: int, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Four classes by the signs of two inputs out of six."""
    X = torch.randn(count, NUM_INPUTS, generator=Generator().manual_seed(seed))
    return X, 2 * (X[:, 0] > 0).long() + (X[:, 1] > 0).long()


def rows(count: int = 800, *, seed: int = 0) -> ArraySource:
    return ArraySource(*points(count, seed=seed), shard_rows=200)
