"""Spectral clustering on a low-rank factor."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import KMeans
from sklearn.utils._param_validation import Interval
from torch import Generator

from bochner.estimators.arrays import checked_inputs, make_generator
from bochner.estimators.lowrank_factor import FACTOR_CONSTRAINTS, Fit, fit_factor
from bochner.kernels import Kernel
from bochner.lowrank import spectral_embedding

KMEANS_STARTS = 10


class LowRankSpectralClustering(ClusterMixin, BaseEstimator):
    """Normalised cuts of the graph of similarities K ~ U U^T: k-means on its main eigenvectors, from an r x r problem.

    O(n r^2) time and O(n r) memory instead of O(n^2) of each and more. The graph is cut where the kernel is small: give
    a bandwidth well below the distance between groups; the median rule is that of points within and across groups.

    Parameters
    ----------
    num_clusters : int, default=8
        At most the rank.
    kernel, bandwidth, method, rank, random_state
        As in `LowRankRidge`; the kernel must not be negative.

    Attributes
    ----------
    labels_ : array [n]
        The cluster of each point, from 0.
    embedding_ : array [n, num_clusters]
        Eigenvectors of the normalised graph, divided by the roots of the degrees: the points that k-means saw.
    kernel_ : Kernel

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(400, noise=0.05, random_state=0)
    >>> clustering = LowRankSpectralClustering(num_clusters=2, bandwidth=0.15, rank=100, random_state=0)
    >>> labels = clustering.fit_predict(X)
    >>> bool((labels == y).all() or (labels != y).all())
    True
    """

    labels_: np.ndarray[Any, Any]
    embedding_: np.ndarray[Any, Any]
    kernel_: Kernel

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "num_clusters": [Interval(Integral, 1, None, closed="left")],
        **FACTOR_CONSTRAINTS,
    }

    def __init__(
        self,
        *,
        num_clusters: int = 8,
        kernel: str | Kernel = "gaussian",
        bandwidth: float | str | None = None,
        method: str | Fit = "uniform-nystrom",
        rank: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.num_clusters = num_clusters
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.method = method
        self.rank = rank
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Cluster the points X [n, d]. `y` is ignored."""
        self._validate_params()
        X = checked_inputs(self, X, reset=True)
        generator = make_generator(self.random_state)
        factor = fit_factor(
            X,
            kernel=self.kernel,
            bandwidth=self.bandwidth,
            method=self.method,
            rank=self.rank,
            generator=generator,
        )
        self.kernel_ = factor.kernel
        self.embedding_ = spectral_embedding(factor, num_vectors=self.num_clusters).cpu().numpy()
        self.labels_ = k_means_labels(self.embedding_, self.num_clusters, generator)
        return self


def k_means_labels(points: np.ndarray[Any, Any], count: int, generator: Generator) -> np.ndarray[Any, Any]:
    """scikit-learn's k-means, the best of 10 starts."""
    kmeans = KMeans(count, n_init=KMEANS_STARTS, random_state=generator.initial_seed() % 2**31)
    labels: np.ndarray[Any, Any] = kmeans.fit_predict(points)
    return labels
