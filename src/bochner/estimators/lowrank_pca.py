"""Kernel principal components on a low-rank factor."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from bochner.estimators.arrays import checked_inputs, make_generator
from bochner.estimators.lowrank_factor import FACTOR_CONSTRAINTS, Fit, fit_factor
from bochner.estimators.lowrank_rows import outputs, returned_like
from bochner.estimators.lowrank_stored import StoresItself
from bochner.kernels import Kernel
from bochner.lowrank import Components, Factor, principal_components
from bochner.models.heads import FeatureModel, LinearHead


class LowRankPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, StoresItself):
    """Kernel principal components from K ~ U U^T, centred in the space of features: O(n r^2) instead of O(n^3).

    With U U^T = K the same as scikit-learn's `KernelPCA`, up to signs.

    Parameters
    ----------
    num_components : int, default=2
        At most the rank.
    kernel, bandwidth, method, rank, random_state
        As in `LowRankRidge`.

    Attributes
    ----------
    model_ : torch module
        Gives scores [n, num_components], in float64.
    eigenvalues_ : array [num_components]
        Of the centred kernel matrix, descending: the sums of squared scores.
    explained_variance_ : array [num_components]
        eigenvalues_ / (n - 1).
    explained_variance_ratio_ : array [num_components]
        The share of each in the variance of the features, tr(K) - 1^T U U^T 1 / n, what U misses included.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> pca = LowRankPCA(num_components=5, rank=200, random_state=0).fit(X)
    >>> pca.transform(X).shape, bool(pca.explained_variance_ratio_.sum() < 1)
    ((1797, 5), True)
    """

    model_: FeatureModel
    eigenvalues_: np.ndarray[Any, Any]
    explained_variance_: np.ndarray[Any, Any]
    explained_variance_ratio_: np.ndarray[Any, Any]
    _numbers = ("eigenvalues_", "explained_variance_", "explained_variance_ratio_")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "num_components": [Interval(Integral, 1, None, closed="left")],
        **FACTOR_CONSTRAINTS,
    }

    def __init__(
        self,
        *,
        num_components: int = 2,
        kernel: str | Kernel = "gaussian",
        bandwidth: float | str | None = None,
        method: str | Fit = "uniform-nystrom",
        rank: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.num_components = num_components
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.method = method
        self.rank = rank
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the components of X [n, d]. `y` is ignored."""
        self._validate_params()
        X = checked_inputs(self, X, reset=True)
        factor = fit_factor(
            X,
            kernel=self.kernel,
            bandwidth=self.bandwidth,
            method=self.method,
            rank=self.rank,
            generator=make_generator(self.random_state),
        )
        found = principal_components(factor.root, num_components=self.num_components)
        self.eigenvalues_ = found.values.cpu().numpy()
        self.explained_variance_ = self.eigenvalues_ / max(1, len(X) - 1)
        self.explained_variance_ratio_ = self.eigenvalues_ / feature_variance(factor, X, found.mean)
        self.model_ = component_model(factor, found)
        return self

    def transform(self, X: Any) -> Any:
        """Scores [n, num_components]."""
        check_is_fitted(self)
        return returned_like(X, outputs(self.model_, checked_inputs(self, X, reset=False)))

    @property
    def kernel_(self) -> Kernel:
        check_is_fitted(self, "model_")
        return self.model_.feature_map.kernel

    @property
    def _n_features_out(self) -> int:
        return len(self.eigenvalues_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def feature_variance(factor: Factor, X: Tensor, mean: Tensor) -> float:
    """n times the variance of phi(x) over the points, tr(K) - n ||mean of phi||^2; 1 where they are all the same."""
    total = factor.kernel.diagonal(X).sum(dtype=torch.float64) - len(X) * mean.square().sum()
    return float(total) if float(total) > 0 else 1.0


def component_model(factor: Factor, found: Components) -> FeatureModel:
    """(z(x) - mean) directions, as a head on the factor's map; in float64."""
    weights = found.directions.T.contiguous()
    return FeatureModel(factor.features.double(), LinearHead(weights, -(weights @ found.mean)))
