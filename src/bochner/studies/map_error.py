"""Kernel error against the number of features, for every map, on real data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from sklearn.datasets import load_digits
from torch import Generator, Tensor

from bochner.features import ArcCosineMap, EnsembleNystromMap, FeatureMap, FourierMap, NystromMap, TensorSketchMap
from bochner.kernels import ArcCosine, Gaussian, Kernel, Laplacian, Polynomial, SparseGaussian, Stationary

PROTOCOL = (
    "relative Frobenius error ||Z Z' - K|| / ||K|| of the kernel matrix on 500 heldout images of scikit-learn's "
    "digits (64 inputs, standardised; landmarks from the other 1,297; median bandwidth), mean over seeds"
)


@dataclass(frozen=True)
class Case:
    """One map, and how it is made at any size."""

    family: str
    map: str
    kernel: Kernel
    make: Callable[[int, Generator], FeatureMap]


def digits() -> tuple[Tensor, Tensor]:
    """Standardised images to choose landmarks from, and 500 others."""
    X = torch.as_tensor(load_digits().data, dtype=torch.float32)
    X = (X - X.mean(dim=0)) / X.std(dim=0).clamp_min(1e-6)
    X = X[torch.randperm(len(X), generator=Generator().manual_seed(0))]
    return X[500:], X[:500]


def cases(train: Tensor) -> list[Case]:
    """Every map, with bandwidths by the median rule."""

    def suited(kernel: Stationary) -> Stationary:
        return kernel.with_bandwidth("median", train)

    d = train.shape[1]
    gaussian, laplacian, sparse = suited(Gaussian()), suited(Laplacian()), suited(SparseGaussian(subset_size=5))

    def fourier(family: str, name: str, kernel: Kernel, projection: str, form: str = "paired") -> Case:
        def make(size: int, generator: Generator) -> FeatureMap:
            return FourierMap.draw(
                kernel, num_inputs=d, num_features=size, projection=projection, form=form, generator=generator
            )

        return Case(family, name, kernel, make)

    def nystrom(rule: str) -> Case:
        def make(size: int, generator: Generator) -> FeatureMap:
            return NystromMap.fit(gaussian, train, num_landmarks=size, landmarks=rule, generator=generator)

        return Case("Nystrom", f"nystrom {rule}", gaussian, make)

    def ensemble(size: int, generator: Generator) -> FeatureMap:
        return EnsembleNystromMap.fit(gaussian, train, num_landmarks=size, num_experts=4, generator=generator)

    def arc_cosine(depth: int) -> Case:
        kernel = ArcCosine(order=1, depth=depth)

        def make(size: int, generator: Generator) -> FeatureMap:
            return ArcCosineMap.draw(kernel, num_inputs=d, num_features=size, generator=generator)

        return Case("other kernels", f"arc-cosine, {depth} layer{'s' * (depth > 1)}", kernel, make)

    polynomial = Polynomial(degree=2, scale=d**-0.5)

    def sketch(size: int, generator: Generator) -> FeatureMap:
        return TensorSketchMap.draw(polynomial, num_inputs=d, num_features=size, generator=generator)

    dense, structured, other = "Fourier, dense", "Fourier, structured", "other kernels"
    return [
        fourier(dense, "iid, cosine", gaussian, "iid", "cosine"),
        fourier(dense, "iid, paired", gaussian, "iid"),
        fourier(dense, "orthogonal", gaussian, "orthogonal"),
        fourier(dense, "sobol", gaussian, "sobol"),
        *[fourier(structured, f"hadamard, chain of {n}", gaussian, f"hadamard{n}") for n in (1, 2, 3)],
        fourier(structured, "fastfood", gaussian, "fastfood"),
        fourier(structured, "circulant", gaussian, "circulant"),
        *[nystrom(rule) for rule in ("uniform", "kmeans", "leverage", "pivoted-cholesky")],
        Case("Nystrom", "nystrom, 4 experts", gaussian, ensemble),
        fourier(other, "laplacian, iid", laplacian, "iid"),
        fourier(other, "sparse gaussian", sparse, "sparse"),
        *[arc_cosine(depth) for depth in (1, 2, 3)],
        Case(other, "tensor sketch", polynomial, sketch),
    ]


def relative_error(z: FeatureMap, X: Tensor, K: Tensor) -> Tensor:
    """||Z Z' - K|| / ||K||."""
    return (z.approximate(X, X) - K).norm() / K.norm()


def kernel_name(kernel: Kernel) -> str:
    return {"ArcCosine": "arc-cosine", "SparseGaussian": "sparse gaussian"}.get(
        type(kernel).__name__, type(kernel).__name__.lower()
    )
