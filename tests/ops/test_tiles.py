"""Tiles cover all rows, and distances are exact far from the origin."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from bochner.ops import accurate_squared_distances, row_tiles, squared_distances
from tests.oracles.memory import peak_elements

steady = settings(deadline=None, derandomize=True)
sizes = st.integers(min_value=0, max_value=300)


@steady
@given(num_rows=sizes, row_elements=sizes, tile_elements=sizes)
def test_every_row_is_in_one_tile(num_rows: int, row_elements: int, tile_elements: int) -> None:
    tiles = list(row_tiles(num_rows, row_elements=row_elements, tile_elements=tile_elements))
    assert [row for tile in tiles for row in range(tile.start, tile.stop)] == list(range(num_rows))


@steady
@given(num_rows=sizes, row_elements=sizes, tile_elements=sizes)
def test_tiles_are_as_large_as_they_may_be(num_rows: int, row_elements: int, tile_elements: int) -> None:
    tiles = list(row_tiles(num_rows, row_elements=row_elements, tile_elements=tile_elements))
    heights = [tile.stop - tile.start for tile in tiles]
    assert all(height == 1 or height * row_elements <= tile_elements for height in heights)
    for height in heights[:-1]:  # one more row would not have fitted
        assert (height + 1) * max(1, row_elements) > tile_elements


@pytest.mark.parametrize("num_rows", [1, 5])
def test_a_row_larger_than_a_tile_gets_its_own(num_rows: int) -> None:
    tiles = list(row_tiles(num_rows, row_elements=100, tile_elements=10))
    assert tiles == [slice(i, i + 1) for i in range(num_rows)]


def test_no_rows_no_tiles() -> None:
    assert list(row_tiles(0, row_elements=1, tile_elements=1)) == []


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
