"""Kernels by name and alias."""

import pytest
import torch
from sklearn.metrics.pairwise import polynomial_kernel

from bochner.kernels import (
    KERNEL_ALIASES,
    KERNEL_NAMES,
    STATIONARY_NAMES,
    ArcCosine,
    Gaussian,
    Kernel,
    Laplacian,
    Matern,
    PowerExponential,
    SparseGaussian,
    Stationary,
    kernel_named,
)
from tests.kernels.cases import NUM_INPUTS, points


@pytest.mark.parametrize("name", KERNEL_NAMES)
def test_a_name_is_a_kernel(name: str) -> None:
    kernel = kernel_named(name, num_inputs=NUM_INPUTS)
    assert kernel(points(4)).isfinite().all()
    assert isinstance(kernel, Stationary) == (name in STATIONARY_NAMES)


@pytest.mark.parametrize(("alias", "name"), list(KERNEL_ALIASES.items()))
def test_an_alias_is_its_kernel(alias: str, name: str) -> None:
    assert alias not in KERNEL_NAMES
    assert repr(kernel_named(alias, num_inputs=7)) == repr(kernel_named(name, num_inputs=7))


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("rbf", Gaussian()),
        ("laplace", Laplacian()),
        ("matern", Matern(smoothness=2.5)),
        ("matern12", Matern(smoothness=0.5)),
        ("power-exponential", PowerExponential(exponent=1, norm=2)),
        ("arc-cosine", ArcCosine(order=1)),
        ("arc-cosine0", ArcCosine(order=0)),
        ("sparse-gaussian", SparseGaussian(subset_size=3)),
    ],
)
def test_what_names_mean(name: str, kernel: Kernel) -> None:
    assert repr(kernel_named(name, num_inputs=3)) == repr(kernel)


def test_the_polynomial_kernel_is_that_of_scikit_learn() -> None:
    X, Y = points(6), points(4, seed=1)
    values = kernel_named("poly", num_inputs=NUM_INPUTS)(X, Y)
    torch.testing.assert_close(values, torch.tensor(polynomial_kernel(X.numpy(), Y.numpy())))
