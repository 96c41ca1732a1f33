"""Kernel ridge regression with the same kernel and penalty in every library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.kernel_ridge import KernelRidge
from torch import Tensor

from benchmarks.data import Array, gamma, median_bandwidth, points
from benchmarks.report import Row
from benchmarks.suite import peers
from benchmarks.suite.race import PLAIN, race
from benchmarks.suite.sizes import Sizes
from bochner import KernelRegressor, LowRankRidge

RIDGE, NOISE = 1.0, 0.1


class Regression(NamedTuple):
    """float32 points and targets, those to predict, and common settings."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array
    bandwidth: float
    rank: int
    device: torch.device

    def tensors(self) -> list[Tensor]:
        return [torch.from_numpy(part).to(self.device) for part in (self.X, self.y, self.X_test)]


Solve = Callable[[Regression], Any]  # predictions [n]


def rows(sizes: Sizes) -> Iterator[Row]:
    ours = {f"LowRankRidge, rank {sizes.ridge_rank}": low_rank, "KernelRegressor, solver='exact'": exact}
    yield from _compared(ours, _same_problem(), sizes)
    if peers.has("xRFM"):
        yield from _compared({"KernelRegressor, adapt='agop'": metric}, {"xRFM": xrfm}, sizes)


def _compared(ours: dict[str, Solve], theirs: dict[str, Solve], sizes: Sizes) -> Iterator[Row]:
    problem = make_regression(sizes)
    learned = ", a metric learned" if "xRFM" in theirs else ""
    table = f"Kernel ridge regression, {sizes.ridge_points:,} x {sizes.inputs}{learned}: fit and predict"
    runs = {name: (lambda solve=solve: solve(problem)) for name, solve in {**ours, **theirs}.items()}
    yield from race(table, {name: runs.pop(name) for name in ours}, runs, sizes, repeats=sizes.slow_repeats)
    errors = {name: _rmse(solve, problem) for name, solve in {**ours, **theirs}.items()}
    note = "Root of the mean squared error on as many new points, in units of the targets' deviation."
    for case in ours:
        yield from (Row(f"{table}: error", case, peer, "error", errors[case], errors[peer], note) for peer in theirs)


def make_regression(sizes: Sizes) -> Regression:
    """A smooth function of a few of the inputs, with noise, standardised."""
    X = points(2 * sizes.ridge_points, sizes.inputs)
    y = np.sin(X[:, 0]) + np.cos(X[:, 1] + X[:, 2]) + NOISE * np.random.default_rng(1).standard_normal(len(X))
    y = ((y - y.mean()) / y.std()).astype(np.float32)
    n = sizes.ridge_points
    return Regression(X[:n], y[:n], X[n:], y[n:], median_bandwidth(X[:n]), sizes.ridge_rank, sizes.device)


def low_rank(problem: Regression) -> Any:
    model = LowRankRidge(bandwidth=problem.bandwidth, rank=problem.rank, alpha=RIDGE, random_state=0)
    return model.fit(problem.X, problem.y).predict(problem.X_test)


def exact(problem: Regression) -> Any:
    """One factorisation; alpha is a penalty on a mean over the rows."""
    model = KernelRegressor(
        preset=None,
        solver="exact",
        bandwidth=problem.bandwidth,
        alpha=RIDGE / len(problem.X),
        random_state=0,
        solver_params={"device": str(problem.device)},
    )
    return model.fit(problem.X, problem.y).predict(problem.X_test)


def metric(problem: Regression) -> Any:
    """The model also learns a metric, as xRFM does."""
    model = KernelRegressor(
        preset=None,
        bandwidth=problem.bandwidth,
        random_state=0,
        adapt="agop",
        solver_params={"device": str(problem.device)},
    )
    return model.fit(problem.X, problem.y).predict(problem.X_test)


def plain(problem: Regression) -> Any:
    X, y, X_test = problem.tensors()
    scale = -2 * problem.bandwidth**2
    K = torch.exp(torch.cdist(X, X).square() / scale).add_(RIDGE * torch.eye(len(X), device=X.device))
    solution = torch.cholesky_solve(y[:, None], torch.linalg.cholesky(K))
    return (torch.exp(torch.cdist(X_test, X).square() / scale) @ solution)[:, 0].cpu().numpy()


def scikit_learn(problem: Regression) -> Any:
    model = KernelRidge(kernel="rbf", gamma=gamma(problem.bandwidth), alpha=RIDGE)
    return model.fit(problem.X, problem.y).predict(problem.X_test)


def himalaya(problem: Regression) -> Any:
    from himalaya.kernel_ridge import KernelRidge as HimalayaRidge

    model = HimalayaRidge(alpha=RIDGE, kernel="rbf", kernel_params={"gamma": gamma(problem.bandwidth)})
    return model.fit(problem.X, problem.y[:, None]).predict(problem.X_test)[:, 0]


def gpytorch(problem: Regression) -> Any:
    """The posterior mean of a Gaussian process whose noise is the ridge."""
    from gpytorch.kernels import RBFKernel
    from linear_operator.operators import AddedDiagLinearOperator, ConstantDiagLinearOperator

    X, y, X_test = problem.tensors()
    kernel = RBFKernel().to(X)
    kernel.lengthscale = problem.bandwidth
    with torch.no_grad():
        noise = ConstantDiagLinearOperator(torch.full((1,), RIDGE).to(X), diag_shape=len(X))
        solution = AddedDiagLinearOperator(kernel(X).evaluate_kernel(), noise).solve(y[:, None])
        return (kernel(X_test, X) @ solution)[:, 0].cpu().numpy()


def xrfm(problem: Regression) -> Any:
    """xRFM with its own bandwidth and kernel; it also learns a metric, on a fifth of the rows."""
    from xrfm import xRFM

    X, y, X_test = problem.tensors()
    held = len(X) // 5
    model = xRFM(device=problem.device, tuning_metric="mse", random_state=0, verbose=False)
    model.fit(X[held:], y[held:, None], X[:held], y[:held, None])
    return np.asarray(model.predict(X_test)).ravel()


def _same_problem() -> dict[str, Solve]:
    optional = {"himalaya": himalaya, "GPyTorch": gpytorch}
    return {PLAIN: plain, "scikit-learn": scikit_learn} | {
        name: solve for name, solve in optional.items() if peers.has(name)
    }


def _rmse(solve: Solve, problem: Regression) -> list[float]:
    return [float(np.sqrt(np.mean((np.asarray(solve(problem)) - problem.y_test) ** 2)))]
