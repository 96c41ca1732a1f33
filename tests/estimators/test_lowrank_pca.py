"""LowRankPCA, against scikit-learn's KernelPCA."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA, KernelPCA

import bochner
from bochner import LowRankPCA
from bochner.estimators.lowrank_factor import METHODS
from bochner.kernels import Polynomial
from tests.estimators.machines import waves


def up_to_sign(scores, expected) -> None:
    signs = np.sign((scores * expected).sum(axis=0))
    np.testing.assert_allclose(scores * signs, expected, atol=1e-7)


def test_full_rank_is_kernel_pca() -> None:
    X, _ = waves(80)
    new, _ = waves(30, seed=1)
    peer = KernelPCA(n_components=4, kernel="rbf", gamma=1 / (2 * 1.5**2)).fit(X)
    pca = LowRankPCA(num_components=4, bandwidth=1.5, random_state=0).fit(X)
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


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_near(name: str) -> None:
    X, _ = waves(300)
    peer = KernelPCA(n_components=3, kernel="rbf", gamma=1 / (2 * 1.5**2)).fit(X)
    pca = LowRankPCA(num_components=3, bandwidth=1.5, method=name, rank=60, random_state=0).fit(X)
    np.testing.assert_allclose(pca.eigenvalues_, peer.eigenvalues_, rtol=0.3 if name == "fourier" else 0.03)
    assert 0 < pca.explained_variance_ratio_.sum() < 1


def test_what_the_factor_misses_counts_as_unexplained() -> None:
    X, _ = waves(100)
    full, low = (
        LowRankPCA(num_components=3, bandwidth=0.7, method="svd", rank=rank, random_state=0).fit(X)
        for rank in (100, 10)
    )
    np.testing.assert_allclose(low.explained_variance_ratio_, full.explained_variance_ratio_, rtol=0.1)
    assert low.explained_variance_ratio_.sum() < 0.6


def test_names_dtypes_and_tensors() -> None:
    X, _ = waves(50)
    pca = LowRankPCA(num_components=3, rank=20, random_state=0)
    assert pca.fit(X).get_feature_names_out().tolist() == ["lowrankpca0", "lowrankpca1", "lowrankpca2"]
    assert pca.fit_transform(X.astype(np.float32)).dtype == np.float32
    assert isinstance(pca.fit(torch.tensor(X)).transform(torch.tensor(X)), torch.Tensor)


def test_files_bring_back_the_components(tmp_path: Path) -> None:
    X, _ = waves(50)
    fitted = LowRankPCA(num_components=3, rank=20, random_state=0).fit(X)
    bochner.save(fitted, tmp_path / "pca.bochner")
    loaded = bochner.load(tmp_path / "pca.bochner")
    np.testing.assert_array_equal(loaded.transform(X), fitted.transform(X))
    for name in ("eigenvalues_", "explained_variance_", "explained_variance_ratio_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(fitted, name))


def test_points_that_are_all_the_same_have_no_variance() -> None:
    fitted = LowRankPCA(num_components=1, bandwidth=1.0, random_state=0).fit(np.ones((5, 2)))
    np.testing.assert_allclose(fitted.explained_variance_ratio_, 0, atol=1e-9)


def test_more_components_than_rank() -> None:
    with pytest.raises(ValueError, match="num_components must be at most the rank, 4, got 5"):
        LowRankPCA(num_components=5, rank=4).fit(waves(20)[0])
