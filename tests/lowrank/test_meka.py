"""MEKA against whole matrices."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bochner.lowrank import (
    fit_meka,
    meka,
)
from bochner.lowrank.meka import link_root
from tests.lowrank.cases import GAUSSIAN, generator, points


def matrix(X: torch.Tensor) -> np.ndarray:
    return GAUSSIAN(X).numpy()


def clustered(count: int = 90) -> torch.Tensor:
    return points(count) * 0.5 + torch.arange(count)[:, None] % 3 * 4


def test_meka_is_exact_with_whole_bases() -> None:
    """As many columns as points in each cluster: every block is fitted without error."""
    X = points(30) * 0.5 + torch.arange(30)[:, None] % 2 * 3
    factor = fit_meka(GAUSSIAN, X, rank=30, num_clusters=2, landmarks="uniform", generator=generator())
    assert factor.clusters.bincount().tolist() == [15, 15]
    torch.testing.assert_close(factor.root @ factor.root.T, GAUSSIAN(X), rtol=1e-5, atol=1e-5)


def test_meka_blocks() -> None:
    """Within clusters the Nystrom factor's best, between them zero without links; the links mend that."""
    X = clustered()
    K = GAUSSIAN(X)
    linked, unlinked = (
        fit_meka(GAUSSIAN, X, rank=45, num_clusters=3, threshold=threshold, generator=generator())
        for threshold in (0.0, 2.0)
    )
    same = linked.clusters[:, None] == linked.clusters
    apart = unlinked.root @ unlinked.root.T
    assert float(apart[~same].abs().max()) < 1e-12
    assert float((apart - K)[same].abs().max()) < 0.05
    assert float((linked.root @ linked.root.T - K)[~same].abs().max()) < 0.25 * float(K[~same].max())


def test_links_from_samples_are_nearly_the_best() -> None:
    """Fitted on 40 of 150 points of each cluster, against the projection of all of K_st on both bases."""
    X = points(300) * 0.5 + torch.arange(300)[:, None] % 2 * 3
    factor = fit_meka(GAUSSIAN, X, rank=20, num_clusters=2, generator=generator())
    first, second = ((factor.clusters == c).nonzero().squeeze(1) for c in (0, 1))
    K, A, B = GAUSSIAN(X[first], X[second]), factor.basis[first], factor.basis[second]
    best = (K - A @ (A.T @ K @ B) @ B.T).norm()
    assert best < 0.3 * K.norm()
    assert (K - factor.rows(first) @ factor.rows(second).T).norm() < 2 * best


def test_links_are_the_positive_part() -> None:
    L = points(3) + points(3).T
    values, vectors = np.linalg.eigh(L.numpy())
    assert values[0] < 0 < values[-1]
    A = link_root(L.tril())
    np.testing.assert_allclose(
        A @ A.T, sum(v * np.outer(q, q) for v, q in zip(values, vectors.T, strict=True) if v > 0)
    )


def test_meka_counts_what_it_stores() -> None:
    X = clustered()
    factor = fit_meka(GAUSSIAN, X, rank=12, num_clusters=3, generator=generator())
    assert factor.num_parameters == 90 * 4 + 12**2
    assert int(factor.features.links.numel()) <= 12**2


def test_meka_with_clusters_smaller_than_their_basis() -> None:
    X = torch.cat([points(50), points(2) + 50])
    factor = fit_meka(GAUSSIAN, X, rank=40, num_clusters=2, landmarks="uniform", generator=generator())
    assert sorted(factor.clusters.bincount().tolist()) == [2, 50]
    isolated = factor.clusters == factor.clusters[-1]
    U = factor.root[isolated]
    torch.testing.assert_close(U @ U.T, GAUSSIAN(X[isolated]), rtol=1e-6, atol=1e-6)


def test_meka_with_a_cluster_without_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """k-means looks at a sample, so a centre can be nearest to nothing."""
    X = points()
    alone = fit_meka(GAUSSIAN, X, rank=30, num_clusters=1, generator=generator())
    monkeypatch.setattr(meka, "kmeans_centers", lambda X, count, **_: torch.cat([X[:1], X[:1] + 1e6]))
    factor = fit_meka(GAUSSIAN, X, rank=60, num_clusters=2, generator=generator())
    torch.testing.assert_close(factor.root @ factor.root.T, alone.root @ alone.root.T, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(factor.transform(X), factor.root, rtol=1e-6, atol=1e-6)
