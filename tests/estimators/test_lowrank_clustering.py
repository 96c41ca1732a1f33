"""LowRankSpectralClustering, beside scikit-learn's SpectralClustering."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

from bochner import LowRankSpectralClustering

BANDWIDTH = 0.15
SHAPES = {
    "moons": make_moons(500, noise=0.06, random_state=0),
    "circles": make_circles(500, noise=0.05, factor=0.4, random_state=0),
}


@pytest.mark.parametrize("method", ["uniform-nystrom", "kmeans-nystrom", "pivoted-cholesky", "nystrom", "svd"])
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_that_k_means_cannot_tell_apart(shape: str, method: str) -> None:
    X, y = SHAPES[shape]
    clustering = LowRankSpectralClustering(num_clusters=2, bandwidth=BANDWIDTH, method=method, rank=120, random_state=0)
    labels = clustering.fit_predict(X)
    peer = SpectralClustering(2, gamma=1 / (2 * BANDWIDTH**2), random_state=0).fit_predict(X)
    assert adjusted_rand_score(y, KMeans(2, n_init=10, random_state=0).fit_predict(X)) < 0.5
    assert adjusted_rand_score(y, labels) > 0.98
    assert adjusted_rand_score(peer, labels) > 0.98


def test_many_clusters() -> None:
    centers = [[x, y] for x in (0, 5, 10) for y in (0, 5)]
    X, y = make_blobs(400, centers=centers, cluster_std=0.7, random_state=1)
    clustering = LowRankSpectralClustering(num_clusters=6, bandwidth=1.0, rank=80, random_state=0).fit(X)
    assert adjusted_rand_score(y, clustering.labels_) > 0.98
    assert clustering.embedding_.shape == (400, 6)
    assert clustering.kernel_.bandwidth == 1.0


def test_one_seed_one_result() -> None:
    X, _ = SHAPES["moons"]
    first, again = (
        LowRankSpectralClustering(num_clusters=3, bandwidth=0.3, rank=60, random_state=4).fit(X) for _ in range(2)
    )
    np.testing.assert_array_equal(first.labels_, again.labels_)
    np.testing.assert_array_equal(first.embedding_, again.embedding_)


def test_a_bandwidth_too_small_for_the_rank_is_an_error() -> None:
    X, _ = SHAPES["moons"]
    with pytest.raises(ValueError, match="raise the rank or the bandwidth"):
        LowRankSpectralClustering(num_clusters=2, bandwidth=0.01, rank=20, random_state=0).fit(X)
