"""Every kernel beside its oracle: a new kernel is one more entry here."""

from dataclasses import dataclass
from operator import attrgetter

import numpy as np
import pytest
import torch

from bochner.kernels import (
    ArcCosine,
    Cauchy,
    Gaussian,
    Kernel,
    Laplacian,
    Matern,
    Polynomial,
    PowerExponential,
    Product,
    SparseGaussian,
    Sum,
)
from tests.oracles.kernels import (
    Pair,
    arc_cosine,
    cauchy,
    gaussian,
    laplacian,
    matern,
    polynomial,
    power_exponential,
    product,
    scaled,
    sparse_gaussian,
    weighted_sum,
    with_metric,
)

NUM_INPUTS = 5


def points(count: int, *, seed: int = 0) -> torch.Tensor:
    return torch.tensor(np.random.default_rng(seed).standard_normal((count, NUM_INPUTS)))


SCALE = torch.tensor([0.3, 1.0, 0.5, 2.0, 0.8], dtype=torch.float64)
METRIC = points(NUM_INPUTS, seed=5).T @ points(NUM_INPUTS, seed=5) / NUM_INPUTS


@dataclass(frozen=True)
class Case:
    name: str
    kernel: Kernel
    oracle: Pair
    kink: bool = False  # no derivative where x = y


def _power(exponent: float, norm: float) -> Kernel:
    return PowerExponential(exponent=exponent, norm=norm, bandwidth=1.7)


CASES = [
    Case("gaussian", Gaussian(bandwidth=1.5), gaussian(1.5)),
    Case("gaussian-number", Gaussian(scale=0.6), scaled(gaussian(1.0), 0.6)),
    Case("gaussian-scale", Gaussian(scale=SCALE), scaled(gaussian(1.0), SCALE)),
    Case("gaussian-metric", Gaussian(bandwidth=2.0, metric=METRIC), with_metric(gaussian(2.0), METRIC)),
    Case("laplacian", Laplacian(bandwidth=3.0), laplacian(3.0), kink=True),
    Case("laplacian-scale", Laplacian(bandwidth=3.0, scale=SCALE), scaled(laplacian(3.0), SCALE), kink=True),
    Case("laplacian-metric", Laplacian(bandwidth=3.0, metric=METRIC), with_metric(laplacian(3.0), METRIC), kink=True),
    Case("cauchy", Cauchy(bandwidth=1.2), cauchy(1.2)),
    Case("cauchy-metric", Cauchy(bandwidth=1.2, metric=METRIC), with_metric(cauchy(1.2), METRIC)),
    Case("matern12", Matern(smoothness=0.5, bandwidth=1.7), matern(0.5, 1.7), kink=True),
    Case("matern32", Matern(smoothness=1.5, bandwidth=1.7), matern(1.5, 1.7)),
    Case("matern52", Matern(smoothness=2.5, bandwidth=1.7), matern(2.5, 1.7)),
    Case("matern32-scale", Matern(smoothness=1.5, scale=SCALE), scaled(matern(1.5, 1.0), SCALE)),
    Case("matern52-metric", Matern(smoothness=2.5, metric=METRIC), with_metric(matern(2.5, 1.0), METRIC)),
    Case("power0.7", _power(0.7, 2.0), power_exponential(0.7, 2.0, 1.7), kink=True),
    Case("power1", _power(1.0, 2.0), power_exponential(1.0, 2.0, 1.7), kink=True),
    Case("power1.4", _power(1.4, 2.0), power_exponential(1.4, 2.0, 1.7), kink=True),
    Case("power2", _power(2.0, 2.0), power_exponential(2.0, 2.0, 1.7)),
    Case("power0.5-l1", _power(0.5, 1.0), power_exponential(0.5, 1.0, 1.7), kink=True),
    Case("power1-l1", _power(1.0, 1.0), power_exponential(1.0, 1.0, 1.7), kink=True),
    Case("power0.7-l0.7", _power(0.7, 0.7), power_exponential(0.7, 0.7, 1.7), kink=True),
    Case("power0.8-l1.3", _power(0.8, 1.3), power_exponential(0.8, 1.3, 1.7), kink=True),
    Case("power1.6-l1.6", _power(1.6, 1.6), power_exponential(1.6, 1.6, 1.7), kink=True),
    Case(
        "power0.5-scale",
        PowerExponential(exponent=0.5, scale=SCALE),
        scaled(power_exponential(0.5, 2.0, 1.0), SCALE),
        kink=True,
    ),
    Case(
        "power1.4-metric",
        PowerExponential(exponent=1.4, metric=METRIC),
        with_metric(power_exponential(1.4, 2.0, 1.0), METRIC),
        kink=True,
    ),
    Case(
        "power1.2-l1.5-metric",
        PowerExponential(exponent=1.2, norm=1.5, metric=METRIC),
        with_metric(power_exponential(1.2, 1.5, 1.0), METRIC),
        kink=True,
    ),
    Case("sparse1", SparseGaussian(subset_size=1, bandwidth=0.7), sparse_gaussian(1, 0.7)),
    Case("sparse3", SparseGaussian(subset_size=3, bandwidth=1.1), sparse_gaussian(3, 1.1)),
    Case("sparse-all", SparseGaussian(subset_size=NUM_INPUTS), sparse_gaussian(NUM_INPUTS, 1.0)),
    Case("sparse2-scale", SparseGaussian(subset_size=2, scale=SCALE), scaled(sparse_gaussian(2, 1.0), SCALE)),
    Case("polynomial2", Polynomial(), polynomial(2, 1.0)),
    Case("polynomial3", Polynomial(degree=3, offset=0.5, scale=0.6), scaled(polynomial(3, 0.5), 0.6)),
    Case("linear-metric", Polynomial(degree=1, offset=0.0, metric=METRIC), with_metric(polynomial(1, 0.0), METRIC)),
    Case("arc-cosine0", ArcCosine(order=0), arc_cosine(0), kink=True),
    Case("arc-cosine1", ArcCosine(order=1), arc_cosine(1)),
    Case("arc-cosine2", ArcCosine(order=2), arc_cosine(2)),
    Case("arc-cosine1-metric", ArcCosine(order=1, metric=METRIC), with_metric(arc_cosine(1), METRIC)),
    Case("arc-cosine0-depth3", ArcCosine(order=0, depth=3), arc_cosine(0, 3), kink=True),
    Case("arc-cosine1-depth2", ArcCosine(order=1, depth=2), arc_cosine(1, 2)),
    Case("arc-cosine1-depth3", ArcCosine(order=1, depth=3), arc_cosine(1, 3)),
    Case("arc-cosine2-depth2", ArcCosine(order=2, depth=2, scale=0.6), scaled(arc_cosine(2, 2), 0.6)),
    Case("weighted", 2.5 * Gaussian(), weighted_sum((2.5, gaussian(1.0)))),
    Case(
        "sum",
        0.5 * Gaussian(bandwidth=2.0) + 2.0 * Matern(),
        weighted_sum((0.5, gaussian(2.0)), (2.0, matern(1.5, 1.0))),
    ),
    Case(
        "sum-scale",
        Sum([Gaussian(scale=SCALE), Laplacian(bandwidth=3.0)], weights=[0.4, 0.6]),
        weighted_sum((0.4, scaled(gaussian(1.0), SCALE)), (0.6, laplacian(3.0))),
        kink=True,
    ),
    Case(
        "product",
        Gaussian(bandwidth=3.0) * Laplacian(bandwidth=4.0),
        product(gaussian(3.0), laplacian(4.0)),
        kink=True,
    ),
    Case(
        "product-metric",
        Product([Cauchy(bandwidth=3.0), Gaussian(metric=METRIC)]),
        product(cauchy(3.0), with_metric(gaussian(1.0), METRIC)),
    ),
    Case(
        "nested",
        3.0 * (Gaussian() * Cauchy() + SparseGaussian(subset_size=2)),
        weighted_sum((3.0, product(gaussian(1.0), cauchy(1.0))), (3.0, sparse_gaussian(2, 1.0))),
    ),
    Case(
        "not-stationary",
        ArcCosine() * Gaussian() + Polynomial(),
        weighted_sum((1.0, product(arc_cosine(1), gaussian(1.0))), (1.0, polynomial(2, 1.0))),
    ),
]

every_kernel = pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
every_spectral_kernel = pytest.mark.parametrize(
    "case", [case for case in CASES if case.kernel.spectral], ids=attrgetter("name")
)
