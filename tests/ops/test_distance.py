"""Squared distances against one pair at a time."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from bochner.ops import squared_distances


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
