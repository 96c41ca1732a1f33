"""The low-rank estimators against scikit-learn's KernelRidge, KernelPCA and SpectralClustering."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.decomposition import PCA, KernelPCA
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import cross_val_predict
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import Generator

from bochner import LowRankPCA, LowRankRidge, LowRankSpectralClustering
from bochner.estimators.base import make_generator
from bochner.kernels import Gaussian, Polynomial
from bochner.lowrank import LOWRANK_METHODS, fit_ensemble, fit_factor, fit_meka, spectral_error
from tests.estimators.cases import waves

BANDWIDTH = 0.15
SHAPES = {
    "moons": make_moons(500, noise=0.06, random_state=0),
    "circles": make_circles(500, noise=0.05, factor=0.4, random_state=0),
}


@pytest.mark.parametrize("name", LOWRANK_METHODS)
def test_a_name_is_the_same_algorithm_as_in_the_registry(name: str) -> None:
    """Estimators and `bochner approximate` must use the same algorithm for a name."""
    X = torch.randn(300, 4, generator=Generator().manual_seed(0), dtype=torch.float64)
    factor = fit_factor(name, Gaussian(bandwidth=1.5), X, rank=30, generator=make_generator(5))
    model = LowRankRidge(bandwidth=1.5, method=name, rank=30, alpha=1.0, random_state=5).fit(X, X[:, 0]).model_
    torch.testing.assert_close(model.feature_map(X), factor.transform(X), rtol=0, atol=0)


def test_the_nystrom_methods_differ_in_landmarks_and_truncation() -> None:
    X = torch.randn(500, 5, generator=Generator().manual_seed(0), dtype=torch.float64)

    def error(name: str) -> float:
        factor = fit_factor(name, Gaussian(bandwidth=1.5), X, rank=40, generator=Generator().manual_seed(0))
        return spectral_error(factor, X, generator=Generator().manual_seed(0)).value

    assert 1.5 * error("truncated-kmeans-nystrom") < error("kmeans-nystrom") < error("uniform-nystrom")


# -- LowRankRidge ------------------------------------------------------------------------------------------------------


@parametrize_with_checks([LowRankRidge(method="pivoted-cholesky", alpha=0.1, exact=True)])
def test_scikit_learn_checks(estimator, check) -> None:
    check(estimator)


def kernel_ridge(X, y, new, *, bandwidth: float, alpha: float):
    """scikit-learn's solution for y minus its mean, and the largest change by a fitted bias."""
    peer = KernelRidge(kernel="rbf", gamma=1 / (2 * bandwidth**2), alpha=alpha).fit(X, y - y.mean(axis=0))
    return peer.predict(new) + y.mean(axis=0)


def with_bias(X, y, new, *, bandwidth: float, alpha: float):
    """The same with a bias that is not penalised, by the system of Suykens."""
    k = Gaussian(bandwidth=bandwidth)
    n = len(X)
    system = np.ones((n + 1, n + 1))
    system[:n, :n] = k(torch.tensor(X)).numpy() + alpha * np.eye(n)
    system[n, n] = 0
    solved = np.linalg.solve(system, np.concatenate([y, np.zeros((1, *y.shape[1:]))]))
    return k(torch.tensor(new), torch.tensor(X)).numpy() @ solved[:n] + solved[n]


@pytest.mark.parametrize("settings", [{}, {"rank": 40, "exact": True}], ids=["all points", "exact"])
def test_full_rank_and_exact_are_kernel_ridge_regression_with_a_bias(settings) -> None:
    X, y = waves()
    new, _ = waves(seed=1)
    model = LowRankRidge(bandwidth=1.5, alpha=0.1, random_state=0, **settings).fit(X, y)
    expected = with_bias(X, y, new, bandwidth=1.5, alpha=0.1)
    np.testing.assert_allclose(model.predict(new), expected, atol=1e-4, rtol=0)
    centred = kernel_ridge(X, y, new, bandwidth=1.5, alpha=0.1)
    assert np.abs(model.predict(new) - centred).mean() < 0.05


@pytest.mark.parametrize("name", LOWRANK_METHODS)
def test_every_method_learns(name: str) -> None:
    X, y = waves(500)
    new, truth = waves(500, seed=1)
    model = LowRankRidge(method=name, rank=150, random_state=0).fit(X, y)
    assert model.score(new, truth) > (0.9 if name == "fourier" else 0.98)
    assert model.loo_rmse_ == pytest.approx(np.sqrt(np.mean((model.predict(new) - truth) ** 2)), rel=0.6)


def test_leave_one_out_error_is_that_of_refits() -> None:
    """At full rank the factor is K whatever the landmarks: leaving one out can be done by hand."""
    X, y = waves(60)
    y = np.stack([y, X[:, 0] ** 2], axis=1)
    model = LowRankRidge(bandwidth=1.5, alpha=0.05, random_state=0)
    by_hand = cross_val_predict(model, X, y, cv=60)
    assert model.fit(X, y).loo_rmse_ == pytest.approx(np.sqrt(np.mean((by_hand - y) ** 2)), rel=1e-6)


def test_the_chosen_alpha_has_the_least_error() -> None:
    X, y = waves(100)
    y = y + 0.3 * np.random.default_rng(0).normal(size=100)
    model = LowRankRidge(bandwidth=1.5, random_state=0).fit(X, y)
    for factor in (0.1, 0.5, 2.0, 10.0):
        other = clone(model).set_params(alpha=factor * model.alpha_).fit(X, y)
        assert other.alpha_ == factor * model.alpha_
        assert other.loo_rmse_ > model.loo_rmse_


def test_many_outputs_are_solved_as_one_by_one() -> None:
    X, y = waves(100)
    both = np.stack([y, 1000 + 3 * y], axis=1)
    model = LowRankRidge(bandwidth=1.5, rank=40, alpha=0.1, random_state=0).fit(X, both)
    alone = clone(model).fit(X, both[:, 1])
    assert model.predict(X).shape == (100, 2)
    assert alone.predict(X).shape == (100,)
    np.testing.assert_allclose(model.predict(X)[:, 1], alone.predict(X), rtol=1e-9)


def test_any_function_can_be_the_method() -> None:
    X, y = waves(200)
    for method in (partial(fit_meka, num_clusters=4), partial(fit_ensemble, num_experts=2)):
        assert LowRankRidge(method=method, rank=80, random_state=0).fit(X, y).score(X, y) > 0.9


def test_float32_and_tensors_come_back_as_they_were() -> None:
    X, y = waves()
    model = LowRankRidge(bandwidth=1.5, rank=50, alpha=0.1, random_state=0)
    expected = clone(model).fit(X, y).predict(X)
    narrow = clone(model).fit(X.astype(np.float32), y.astype(np.float32)).predict(X.astype(np.float32))
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow, expected, atol=1e-3)
    tensor = clone(model).fit(torch.tensor(X), torch.tensor(y)).predict(torch.tensor(X))
    np.testing.assert_allclose(tensor.numpy(), expected, rtol=1e-12)


def test_targets_far_from_zero_keep_their_digits_in_float32() -> None:
    X, y = waves()
    shifted = LowRankRidge(bandwidth=1.5, rank=50, random_state=0).fit(X.astype(np.float32), y + 1e6)
    assert np.std(shifted.predict(X) - 1e6 - y) < 0.1


def test_one_seed_gives_one_model() -> None:
    X, y = waves()
    first, again, other = (LowRankRidge(rank=30, random_state=seed).fit(X, y).predict(X) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-6


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rank": 61}, "rank must be at most the number of points, 60, got 61"),
        ({"rank": 0}, "'rank' parameter"),
        ({"alpha": 0}, "'alpha' parameter"),
        ({"alpha": "best"}, "'alpha' parameter"),
        ({"method": "lela"}, "'method' parameter"),
        ({"method": "fourier", "kernel": Polynomial()}, "spectral"),
    ],
)
def test_bad_parameters(settings, message: str) -> None:
    X, y = waves(60)
    with pytest.raises((ValueError, TypeError), match=message):
        LowRankRidge(**settings).fit(X, y)


# -- LowRankPCA --------------------------------------------------------------------------------------------------------


def up_to_sign(scores, expected) -> None:
    signs = np.sign((scores * expected).sum(axis=0))
    np.testing.assert_allclose(scores * signs, expected, atol=1e-7)


def test_full_rank_is_kernel_pca() -> None:
    X, _ = waves(80)
    new, _ = waves(30, seed=1)
    peer = KernelPCA(n_components=4, kernel="rbf", gamma=1 / (2 * 1.5**2)).fit(X)
    pca = LowRankPCA(n_components=4, bandwidth=1.5, random_state=0).fit(X)
    np.testing.assert_allclose(pca.eigenvalues_, peer.eigenvalues_, rtol=1e-9)
    up_to_sign(pca.transform(X), peer.transform(X))
    up_to_sign(pca.transform(new), peer.transform(new))


def test_a_linear_kernel_is_pca() -> None:
    X, _ = waves(80)
    X = X * [3.0, 2.0, 1.0] + 5
    peer = PCA(n_components=2).fit(X)
    pca = LowRankPCA(kernel=Polynomial(degree=1), method="pivoted-cholesky", rank=4, random_state=0).fit(X)
    np.testing.assert_allclose(pca.explained_variance_, peer.explained_variance_, rtol=1e-9)
    np.testing.assert_allclose(pca.explained_variance_ratio_, peer.explained_variance_ratio_, rtol=1e-9)
    up_to_sign(pca.transform(X), peer.transform(X))


@pytest.mark.parametrize("name", LOWRANK_METHODS)
def test_every_method_is_near(name: str) -> None:
    X, _ = waves(300)
    peer = KernelPCA(n_components=3, kernel="rbf", gamma=1 / (2 * 1.5**2)).fit(X)
    pca = LowRankPCA(n_components=3, bandwidth=1.5, method=name, rank=60, random_state=0).fit(X)
    np.testing.assert_allclose(pca.eigenvalues_, peer.eigenvalues_, rtol=0.3 if name == "fourier" else 0.03)
    assert 0 < pca.explained_variance_ratio_.sum() < 1


def test_what_the_factor_misses_counts_as_unexplained() -> None:
    X, _ = waves(100)
    full, low = (
        LowRankPCA(n_components=3, bandwidth=0.7, method="svd", rank=rank, random_state=0).fit(X) for rank in (100, 10)
    )
    np.testing.assert_allclose(low.explained_variance_ratio_, full.explained_variance_ratio_, rtol=0.1)
    assert low.explained_variance_ratio_.sum() < 0.6


def test_names_dtypes_and_tensors() -> None:
    X, _ = waves(50)
    pca = LowRankPCA(n_components=3, rank=20, random_state=0)
    assert pca.fit(X).get_feature_names_out().tolist() == ["lowrankpca0", "lowrankpca1", "lowrankpca2"]
    assert pca.fit_transform(X.astype(np.float32)).dtype == np.float32
    assert isinstance(pca.fit(torch.tensor(X)).transform(torch.tensor(X)), torch.Tensor)


def test_points_that_are_all_the_same_have_no_variance() -> None:
    fitted = LowRankPCA(n_components=1, bandwidth=1.0, random_state=0).fit(np.ones((5, 2)))
    np.testing.assert_allclose(fitted.explained_variance_ratio_, 0, atol=1e-9)


def test_more_components_than_rank() -> None:
    with pytest.raises(ValueError, match="n_components must be at most the rank, 4, got 5"):
        LowRankPCA(n_components=5, rank=4).fit(waves(20)[0])


# -- LowRankSpectralClustering -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["uniform-nystrom", "kmeans-nystrom", "pivoted-cholesky", "nystrom", "svd"])
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_that_k_means_cannot_tell_apart(shape: str, method: str) -> None:
    X, y = SHAPES[shape]
    clustering = LowRankSpectralClustering(n_clusters=2, bandwidth=BANDWIDTH, method=method, rank=120, random_state=0)
    labels = clustering.fit_predict(X)
    peer = SpectralClustering(2, gamma=1 / (2 * BANDWIDTH**2), random_state=0).fit_predict(X)
    assert adjusted_rand_score(y, KMeans(2, n_init=10, random_state=0).fit_predict(X)) < 0.5
    assert adjusted_rand_score(y, labels) > 0.98
    assert adjusted_rand_score(peer, labels) > 0.98


def test_many_clusters() -> None:
    centers = [[x, y] for x in (0, 5, 10) for y in (0, 5)]
    X, y = make_blobs(400, centers=centers, cluster_std=0.7, random_state=1)
    clustering = LowRankSpectralClustering(n_clusters=6, bandwidth=1.0, rank=80, random_state=0).fit(X)
    assert adjusted_rand_score(y, clustering.labels_) > 0.98
    assert clustering.embedding_.shape == (400, 6)
    assert clustering.kernel_.bandwidth == 1.0


def test_one_seed_gives_one_clustering() -> None:
    X, _ = SHAPES["moons"]
    first, again = (
        LowRankSpectralClustering(n_clusters=3, bandwidth=0.3, rank=60, random_state=4).fit(X) for _ in range(2)
    )
    np.testing.assert_array_equal(first.labels_, again.labels_)
    np.testing.assert_array_equal(first.embedding_, again.embedding_)


def test_a_bandwidth_too_small_for_the_rank_is_an_error() -> None:
    X, _ = SHAPES["moons"]
    with pytest.raises(ValueError, match="raise the rank or the bandwidth"):
        LowRankSpectralClustering(n_clusters=2, bandwidth=0.01, rank=20, random_state=0).fit(X)


def test_memory_that_is_not_initialised_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such memory may hold NaN, which would be refused as if it were the rows'."""
    monkeypatch.setattr(np, "empty", lambda shape, dtype=float, **_: np.full(shape, np.nan, dtype))
    X = torch.randn(30, 2, generator=Generator().manual_seed(0), dtype=torch.float64)
    assert LowRankRidge(bandwidth=1.0, rank=5).fit(X, X[:, 0]).predict(X).shape == (30,)
