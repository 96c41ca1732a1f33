"""Estimators on a low-rank factor K ~ U U^T of the kernel matrix: ridge regression, PCA and spectral clustering."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, RegressorMixin, TransformerMixin
from sklearn.cluster import KMeans
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data
from torch import Generator, Tensor

from bochner.estimators.base import as_tensor, checked_inputs, make_generator
from bochner.estimators.store import SavableMixin
from bochner.kernels import Kernel
from bochner.lowrank import (
    LOWRANK_METHODS,
    Components,
    Factor,
    Fit,
    RidgeProblem,
    candidate_alphas,
    choose_alpha,
    fit_factor,
    principal_components,
    ridge_problem,
    solve_exact,
    solve_ridge,
    spectral_embedding,
)
from bochner.models import LandmarkModel
from bochner.models.heads import FeatureModel, LinearHead
from bochner.ops import TILE_ELEMENTS, row_tiles
from bochner.search.kernel import KERNEL_CONSTRAINTS, resolve_kernel

DEFAULT_RANK = 1000
# Tolerance of conjugate gradients: far below the effect of any penalty.
EXACT_TOLERANCE = 1e-5
KMEANS_STARTS = 10

Array = np.ndarray[Any, Any]


@dataclass(kw_only=True, eq=False, repr=False)
class LowRankEstimator(SavableMixin):
    """The shared parameters of the low-rank estimators, and the factor that they describe."""

    kernel: str | Kernel = "gaussian"
    bandwidth: float | str | None = None
    gamma: float | None = None
    method: str | Fit = "uniform-nystrom"
    rank: int | None = None
    random_state: Any = None

    _fitted_state: ClassVar[Mapping[str, Any]] = {"kernel_": Kernel}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KERNEL_CONSTRAINTS,
        "method": [StrOptions(set(LOWRANK_METHODS)), callable],
        "rank": [None, Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def _fit_factor(self, X: Tensor, generator: Generator) -> Factor:
        """The factor of X [n, d]; sets `kernel_`."""
        kernel = resolve_kernel(self.kernel, self.bandwidth, X, generator, gamma=self.gamma)
        rank = min(DEFAULT_RANK, len(X)) if self.rank is None else int(self.rank)
        factor = fit_factor(self.method, kernel, X, rank=rank, generator=generator)
        self.kernel_ = factor.kernel
        return factor


@dataclass(kw_only=True, eq=False, repr=False)
class LowRankRidge(RegressorMixin, LowRankEstimator):
    """Kernel ridge regression, min ||f(X) + b - y||^2 + alpha ||f||^2, on K ~ U U^T, with leave-one-out alpha.

    One decomposition of U^T U gives, for every alpha, the solution and the exact leave-one-out error: no data are held
    out and no model is refitted. O(n r^2) time and O(n r) memory instead of O(n^3) and O(n^2).

    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        A name (see `FourierFeatures`) or any kernel object.
    bandwidth : float, "median", "mean", "neighbor" or None, default=None
        A number or a rule of `bochner.kernels.Stationary.with_bandwidth`. None is the median rule for a kernel given
        by name and leaves a kernel object as it is.
    gamma : float or None, default=None
        scikit-learn's parameter instead of `bandwidth`, as in `FourierFeatures`.
    method : str or callable, default="uniform-nystrom"
        A name of `bochner.lowrank.LOWRANK_METHODS`: "uniform-nystrom" and "kmeans-nystrom" use as many landmarks as
        the rank, "pivoted-cholesky" random pivots; "nystrom" is the best rank-r part of 8 times as many pivots, "svd"
        the best of all; `bochner.lowrank.fit_factor` lists the others. Or a function fit(kernel, X, rank=...,
        generator=...) of `bochner.lowrank`, with `functools.partial` for its options.
    rank : int or None, default=None
        The number of columns of U. None is 1,000, or n if there are fewer points, which makes "uniform-nystrom" exact.
    alpha : float or "auto", default="auto"
        The penalty, as in (K + alpha I) a = y and in scikit-learn's `KernelRidge`; n times that of `KernelRegressor`.
        "auto" has the lowest leave-one-out error of 49 values, from 1e-12 to 1 times the largest eigenvalue.
    exact : bool, default=False
        Solve with K itself, which is never in memory, by conjugate gradients preconditioned by U U^T: O(n^2) per
        iteration, and predictions from all n points. alpha is still chosen on U U^T.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    model_ : torch module
        Returns predictions [n, t] in float64.
    kernel_ : Kernel
    alpha_ : float
    loo_rmse_ : float
        Root mean squared leave-one-out error, over points and outputs, of the regression on U U^T.

    Examples
    --------
    >>> X = np.linspace(-3, 3, 500)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=500)
    >>> model = LowRankRidge(rank=50, random_state=0).fit(X, y)
    >>> bool(np.abs(model.predict(X) - np.sin(X[:, 0])).max() < 0.1), 0.09 < model.loo_rmse_ < 0.11
    (True, True)
    """

    alpha: float | str = "auto"
    exact: bool = False

    _fitted_state: ClassVar[Mapping[str, Any]] = {
        **LowRankEstimator._fitted_state,
        "model_": FeatureModel | LandmarkModel,
        "alpha_": float,
        "loo_rmse_": float,
        "_is_single": bool,
    }
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LowRankEstimator._parameter_constraints,
        "alpha": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "exact": ["boolean"],
    }

    def fit(self, X: Any, y: Any) -> Self:
        """Fit on X [n, d] and numbers y [n] or [n, t]."""
        self._validate_params()
        X, y = _checked_pair(self, X, y)
        self._is_single = y.ndim == 1
        factor = self._fit_factor(X, make_generator(self.random_state))
        problem = ridge_problem(factor.root, y.reshape(len(y), -1))
        alphas = candidate_alphas(problem) if isinstance(self.alpha, str) else [float(self.alpha)]
        self.alpha_, error = choose_alpha(problem, alphas)
        self.loo_rmse_ = error**0.5
        self.model_ = (exact_model(factor, X, problem, self.alpha_) if self.exact
                       else factor_model(factor, problem, self.alpha_))  # fmt: skip
        return self

    def predict(self, X: Any) -> Any:
        """f(X) + b, [n] or [n, t] as y was."""
        check_is_fitted(self)
        values = _outputs(self.model_, checked_inputs(self, X, reset=False))
        return _returned_like(X, values[:, 0] if self._is_single else values)

    def _check_fitted_state(self) -> None:
        width = _outputs(self.model_, torch.zeros(1, self.n_features_in_)).shape[1]
        if self._is_single and width != 1:
            raise ValueError(f"model_ must have 1 output, got {width}.")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class LowRankPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, LowRankEstimator):
    """Kernel principal components from K ~ U U^T, centred in feature space: O(n r^2) instead of O(n^3).

    With U U^T = K this is scikit-learn's `KernelPCA`, up to signs.

    Parameters
    ----------
    n_components : int, default=2
        At most the rank.
    kernel, bandwidth, gamma, method, rank, random_state
        As in `LowRankRidge`.

    Attributes
    ----------
    model_ : torch module
        Returns scores [n, n_components] in float64.
    kernel_ : Kernel
    eigenvalues_ : array [n_components]
        Of the centred kernel matrix, descending: the sums of squared scores.
    explained_variance_ : array [n_components]
        eigenvalues_ / (n - 1).
    explained_variance_ratio_ : array [n_components]
        The share of each in the variance of the features, tr(K) - 1^T U U^T 1 / n, what U misses included.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> pca = LowRankPCA(n_components=5, rank=200, random_state=0).fit(X)
    >>> pca.transform(X).shape, bool(pca.explained_variance_ratio_.sum() < 1)
    ((1797, 5), True)
    """

    n_components: int = 2

    _fitted_state: ClassVar[Mapping[str, Any]] = {
        **LowRankEstimator._fitted_state,
        "model_": FeatureModel,
        "eigenvalues_": np.ndarray,
        "explained_variance_": np.ndarray,
        "explained_variance_ratio_": np.ndarray,
    }
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LowRankEstimator._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left")],
    }

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the components of X [n, d]. `y` is ignored."""
        self._validate_params()
        X = checked_inputs(self, X, reset=True)
        factor = self._fit_factor(X, make_generator(self.random_state))
        components = principal_components(factor.root, n_components=self.n_components)
        self.eigenvalues_ = components.values.cpu().numpy()
        self.explained_variance_ = self.eigenvalues_ / max(1, len(X) - 1)
        self.explained_variance_ratio_ = self.eigenvalues_ / feature_variance(factor, X, components.mean)
        self.model_ = component_model(factor, components)
        return self

    def transform(self, X: Any) -> Any:
        """Scores [n, n_components]."""
        check_is_fitted(self)
        return _returned_like(X, _outputs(self.model_, checked_inputs(self, X, reset=False)))

    @property
    def _n_features_out(self) -> int:
        return len(self.eigenvalues_)

    def _check_fitted_state(self) -> None:
        shape = _outputs(self.model_, torch.zeros(1, self.n_features_in_)).shape[1:]
        arrays = (self.eigenvalues_, self.explained_variance_, self.explained_variance_ratio_)
        if any(array.shape != shape for array in arrays):
            raise ValueError(f"eigenvalues_ and explained variances must have shape {tuple(shape)}.")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class LowRankSpectralClustering(ClusterMixin, LowRankEstimator):
    """Normalized cuts of the similarity graph K ~ U U^T: k-means on its leading eigenvectors, from an r x r problem.

    O(n r^2) time and O(n r) memory instead of O(n^2) or more of each. The graph is cut where the kernel is small:
    choose a bandwidth well below the distance between groups. The median rule, which includes pairs across groups, is
    too wide.

    Parameters
    ----------
    n_clusters : int, default=8
        At most the rank.
    kernel, bandwidth, gamma, method, rank, random_state
        As in `LowRankRidge`; the kernel must not be negative.

    Attributes
    ----------
    labels_ : array [n]
        The cluster of each point, from 0.
    embedding_ : array [n, n_clusters]
        Eigenvectors of the normalized graph, divided by the square roots of the degrees: the input of k-means.
    kernel_ : Kernel

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(400, noise=0.05, random_state=0)
    >>> clustering = LowRankSpectralClustering(n_clusters=2, bandwidth=0.15, rank=100, random_state=0)
    >>> labels = clustering.fit_predict(X)
    >>> bool((labels == y).all() or (labels != y).all())
    True
    """

    n_clusters: int = 8

    _fitted_state: ClassVar[Mapping[str, Any]] = {
        **LowRankEstimator._fitted_state,
        "labels_": np.ndarray,
        "embedding_": np.ndarray,
    }
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LowRankEstimator._parameter_constraints,
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
    }

    def fit(self, X: Any, y: Any = None) -> Self:
        """Cluster the points X [n, d]. `y` is ignored."""
        self._validate_params()
        X = checked_inputs(self, X, reset=True)
        generator = make_generator(self.random_state)
        factor = self._fit_factor(X, generator)
        self.embedding_ = spectral_embedding(factor, n_components=self.n_clusters).cpu().numpy()
        seed = generator.initial_seed() % 2**31
        self.labels_ = KMeans(self.n_clusters, n_init=KMEANS_STARTS, random_state=seed).fit_predict(self.embedding_)
        return self

    def _check_fitted_state(self) -> None:
        if self.labels_.ndim != 1 or self.embedding_.shape != (len(self.labels_), self.n_clusters):
            raise ValueError(
                f"embedding_ must have a row per label and {self.n_clusters} columns, got {self.embedding_.shape}."
            )


def factor_model(factor: Factor, problem: RidgeProblem, alpha: float) -> FeatureModel:
    """z(x) w + b with the factor's map for new points, in float64 for any factor: targets can be far from 0."""
    weights, bias = solve_ridge(problem, alpha=alpha)
    return FeatureModel(factor.features.double(), LinearHead(weights.T.contiguous(), bias))


def exact_model(factor: Factor, X: Tensor, problem: RidgeProblem, alpha: float) -> LandmarkModel:
    """k(x, X) a + b with (K + alpha I) a + b = Y and sum(a) = 0: a = s - b s', s and s' the solutions for Y and 1."""
    targets = torch.cat([problem.targets, torch.ones_like(problem.targets[:, :1])], dim=1)
    solved = solve_exact(factor.kernel, X, targets, alpha=alpha, factor=factor, tolerance=EXACT_TOLERANCE).coefficients
    ones = solved[:, -1:]
    shift = solved[:, :-1].sum(dim=0) / ones.sum()
    coefficients = solved[:, :-1] - ones * shift
    return LandmarkModel(factor.kernel, X.double(), coefficients, problem.target_mean + shift)


def component_model(factor: Factor, components: Components) -> FeatureModel:
    """(z(x) - mean) directions, as a linear head on the factor's map, in float64."""
    weights = components.directions.T.contiguous()
    return FeatureModel(factor.features.double(), LinearHead(weights, -(weights @ components.mean)))


def feature_variance(factor: Factor, X: Tensor, mean: Tensor) -> float:
    """n times the variance of phi(x) over the points, tr(K) - n ||mean of phi||^2; 1 if all points are equal."""
    total = factor.kernel.diagonal(X).sum(dtype=torch.float64) - len(X) * mean.square().sum()
    return float(total) if float(total) > 0 else 1.0


def _checked_pair(estimator: LowRankEstimator, X: Any, y: Any) -> tuple[Tensor, Tensor]:
    """X as a float tensor [n, d] and numbers y [n] or [n, t] in float64, on X's device."""
    numeric: dict[str, Any] = {"multi_output": True, "y_numeric": True}
    if isinstance(X, Tensor):
        X = checked_inputs(estimator, X, reset=True)
        y = y.cpu().numpy() if isinstance(y, Tensor) else y
        _, y = check_X_y(np.zeros((len(X), 1)), y, **numeric)
    else:
        X, y = validate_data(estimator, X, y, reset=True, dtype=[np.float64, np.float32], **numeric)
        X = as_tensor(X)
    return X, as_tensor(y).to(X.device, torch.float64)


def _outputs(model: FeatureModel | LandmarkModel, X: Tensor) -> Tensor:
    """model(X) [n, t] in float64 on X's device, in tiles of rows: no [n, r] features are in memory."""
    width = model.feature_map.num_features if isinstance(model, FeatureModel) else len(model.landmarks)
    device = next(iter(model.state_dict().values())).device
    with torch.no_grad():
        tiles = row_tiles(len(X), row_elements=width, tile_elements=TILE_ELEMENTS)
        return torch.cat([model(X[tile].to(device, torch.float64)).to(X.device) for tile in tiles])


def _returned_like(X: Any, values: Tensor) -> Any:
    """A tensor if X is one, else an array; in X's dtype if that is float32, else in float64."""
    if isinstance(X, Tensor):
        return values.to(X)
    return (values.float() if getattr(X, "dtype", None) == np.float32 else values).numpy()
