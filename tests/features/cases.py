"""Every feature map, for the conformance suite: a new map is one line here and one oracle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from bochner.features import ArcCosineMap, EnsembleNystromMap, FeatureMap, FourierMap, NystromMap, TensorSketchMap
from bochner.kernels import (
    ArcCosine,
    Cauchy,
    Gaussian,
    Kernel,
    Laplacian,
    Matern,
    Polynomial,
    PowerExponential,
    SparseGaussian,
)

NUM_INPUTS = 11

METRIC = torch.eye(NUM_INPUTS, dtype=torch.float64) + 0.2
SCALE = torch.linspace(0.5, 1.5, NUM_INPUTS, dtype=torch.float64)


@dataclass(frozen=True)
class Case:
    """A map and the properties that it has."""

    name: str
    kernel: Kernel
    make: Callable[[Kernel, Tensor, int, Generator], FeatureMap]  # kernel, data, num_features, generator
    unbiased: bool = True
    independent: bool = False  # independent frequencies: the Hoeffding bound holds
    projects: bool = False  # a projection in the RKHS: the Nystrom identities hold

    def __str__(self) -> str:
        return self.name


def points(count: int = 40, *, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(count, NUM_INPUTS, generator=Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def generator(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def _fourier(name: str, kernel: Kernel, projection: str, form: str = "paired", **traits: bool) -> Case:
    def make(kernel: Kernel, X: Tensor, num_features: int, generator: Generator) -> FeatureMap:
        return FourierMap.draw(
            kernel,
            num_inputs=X.shape[1],
            num_features=num_features,
            projection=projection,
            form=form,
            generator=generator,
            dtype=X.dtype,
        )

    return Case(name, kernel, make, **traits)


def _drawn(name: str, kernel: Kernel, cls: type[ArcCosineMap | TensorSketchMap], **traits: bool) -> Case:
    def make(kernel: Kernel, X: Tensor, num_features: int, generator: Generator) -> FeatureMap:
        return cls.draw(kernel, num_inputs=X.shape[1], num_features=num_features, generator=generator, dtype=X.dtype)

    return Case(name, kernel, make, **traits)


def _nystrom(name: str, kernel: Kernel, rule: str, **traits: bool) -> Case:
    def make(kernel: Kernel, X: Tensor, num_features: int, generator: Generator) -> FeatureMap:
        return NystromMap.fit(kernel, X, num_landmarks=num_features, landmarks=rule, generator=generator)

    return Case(name, kernel, make, unbiased=False, **traits)


def _ensemble(name: str, kernel: Kernel, weighting: str) -> Case:
    def make(kernel: Kernel, X: Tensor, num_features: int, generator: Generator) -> FeatureMap:
        return EnsembleNystromMap.fit(
            kernel, X, num_landmarks=num_features, num_experts=2, weighting=weighting, generator=generator
        )

    return Case(name, kernel, make, unbiased=False)


GAUSSIAN = Gaussian(bandwidth=3.0)
LAPLACIAN = Laplacian(bandwidth=8.0)
SPARSE = SparseGaussian(subset_size=3, bandwidth=1.5)
MIXED = 0.5 * Gaussian(bandwidth=2.0) + Gaussian(bandwidth=4.0) * Laplacian(bandwidth=20.0)

CASES = [
    _fourier("iid-paired", GAUSSIAN, "iid", independent=True),
    _fourier("iid-cosine", GAUSSIAN, "iid", "cosine", independent=True),
    _fourier("iid-scale", Gaussian(bandwidth=3.0, scale=SCALE), "iid", independent=True),
    _fourier("iid-metric", Gaussian(bandwidth=4.0, metric=METRIC), "iid", "cosine", independent=True),
    _fourier("iid-laplacian", LAPLACIAN, "iid", independent=True),
    _fourier("iid-cauchy", Cauchy(bandwidth=4.0), "iid", independent=True),
    _fourier("iid-matern", Matern(smoothness=0.5, bandwidth=3.0), "iid", independent=True),
    _fourier("iid-power", PowerExponential(exponent=0.7, bandwidth=4.0), "iid", independent=True),
    _fourier("iid-power-product", PowerExponential(exponent=1.5, norm=1.5, bandwidth=4.0), "iid", independent=True),
    _fourier("iid-sparse-gaussian", SPARSE, "iid", independent=True),
    _fourier("iid-sum-and-product", MIXED, "iid"),
    _fourier("orthogonal", GAUSSIAN, "orthogonal"),
    _fourier("orthogonal-cosine", GAUSSIAN, "orthogonal", "cosine"),
    _fourier("orthogonal-matern", Matern(smoothness=1.5, bandwidth=3.0), "orthogonal"),
    _fourier("orthogonal-metric", Gaussian(bandwidth=4.0, metric=METRIC), "orthogonal"),
    _fourier("orthogonal-power", PowerExponential(exponent=1.4, bandwidth=4.0), "orthogonal"),
    _fourier("sobol", GAUSSIAN, "sobol"),
    _fourier("sobol-laplacian", LAPLACIAN, "sobol"),
    _fourier("sobol-matern", Matern(smoothness=2.5, bandwidth=3.0), "sobol"),
    _fourier("sobol-sparse-gaussian", SPARSE, "sobol"),
    # random signs only approximate a rotation: unbiased for large d, not at d = 11
    _fourier("hadamard1", GAUSSIAN, "hadamard1", unbiased=False),
    _fourier("hadamard2", GAUSSIAN, "hadamard2", unbiased=False),
    _fourier("hadamard3", GAUSSIAN, "hadamard3", unbiased=False),
    _fourier("hadamard3-cosine-metric", Gaussian(bandwidth=4.0, metric=METRIC), "hadamard3", "cosine", unbiased=False),
    _fourier("fastfood", GAUSSIAN, "fastfood"),
    _fourier("fastfood-matern-scale", Matern(smoothness=1.5, bandwidth=3.0, scale=SCALE), "fastfood", "cosine"),
    _fourier("fastfood-power", PowerExponential(exponent=1.4, bandwidth=4.0), "fastfood"),
    _fourier("circulant", GAUSSIAN, "circulant"),
    _fourier("circulant-cosine", GAUSSIAN, "circulant", "cosine"),
    _fourier("sparse", SPARSE, "sparse", independent=True),
    _fourier("sparse-cosine", SPARSE, "sparse", "cosine", independent=True),
    _fourier("sparse-scale", SparseGaussian(subset_size=3, bandwidth=1.5, scale=SCALE), "sparse", independent=True),
    _drawn("arc-cosine-0", ArcCosine(order=0), ArcCosineMap),
    _drawn("arc-cosine-1", ArcCosine(order=1), ArcCosineMap),
    _drawn("arc-cosine-2", ArcCosine(order=2, scale=0.3), ArcCosineMap),
    _drawn("arc-cosine-metric", ArcCosine(order=1, metric=METRIC), ArcCosineMap),
    # a deep map is biased at any finite width, and less so as it grows
    _drawn("arc-cosine-deep2", ArcCosine(order=1, depth=2), ArcCosineMap, unbiased=False),
    _drawn("arc-cosine-deep3", ArcCosine(order=1, depth=3), ArcCosineMap, unbiased=False),
    _drawn("tensor-sketch-1", Polynomial(degree=1), TensorSketchMap),
    _drawn("tensor-sketch-2", Polynomial(degree=2), TensorSketchMap),
    _drawn("tensor-sketch-3", Polynomial(degree=3, offset=0.0, scale=0.5), TensorSketchMap),
    _drawn("tensor-sketch-metric", Polynomial(degree=2, metric=METRIC), TensorSketchMap),
    _nystrom("nystrom-uniform", GAUSSIAN, "uniform", projects=True),
    _nystrom("nystrom-kmeans", GAUSSIAN, "kmeans", projects=True),
    _nystrom("nystrom-leverage", GAUSSIAN, "leverage", projects=True),
    _nystrom("nystrom-pivoted-cholesky", GAUSSIAN, "pivoted-cholesky", projects=True),
    _nystrom("nystrom-laplacian-scale", Laplacian(bandwidth=8.0, scale=SCALE), "uniform", projects=True),
    _nystrom("nystrom-polynomial", Polynomial(degree=2), "uniform", projects=True),
    _nystrom("nystrom-arc-cosine", ArcCosine(order=1, depth=2), "kmeans", projects=True),
    _nystrom("nystrom-sum", MIXED, "pivoted-cholesky", projects=True),
    _ensemble("ensemble-uniform", GAUSSIAN, "uniform"),
    _ensemble("ensemble-fitted", GAUSSIAN, "fitted"),
]
