"""Kernel ridge regression on a low-rank factor."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

import torch
from sklearn.base import RegressorMixin
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from bochner.estimators.arrays import checked_inputs, make_generator
from bochner.estimators.lowrank_factor import FACTOR_CONSTRAINTS, Fit, fit_factor
from bochner.estimators.lowrank_rows import checked_pair, outputs, returned_like
from bochner.estimators.lowrank_stored import StoresItself
from bochner.kernels import Kernel
from bochner.lowrank import (
    Factor,
    RidgeProblem,
    candidate_ridges,
    choose_ridge,
    ridge_problem,
    solve_exact,
    solve_ridge,
)
from bochner.models import LandmarkModel
from bochner.models.heads import FeatureModel, LinearHead

# Of conjugate gradients: far below what any ridge changes.
TOLERANCE = 1e-5


class LowRankRidge(RegressorMixin, StoresItself):
    """Kernel ridge regression, min ||f(X) + b - y||^2 + ridge ||f||^2, on K ~ U U^T, its ridge chosen for free.

    One decomposition of U^T U gives, for every ridge, the solution and the exact error of leaving each point out:
    nothing is held out and nothing refitted. O(n r^2) time and O(n r) memory instead of O(n^3) and O(n^2).

    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        A name (see `FourierFeatures`) or any kernel object.
    bandwidth : float, "median", "mean" or None, default=None
        None takes the median rule for a kernel given by name and leaves a kernel object as it is.
    method : str or callable, default="uniform-nystrom"
        "uniform-nystrom" and "kmeans-nystrom" take as many landmarks as the rank, "pivoted-cholesky" random pivots;
        "nystrom" is the best of its rank from 8 times as many pivots, "svd" the best of all; "als", "fourier". Or any
        function fit(kernel, X, rank=.., generator=..) of `bochner.lowrank`, with `functools.partial` for its options.
    rank : int or None, default=None
        The columns of U; None is 1,000, or all points if there are fewer, which makes "uniform-nystrom" exact.
    ridge : float or "auto", default="auto"
        As in (K + ridge I) a = y; `alpha` of scikit-learn's `KernelRidge`, and n times the ridge of `KernelRegressor`.
        "auto" is the best of 49 by the leave-one-out error, from 1e-12 to 1 times the largest eigenvalue.
    exact : bool, default=False
        Solve with K itself, which is never held, by conjugate gradients with U U^T as preconditioner: O(n^2) an
        iteration, and predictions from all n points. The ridge is still chosen on U U^T.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    model_ : torch module
        Gives predictions [n, t], in float64.
    kernel_ : Kernel
    ridge_ : float
    loo_rmse_ : float
        The root of the mean squared leave-one-out error, over points and outputs, of the regression on U U^T.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-3, 3, 500)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=500)
    >>> model = LowRankRidge(rank=50, random_state=0).fit(X, y)
    >>> bool(np.abs(model.predict(X) - np.sin(X[:, 0])).max() < 0.1), 0.09 < model.loo_rmse_ < 0.11
    (True, True)
    """

    ridge_: float
    loo_rmse_: float
    _is_single: bool
    _numbers = ("ridge_", "loo_rmse_", "_is_single")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **FACTOR_CONSTRAINTS,
        "ridge": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "exact": ["boolean"],
    }

    def __init__(
        self,
        *,
        kernel: str | Kernel = "gaussian",
        bandwidth: float | str | None = None,
        method: str | Fit = "uniform-nystrom",
        rank: int | None = None,
        ridge: float | str = "auto",
        exact: bool = False,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.method = method
        self.rank = rank
        self.ridge = ridge
        self.exact = exact
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit on X [n, d] and numbers y [n] or [n, t]."""
        self._validate_params()
        X, y = checked_pair(self, X, y)
        self._is_single = y.ndim == 1
        targets = y.reshape(len(y), -1)
        factor = fit_factor(
            X,
            kernel=self.kernel,
            bandwidth=self.bandwidth,
            method=self.method,
            rank=self.rank,
            generator=make_generator(self.random_state),
        )
        problem = ridge_problem(factor.root, targets)
        ridges = candidate_ridges(problem) if isinstance(self.ridge, str) else [float(self.ridge)]
        self.ridge_, error = choose_ridge(problem, ridges)
        self.loo_rmse_ = error**0.5
        if self.exact:
            self.model_ = exact_model(factor, X, problem, self.ridge_)
        else:
            self.model_ = factor_model(factor, problem, self.ridge_)
        return self

    def predict(self, X: Any) -> Any:
        """f(X) + b, [n] or [n, t] as y was."""
        check_is_fitted(self)
        values = outputs(self.model_, checked_inputs(self, X, reset=False))
        return returned_like(X, values[:, 0] if self._is_single else values)

    @property
    def kernel_(self) -> Kernel:
        check_is_fitted(self, "model_")
        return self.model_.kernel if isinstance(self.model_, LandmarkModel) else self.model_.feature_map.kernel

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def factor_model(factor: Factor, problem: RidgeProblem, ridge: float) -> FeatureModel:
    """z(x) w + b with the factor's map for new points, in float64 whatever the factor: targets can be far from 0."""
    weights, bias = solve_ridge(problem, ridge=ridge)
    return FeatureModel(factor.features.double(), LinearHead(weights.T.contiguous(), bias))


def exact_model(factor: Factor, X: Tensor, problem: RidgeProblem, ridge: float) -> LandmarkModel:
    """k(x, X) a + b with (K + ridge I) a + b = Y and sum(a) = 0: a = s - b s', s and s' the solutions for Y and 1."""
    targets = torch.cat([problem.targets, torch.ones_like(problem.targets[:, :1])], dim=1)
    solved = solve_exact(factor.kernel, X, targets, ridge=ridge, factor=factor, tolerance=TOLERANCE).coefficients
    ones = solved[:, -1:]
    shift = solved[:, :-1].sum(dim=0) / ones.sum()
    coefficients = solved[:, :-1] - ones * shift
    return LandmarkModel(factor.kernel, X.double(), coefficients, problem.target_mean + shift)
