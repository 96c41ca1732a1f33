"""Block coordinate descent against the dense solution and the factorisation."""

from __future__ import annotations

import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

from bochner.kernels import Gaussian, Kernel, Laplacian, Matern
from bochner.solvers import fit_askotch, fit_exact_ridge
from bochner.solvers.askotch import _block_step
from tests.oracles.memory import PeakMemory
from tests.solvers.problems import classes, dense_landmark_ridge, generator, numbers, points, weights
from tests.solvers.rows import Rows

pytestmark = pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("rank", [None, 20])
@pytest.mark.parametrize("kernel", [3 * Gaussian(), Laplacian(bandwidth=2.0), Matern(smoothness=1.5)], ids=str)
def test_equals_the_dense_solution(kernel: Kernel, rank: int | None) -> None:
    X, w = points(), weights(120)  # some weights are 0
    Y, history = numbers(X), []
    model = fit_askotch(
        kernel,
        Rows(X, Y, w, shard_rows=50),
        alpha=1e-3,
        tolerance=1e-8,
        max_epochs=1000,
        block_rows=40,
        rank=rank,
        report=lambda epoch, left: history.append((epoch, left)),
    )
    right = dense_landmark_ridge(kernel, X, X, Y, w, 1e-3)
    torch.testing.assert_close(model.decision(X), right, rtol=0, atol=1e-5)
    assert [epoch for epoch, _ in history] == list(range(1, len(history) + 1))
    assert history[-1][1] <= 1e-8 < history[-2][1]


def test_the_reported_residual_is_that_of_the_equations() -> None:
    X, kernel, history = points(200), Matern(smoothness=0.5), []
    Y = numbers(X)
    model = fit_askotch(
        kernel, Rows(X, Y), alpha=1e-4, tolerance=1e-6, block_rows=50, report=lambda _, left: history.append(left)
    )
    centred = Y - Y.mean(dim=0)
    residual = kernel(X) @ model.coefficients + 200 * 1e-4 * model.coefficients - centred
    assert float(residual.norm() / centred.norm()) < history[-1] <= 1e-6  # blocks are seen before their step


def test_float32_rows_and_classes() -> None:
    X = points(700, dtype=torch.float32)
    source = Rows(X, classes(X, 3))
    model = fit_askotch(Gaussian(), source, num_classes=3, tolerance=1e-4)  # two blocks by default
    right = fit_exact_ridge(Gaussian(), source, num_classes=3)
    assert model.coefficients.dtype == torch.float32
    torch.testing.assert_close(model.decision(X), right.decision(X), rtol=0, atol=2e-3)


def test_one_block_is_solved_at_once() -> None:
    X, history = points(), []
    source = Rows(X, numbers(X))
    model = fit_askotch(Gaussian(), source, alpha=1e-6, report=lambda _, left: history.append(left))
    assert len(history) == 2
    assert history[1] < 1e-9
    torch.testing.assert_close(
        model.decision(X), fit_exact_ridge(Gaussian(), source, alpha=1e-6).decision(X), rtol=0, atol=1e-7
    )


def test_the_same_generator_gives_the_same_model() -> None:
    X = points(300)
    source = Rows(X, numbers(X))
    first, second = (fit_askotch(Gaussian(), source, block_rows=100, generator=generator()) for _ in range(2))
    assert torch.equal(first.coefficients, second.coefficients)


def test_constant_targets() -> None:
    X = points(100)
    model = fit_askotch(Gaussian(), Rows(X, torch.full((100,), 3.0).double()))
    torch.testing.assert_close(model.decision(X), torch.full((100, 1), 3.0).double())


def test_too_few_epochs() -> None:
    X = points(300)
    with pytest.warns(ConvergenceWarning, match=r"ASkotch stopped at max_epochs=2 with .* tolerance 1e-08: raise"):
        fit_askotch(Gaussian(), Rows(X, numbers(X)), tolerance=1e-8, max_epochs=2, block_rows=50)


@pytest.mark.parametrize("name", ["tolerance", "max_epochs", "block_rows", "rank", "alpha"])
def test_bad_arguments(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} .*got 0"):
        fit_askotch(Gaussian(), Rows(points(20), numbers(points(20))), **{name: 0})


def test_memory_is_that_of_the_rows() -> None:
    """K of 8,000 rows has 256 MB in float32."""
    X = points(8000, dtype=torch.float32)
    source = Rows(X, X[:, 0].sin())
    with PeakMemory() as memory:
        fit_askotch(Gaussian(bandwidth=0.3), source, tolerance=0.9, block_rows=1000)
    assert memory.peak < 100 * 2**20


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_jitter_of_a_block_is_relative_to_its_diagonal(dtype: torch.dtype) -> None:
    """Points far from each other: K = c I, and the step is r / (c + jitter)."""
    X, c = 100 * torch.arange(4.0, dtype=dtype)[:, None], 1e4
    roots, residual = torch.full((4, 1), c, dtype=torch.float64).sqrt(), torch.ones(4, 1, dtype=torch.float64)
    step = _block_step(Gaussian(), X, roots, residual, 0.0, rank=None, generator=generator())
    eps = torch.finfo(torch.float32).eps if dtype == torch.float32 else 0.0
    torch.testing.assert_close(c * step, residual / (1 + eps), rtol=1e-12, atol=0.0)
