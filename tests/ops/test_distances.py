"""Distances are exact far from the origin and for near points; sums of powers of differences and their gradients."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from bochner.ops import CenteredRows, accurate_squared_distances, power_sums, squared_distances
from tests.oracles.memory import peak_elements


def points(count: int, width: int = 4, *, seed: int = 0) -> Tensor:
    return torch.tensor(np.random.default_rng(seed).standard_normal((count, width)))


def pair_by_pair(X: Tensor, Y: Tensor) -> np.ndarray:
    return np.array([[sum((x - y) ** 2) for y in Y.double().numpy()] for x in X.double().numpy()])


@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 5, 4), (3, 20, 30)], ids=str)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-4)], ids=str)
def test_equals_pair_by_pair(shape: tuple[int, int, int], dtype: torch.dtype, tolerance: float) -> None:
    n, m, d = shape
    X, Y = points(n, d).to(dtype), points(m, d, seed=1).to(dtype)
    squares = squared_distances(X, Y)
    assert squares.dtype == dtype
    np.testing.assert_allclose(squares, pair_by_pair(X, Y), rtol=0, atol=tolerance)


@pytest.mark.parametrize("offset", [1e2, 1e3, 1e4])
def test_keeps_its_digits_far_from_the_origin(offset: float) -> None:
    X, Y = (points(7) + offset).float(), (points(5, seed=1) + offset).float()
    np.testing.assert_allclose(squared_distances(X, Y), pair_by_pair(X, Y), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_is_never_negative(offset: float) -> None:
    X = (points(100, 30) + offset).float()
    squares = squared_distances(X, X)
    assert squares.min() >= 0
    assert squares.diagonal().max() < 1e-4


def test_gradients() -> None:
    assert gradcheck(squared_distances, (points(3).requires_grad_(), points(2, seed=1).requires_grad_()))


def test_gradients_of_rows_far_apart() -> None:
    X, Y = (torch.cat([points(3, seed=seed), points(3, seed=seed + 1) + 10]) for seed in (0, 2))
    squares = partial(squared_distances, error=1e-14)  # below eps ||x||^2: every row is far
    assert gradcheck(squares, (X.requires_grad_(), Y.requires_grad_()))


@pytest.mark.parametrize("count", [1, 7])
@pytest.mark.parametrize("error", [1e-14, 1e-3, np.inf])
def test_rows_centered_in_advance_give_the_same_numbers(count: int, error: float) -> None:
    X, Y = points(count) + 10, points(5, seed=1) + 10
    assert torch.equal(squared_distances(X, CenteredRows.of(Y), error=error), squared_distances(X, Y, error=error))


def test_leaves_its_inputs_alone() -> None:
    X, Y = points(3), points(2, seed=1)
    squared_distances(X, Y)
    assert torch.equal(X, points(3))
    assert torch.equal(Y, points(2, seed=1))


@pytest.mark.parametrize(("n", "m"), [(0, 3), (3, 0), (0, 0)])
def test_no_points_give_an_empty_array(n: int, m: int) -> None:
    assert squared_distances(points(n), points(m)).shape == (n, m)


# -- accurate for near points ----------------------------------------------------------------------------------------


def near_points(count: int, width: int) -> Tensor:
    """The first half of the rows, and a row at a distance of 1e-5 to 0.1 from each, in float32."""
    X = points(count // 2, width)
    steps = points(len(X), width, seed=1) * torch.logspace(-5, -1, len(X), dtype=X.dtype)[:, None]
    return torch.cat([X, X + steps]).float()


FEW_NEAR, MANY_NEAR = near_points(60, 20), near_points(60, 20)
MANY_NEAR[7] = 1e6  # moves the mean so far away that all other pairs are near beside it


@pytest.mark.parametrize("X", [FEW_NEAR, MANY_NEAR], ids=["few", "many"])
@pytest.mark.parametrize("num_rows", [1, 60])
def test_near_points_keep_their_digits(X: Tensor, num_rows: int) -> None:
    squares = accurate_squared_distances(X[:num_rows], X.clone())
    np.testing.assert_allclose(squares, pair_by_pair(X[:num_rows], X), rtol=1e-4, atol=0)
    assert not torch.allclose(squared_distances(X, X), torch.tensor(pair_by_pair(X, X)).float(), rtol=1e-4, atol=0)


@pytest.mark.parametrize("X", [FEW_NEAR, MANY_NEAR, points(4), points(1)], ids=["few", "many", "none", "one"])
def test_gradients_of_near_points(X: Tensor) -> None:
    x, y = (X.double().clone().requires_grad_() for _ in range(2))
    weights = points(len(X), len(X), seed=2)
    left, right = torch.autograd.grad((weights * accurate_squared_distances(x, y)).sum(), (x, y))
    terms = (2 * weights[:, :, None] * (x[:, None] - y)).detach()
    torch.testing.assert_close(left, terms.sum(dim=1))
    torch.testing.assert_close(right, -terms.sum(dim=0))


@pytest.mark.parametrize("X", [FEW_NEAR, MANY_NEAR], ids=["few", "many"])
def test_near_points_take_no_more_than_two_arrays(X: Tensor) -> None:
    X = X.repeat(5, 1)
    held = peak_elements(lambda: accurate_squared_distances(X, X), dtype=X.dtype) / len(X) ** 2
    assert held <= 2.2


@pytest.mark.parametrize(("n", "m"), [(0, 3), (1, 0), (3, 0), (0, 0)])
def test_no_points_give_an_empty_array_of_accurate_distances(n: int, m: int) -> None:
    assert accurate_squared_distances(points(n), points(m)).shape == (n, m)


# -- sums of powers --------------------------------------------------------------------------------------------------

every_power = pytest.mark.parametrize("power", [0.3, 0.5, 1.0, 1.3, 1.5, 2.0])


def mixed(count: int, *, seed: int = 0) -> Tensor:
    """Three normal inputs, three with two values each, and a constant."""
    X = points(count, 7, seed=seed)
    X[:, 3:6] = torch.where(X[:, 3:6] > 0, torch.tensor([0.7, 1.0, 3.1]), torch.tensor([-0.3, 0.0, 2.9]))
    X[:, 6] = 5.0
    return X


def sums_pair_by_pair(X: Tensor, Y: Tensor, power: float) -> np.ndarray:
    return np.array([[sum(abs(x - y) ** power) for y in Y.double().numpy()] for x in X.double().numpy()])


@every_power
@pytest.mark.parametrize("tile", [None, 40])
def test_power_sums_equal_pair_by_pair(power: float, tile: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if tile is not None:
        monkeypatch.setattr("bochner.ops.distances.POWER_TILE", (tile, tile))
    for X, Y in ((mixed(9), mixed(12, seed=1)), (points(9), points(12, seed=1)), (mixed(1), mixed(12, seed=1))):
        expected = sums_pair_by_pair(X, Y, power)
        np.testing.assert_allclose(power_sums(X, Y, power), expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(power_sums(X.float(), Y.float(), power), expected, rtol=1e-4, atol=1e-5)


@every_power
def test_power_sums_of_rows_with_other_values_than_the_two(power: float) -> None:
    X, Y = points(9, 7), mixed(12, seed=1)
    np.testing.assert_allclose(power_sums(X, Y, power), sums_pair_by_pair(X, Y, power), rtol=1e-12, atol=1e-12)


@every_power
def test_power_sums_of_equal_rows_are_0(power: float) -> None:
    X = mixed(50).float()
    assert torch.equal(power_sums(X, X.clone(), power).diagonal(), torch.zeros(50))
    binary = X[:, 3:].repeat(1, 20)
    assert torch.equal(power_sums(binary, binary.clone(), power) == 0, torch.cdist(binary, binary, p=1) == 0)


@every_power
def test_gradients_of_power_sums(power: float) -> None:
    X, Y = points(3, 7).requires_grad_(), mixed(4, seed=1)
    assert gradcheck(lambda x: power_sums(x, Y, power), X)
    X, Y = mixed(40), mixed(30, seed=1)
    x, y = X.clone().requires_grad_(), Y.clone().requires_grad_()
    weights = points(40, 30, seed=2)
    left, right = torch.autograd.grad((weights * power_sums(x, y, power)).sum(), (x, y))
    gaps = X[:, None] - Y
    slopes = torch.where(gaps == 0, 0, power * gaps.abs() ** (power - 1) * gaps.sign()) * weights[:, :, None]
    torch.testing.assert_close(left, slopes.sum(dim=1))
    torch.testing.assert_close(right, -slopes.sum(dim=0))


@every_power
@pytest.mark.parametrize(("n", "m"), [(0, 3), (1, 0), (3, 0), (0, 0)])
def test_no_points_give_an_empty_array_of_power_sums(power: float, n: int, m: int) -> None:
    assert power_sums(points(n), points(m), power).shape == (n, m)
    assert power_sums(points(n).requires_grad_(), points(m), power).shape == (n, m)
