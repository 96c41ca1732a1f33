"""Ridge regression on a factor, against dense formulas and against refits without each point."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from bochner.kernels import Gaussian
from bochner.lowrank import (
    candidate_alphas,
    choose_alpha,
    loo_errors,
    ridge_problem,
    solve_ridge,
)
from bochner.lowrank.regression import gram
from tests.lowrank.cases import CASES, generator, points


def targets(X: Tensor) -> Tensor:
    """Two outputs, far from 0, with noise."""
    noise = torch.randn(len(X), 2, generator=generator(7), dtype=X.dtype)
    return 50 + torch.stack([X[:, 0].sin(), X.prod(dim=1)], dim=1) + 0.1 * noise


def naive_fit(U: Tensor, Y: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    """Least squares with a column of ones that is not penalised."""
    design = torch.cat([U, torch.ones(len(U), 1, dtype=U.dtype)], dim=1)
    penalty = alpha * torch.eye(design.shape[1], dtype=U.dtype)
    penalty[-1, -1] = 0
    solved = torch.linalg.solve(design.T @ design + penalty, design.T @ Y)
    return solved[:-1], solved[-1]


def refitted_errors(U: Tensor, Y: Tensor, alpha: float) -> Tensor:
    """y_i - f_i(x_i) [n, t] by n fits, each without a point."""
    residuals = []
    for i in range(len(U)):
        others = torch.arange(len(U)) != i
        weights, bias = naive_fit(U[others], Y[others], alpha)
        residuals.append(Y[i] - U[i] @ weights - bias)
    return torch.stack(residuals)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_method_is_solved_as_by_normal_equations(case) -> None:
    X = points()
    U = case.make(X).root
    weights, bias = solve_ridge(ridge_problem(U, targets(X)), alpha=0.3)
    expected, offset = naive_fit(U, targets(X), 0.3)
    torch.testing.assert_close(weights, expected, rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(bias, offset, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("alpha", [1e-6, 1e-2, 1.0, 1e3])
@pytest.mark.parametrize("count", [20, 60])  # with 20 points and 12 columns, points have a large leverage
def test_leaving_one_out_is_refitting_without_it(alpha: float, count: int) -> None:
    X = points(count)
    U, Y = CASES[0].make(X).root, targets(X)
    expected = refitted_errors(U, Y, alpha).square().mean()
    torch.testing.assert_close(loo_errors(ridge_problem(U, Y), [alpha])[0], expected, rtol=1e-7, atol=0)


def test_all_of_k_in_the_factor_is_kernel_ridge_regression() -> None:
    X, k, alpha = points(), Gaussian(bandwidth=1.5), 0.2
    Y = targets(X)
    K = k(X)
    weights, bias = solve_ridge(ridge_problem(torch.linalg.cholesky(K), Y), alpha=alpha)
    a = torch.linalg.solve(K + alpha * torch.eye(len(X), dtype=K.dtype), Y - bias)
    torch.testing.assert_close(torch.linalg.cholesky(K) @ weights, K @ a)
    torch.testing.assert_close(a.sum(dim=0), torch.zeros(2, dtype=K.dtype), atol=1e-8, rtol=0)


def test_errors_do_not_depend_on_the_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    X = points()
    problem = ridge_problem(CASES[0].make(X).root, targets(X))
    whole = loo_errors(problem, [1e-3, 1.0, 10.0])
    monkeypatch.setattr("bochner.lowrank.regression.TILE_ELEMENTS", 100)
    torch.testing.assert_close(loo_errors(problem, [1e-3, 1.0, 10.0]), whole)
    torch.testing.assert_close(torch.stack([loo_errors(problem, [r])[0] for r in (1e-3, 1.0, 10.0)]), whole)


def test_the_gram_matrix_by_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bochner.lowrank.regression.GRAM_COLUMNS", 4)
    A = torch.randn(30, 11, generator=generator(), dtype=torch.float64)
    torch.testing.assert_close(gram(A), A.T @ A)


def test_the_chosen_ridge_grows_with_the_noise_and_is_near_the_best_for_new_points() -> None:
    X, fresh, chosen = points(150), points(2000, seed=1), []
    factor = CASES[0].make(X, rank=40)
    features, truth = factor.transform(fresh), fresh[:, :1].sin()
    for noise in (0.1, 0.3, 1.0):
        y = X[:, :1].sin() + noise * torch.randn(150, 1, generator=generator(3), dtype=X.dtype)
        problem = ridge_problem(factor.root, y)
        alphas = candidate_alphas(problem)
        alpha, error = choose_alpha(problem, alphas)
        tested = []
        for candidate in alphas:
            weights, bias = solve_ridge(problem, alpha=candidate)
            tested.append(float((features @ weights + bias - truth).square().mean()))
        assert tested[alphas.index(alpha)] < 2 * min(tested) < 0.5 * max(tested)
        assert 0.5 * noise**2 < error < 2 * noise**2
        chosen.append(alpha)
    assert chosen == sorted(set(chosen))


def test_candidates_span_the_spectrum() -> None:
    X = points()
    problem = ridge_problem(CASES[0].make(X).root, targets(X))
    alphas = candidate_alphas(problem)
    assert alphas == sorted(alphas)
    assert alphas[-1] == pytest.approx(float(problem.values[-1]))
    assert alphas[0] == pytest.approx(1e-12 * alphas[-1])
    assert alphas[4] == pytest.approx(10 * alphas[0])  # four per decade


def test_constant_targets_take_the_flattest_model() -> None:
    X = points()
    problem = ridge_problem(CASES[0].make(X).root, torch.full((60, 1), 3.0))
    alpha, error = choose_alpha(problem, candidate_alphas(problem))
    assert (alpha, error) == (candidate_alphas(problem)[-1], 0.0)
    assert solve_ridge(problem, alpha=alpha)[1].item() == 3.0


def test_points_that_are_all_the_same_give_the_mean() -> None:
    problem = ridge_problem(torch.ones(10, 3), torch.arange(10.0)[:, None])
    alpha, error = choose_alpha(problem, candidate_alphas(problem))
    weights, bias = solve_ridge(problem, alpha=alpha)
    assert (weights == 0).all()
    assert bias.item() == 4.5
    assert error == pytest.approx(float((torch.arange(10.0).double() - 4.5).square().mean()) * (10 / 9) ** 2)


def test_float32_factors_are_solved_in_float64() -> None:
    X = points(dtype=torch.float32)
    problem = ridge_problem(CASES[2].make(X).root, targets(X))
    assert {part.dtype for part in problem} == {torch.float64}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alphas": []}, "at least one number"),
        ({"alphas": [1.0, 0.0]}, "alphas must be a positive finite number, got 0.0"),
        ({"alphas": [float("nan")]}, "alphas must be a positive finite number, got nan"),
    ],
)
def test_bad_ridges(arguments, message: str) -> None:
    problem = ridge_problem(torch.eye(3), torch.eye(3))
    with pytest.raises(ValueError, match=message):
        loo_errors(problem, **arguments)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (torch.ones(4, 1), "one row per point, 3, got 4"),
        (torch.ones(3), r"y must have shape \[rows, inputs\]"),
        (torch.full((3, 1), torch.nan), "y must be finite"),
    ],
)
def test_bad_targets(y: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ridge_problem(torch.eye(3), y)


def test_a_ridge_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match=r"alpha must be a positive finite number, got 0"):
        solve_ridge(ridge_problem(torch.eye(3), torch.eye(3)), alpha=0)
