"""The power-exponential kernel: its special cases, near and equal points in float32, and derivatives at distance 0."""

import numpy as np
import pytest
import torch
from torch import Tensor

from bochner.kernels import Gaussian, Kernel, Laplacian, Matern, PowerExponential
from tests.kernels.cases import METRIC, NUM_INPUTS, points
from tests.oracles.kernels import matrix, power_exponential
from tests.oracles.memory import peak_elements

ISOTROPIC = [0.3, 0.7, 1.0, 1.4, 1.9]
PAIRS = [*((p, 2.0) for p in ISOTROPIC), (0.5, 1.0), (1.0, 1.0), (0.7, 0.7), (1.5, 1.5), (0.8, 1.3)]
every_pair = pytest.mark.parametrize(("exponent", "norm"), PAIRS)


def clustered(count: int, *, num_inputs: int = 20) -> Tensor:
    """Pairs of points at distances from 1e-6 to 1, far from the origin in units of their distance, in float32."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((count // 2, num_inputs))
    steps = rng.standard_normal(X.shape) * np.logspace(-6, 0, len(X))[:, None]
    return torch.tensor(np.concatenate([X, X + steps])).float()


@pytest.mark.parametrize(
    ("special", "general"),
    [
        (Gaussian(bandwidth=2.0), PowerExponential(exponent=2, bandwidth=2 * 2.0**0.5)),
        (Matern(smoothness=0.5, bandwidth=2.0), PowerExponential(bandwidth=2.0)),
        (Laplacian(bandwidth=2.0), PowerExponential(norm=1, bandwidth=2.0)),
        (Gaussian(metric=METRIC), PowerExponential(exponent=2, bandwidth=2.0**0.5, metric=METRIC)),
    ],
    ids=repr,
)
def test_equals_its_special_cases(special: Kernel, general: Kernel) -> None:
    X, Y = points(7), points(4, seed=1)
    torch.testing.assert_close(general(X, Y), special(X, Y), rtol=1e-12, atol=1e-12)


@every_pair
def test_median_rule_gives_the_same_value_at_the_median_distance(exponent: float, norm: float) -> None:
    kernel = PowerExponential(exponent=exponent, norm=norm).with_bandwidth("median", points(301))
    values = kernel(points(301))[*torch.triu_indices(301, 301, 1)]
    assert float(values.median()) == pytest.approx(np.exp(-1), rel=1e-3)


# -- near and equal points -------------------------------------------------------------------------------------------


@every_pair
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_equal_rows_have_the_value_1(exponent: float, norm: float, offset: float) -> None:
    X = (points(50) + offset).float()
    K = PowerExponential(exponent=exponent, norm=norm)(X, X.clone())
    assert torch.equal(K.diagonal(), torch.ones(50))


@every_pair
def test_near_points_keep_their_digits_in_float32(exponent: float, norm: float) -> None:
    X = clustered(60)
    kernel = PowerExponential(exponent=exponent, norm=norm, bandwidth=4.0)
    expected = matrix(power_exponential(exponent, norm, 4.0), X.double().numpy(), X.double().numpy())
    np.testing.assert_allclose(kernel(X, X.clone()).numpy(), expected, rtol=0, atol=1e-5)


def test_an_outlier_leaves_the_others_their_digits() -> None:
    """The mean is far from all points, so that every pair of the others is near."""
    X = clustered(60)
    X[7] = 1e6
    expected = matrix(power_exponential(0.7, 2.0, 4.0), X.double().numpy(), X.double().numpy())
    np.testing.assert_allclose(PowerExponential(exponent=0.7, bandwidth=4.0)(X).numpy(), expected, rtol=0, atol=1e-5)


@every_pair
@pytest.mark.parametrize("count", [100, 600])
def test_float32_matrix_with_duplicates_is_positive_semi_definite(exponent: float, norm: float, count: int) -> None:
    X = torch.cat([clustered(count // 2, num_inputs=NUM_INPUTS)] * 2)
    K = PowerExponential(exponent=exponent, norm=norm)(X)
    assert torch.linalg.eigvalsh(K.double()).min() >= -1e-6 * count
    torch.testing.assert_close(K, K.T, rtol=0, atol=1e-5)


# -- derivatives -----------------------------------------------------------------------------------------------------


@every_pair
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_derivative_at_distance_0_is_0(exponent: float, norm: float, dtype: torch.dtype) -> None:
    X = points(3).to(dtype)
    x = torch.stack([X[0]] * 3).requires_grad_()
    (gradient,) = torch.autograd.grad(PowerExponential(exponent=exponent, norm=norm)(x, X[:1]).sum(), x)
    assert torch.equal(gradient, torch.zeros_like(x))


@every_pair
def test_float32_gradients_of_near_points_keep_their_digits(exponent: float, norm: float) -> None:
    X, kernel = clustered(60), PowerExponential(exponent=exponent, norm=norm, bandwidth=4.0)

    def gradient(x: Tensor) -> Tensor:
        x = x.clone().requires_grad_()
        return torch.autograd.grad(kernel(x, x.detach().clone()).sum(), x)[0].double()

    exact = gradient(X.double())
    assert ((gradient(X) - exact).norm(dim=1) <= 1e-3 * exact.norm(dim=1)).all()


# -- in parts --------------------------------------------------------------------------------------------------------


@every_pair
def test_single_rows_under_vmap(exponent: float, norm: float) -> None:
    """As sampled entries of a kernel matrix are computed."""
    kernel, X, Y = PowerExponential(exponent=exponent, norm=norm), points(5), points(20, seed=1).reshape(5, 4, -1)
    values = torch.vmap(kernel)(X[:, None], Y)[:, 0]
    torch.testing.assert_close(values, torch.stack([kernel(x[None], y)[0] for x, y in zip(X, Y, strict=True)]))


def test_gradients_hold_no_array_per_input() -> None:
    X, Y = torch.zeros(50, 40), torch.ones(60, 40)
    kernel = PowerExponential(exponent=1.5, norm=1.5)

    def differentiate() -> None:
        with torch.enable_grad():
            x = X.clone().requires_grad_()
            torch.autograd.grad(kernel(x, Y).sum(), x)

    assert peak_elements(differentiate, dtype=X.dtype) < 12 * 50 * 60 + 2 * X.numel() + Y.numel()
