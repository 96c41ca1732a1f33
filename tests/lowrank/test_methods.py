"""Each method against its formula."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

from bochner.features import EnsembleNystromMap, FourierMap
from bochner.kernels import Gaussian
from bochner.kernels import kernel as kernel_module
from bochner.lowrank import (
    extend,
    fit_ensemble,
    fit_fourier,
    fit_meka,
    fit_nystrom,
    fit_pivoted_cholesky,
    meka,
    svd,
    truncate,
)
from bochner.lowrank.errors import largest
from bochner.lowrank.meka import link_root
from tests.lowrank.cases import GAUSSIAN, generator, points
from tests.oracles import lowrank as oracle
from tests.oracles.memory import peak_elements


def matrix(X: torch.Tensor) -> np.ndarray:
    return GAUSSIAN(X).numpy()


# -- SVD -------------------------------------------------------------------------------------------------------


def test_truncate_is_the_best() -> None:
    X = points(80)
    U = truncate(GAUSSIAN, X, rank=9, generator=generator()).root
    np.testing.assert_allclose(U @ U.T, oracle.best_of_rank(matrix(X), 9), atol=1e-12)


def test_truncate_finds_a_point_far_from_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its eigenvalue 1 is among the largest, and no other column of K sees it."""
    monkeypatch.setattr(svd, "EXACT_POINTS", 100)
    X = points(600)
    X[599] += 1000
    factor = truncate(Gaussian(bandwidth=20.0), X, rank=6, generator=generator())
    assert factor.diag()[599] == pytest.approx(1)


@pytest.mark.parametrize("bandwidth", [0.3, 1.5, 20.0])
def test_iteration_reaches_the_best(monkeypatch: pytest.MonkeyPatch, bandwidth: float) -> None:
    """Slow, fast and very fast decay of the eigenvalues: within the tolerance of the optimum."""
    monkeypatch.setattr(svd, "EXACT_POINTS", 100)
    X, kernel = points(400), Gaussian(bandwidth=bandwidth)
    values = torch.linalg.eigvalsh(kernel(X)).flip(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        U = truncate(kernel, X, rank=20, tolerance=0.01, generator=generator()).root
    optimum = float(values[20])
    assert optimum <= largest(kernel(X) - U @ U.T) * (1 + 1e-9) + 1e-12
    assert largest(kernel(X) - U @ U.T) <= 1.01 * optimum + 1e-12 * float(values[0])


def test_iteration_that_stops_early_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svd, "EXACT_POINTS", 100)
    with pytest.warns(ConvergenceWarning, match="truncate stopped after max_sweeps=1"):
        truncate(Gaussian(bandwidth=0.5), points(400), rank=20, tolerance=1e-6, max_sweeps=1, generator=generator())


@pytest.mark.parametrize("bandwidth", [1e-4, 1e9])
def test_iteration_on_identity_and_ones(monkeypatch: pytest.MonkeyPatch, bandwidth: float) -> None:
    monkeypatch.setattr(svd, "EXACT_POINTS", 100)
    X, kernel = points(200), Gaussian(bandwidth=bandwidth)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        U = truncate(kernel, X, rank=5, generator=generator()).root
    assert largest(kernel(X) - U @ U.T) <= (1 if bandwidth < 1 else 1e-9) + 1e-9


def test_iteration_never_holds_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """n = 1,000: K would have a million numbers."""
    monkeypatch.setattr(svd, "EXACT_POINTS", 100)
    monkeypatch.setattr(kernel_module, "TILE_ELEMENTS", 2**15)
    X = points(1000)
    call = partial(truncate, GAUSSIAN, X, rank=10, generator=generator())
    assert peak_elements(call, dtype=X.dtype) < 0.35e6


# -- Nystrom ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("truncation", ["factor", "landmarks"])
@pytest.mark.parametrize("rule", ["uniform", "kmeans", "leverage", "pivoted-cholesky"])
def test_nystrom_formula(truncation: str, rule: str) -> None:
    X = points(80)
    factor = fit_nystrom(
        GAUSSIAN, X, rank=6, num_landmarks=20, landmarks=rule, truncation=truncation, generator=generator()
    )
    L = factor.features.landmarks
    expected = oracle.nystrom(GAUSSIAN(X, L).numpy(), GAUSSIAN(L).numpy(), 6, truncation)
    np.testing.assert_allclose(factor.root @ factor.root.T, expected, atol=1e-7)


def test_default_is_eight_landmarks_a_column() -> None:
    for count, expected in ((80, 48), (20, 20)):
        factor = fit_nystrom(GAUSSIAN, points(count), rank=6, generator=generator())
        assert len(factor.features.landmarks) == expected


def test_cutting_the_factor_beats_cutting_the_landmarks() -> None:
    X = points(300)
    K = GAUSSIAN(X)

    def error(truncation: str, seed: int) -> float:
        factor = fit_nystrom(
            GAUSSIAN,
            X,
            rank=15,
            num_landmarks=60,
            landmarks="uniform",
            truncation=truncation,
            generator=generator(seed),
        )
        return largest(K - factor.root @ factor.root.T)

    best = float(torch.linalg.eigvalsh(K)[-16])
    cut, standard = ([error(truncation, seed) for seed in range(5)] for truncation in ("factor", "landmarks"))
    assert all(a < b for a, b in zip(cut, standard, strict=True))
    assert sum(cut) / 5 < 1.25 * best < sum(standard) / 5


def test_default_landmarks_find_lonely_points() -> None:
    """Twelve points far from everything: each is an eigenvalue of 1, which centres and uniform points miss."""
    X = torch.cat([points(488) * 0.1, 100 * torch.eye(12, 3, dtype=torch.float64) + 50 * torch.arange(12)[:, None]])
    U = fit_nystrom(Gaussian(), X, rank=16, generator=generator()).root
    uniform = fit_nystrom(Gaussian(), X, rank=16, landmarks="uniform", generator=generator()).root
    K = Gaussian()(X)
    assert largest(K - U @ U.T) < 0.2 < 0.99 < largest(K - uniform @ uniform.T)


def test_factor_is_never_held_whole() -> None:
    """n = 20,000 points, m = 200 landmarks: F would have 4 million numbers, K 400 million."""
    X = points(20_000)
    options = {"rank": 10, "num_landmarks": 200, "landmarks": "uniform", "generator": generator()}
    for truncation in ("factor", "landmarks"):
        call = partial(fit_nystrom, GAUSSIAN, X, truncation=truncation, **options)
        assert peak_elements(call, dtype=X.dtype) < 3.2e6


# -- others ----------------------------------------------------------------------------------------------------


def test_pivoted_cholesky_formula() -> None:
    X = points(80)
    factor = fit_pivoted_cholesky(GAUSSIAN, X, rank=10, generator=generator())
    P = factor.features.landmarks
    expected = GAUSSIAN(X, P) @ torch.linalg.inv(GAUSSIAN(P)) @ GAUSSIAN(P, X)
    torch.testing.assert_close(factor.root @ factor.root.T, expected, rtol=1e-8, atol=1e-8)
    assert bool((factor.rows(_places(X, P)).triu(1).abs() < 1e-9).all())


def _places(X: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    return torch.cdist(chosen, X).argmin(dim=1)


@pytest.mark.parametrize("weighting", ["uniform", "fitted"])
def test_ensemble_without_a_cut_is_the_ensemble_map(weighting: str) -> None:
    X = points(80)
    options = {"num_landmarks": 20, "num_experts": 2, "weighting": weighting}
    z = EnsembleNystromMap.fit(GAUSSIAN, X, generator=generator(), **options)
    whole = fit_ensemble(GAUSSIAN, X, rank=20, generator=generator(), **options).root
    torch.testing.assert_close(whole @ whole.T, z.approximate(X, X), rtol=1e-8, atol=1e-8)
    cut = fit_ensemble(GAUSSIAN, X, rank=5, generator=generator(), **options).root
    np.testing.assert_allclose(cut @ cut.T, oracle.best_of_rank(z.approximate(X, X).numpy(), 5), atol=1e-8)


@pytest.mark.parametrize(("rank", "form"), [(8, "paired"), (7, "cosine")])
def test_fourier_is_the_map(rank: int, form: str) -> None:
    factor = fit_fourier(GAUSSIAN, points(), rank=rank, generator=generator())
    assert isinstance(factor.features, FourierMap)
    assert factor.features.form == form


def test_fourier_is_unbiased() -> None:
    X = points(6)
    draws = (fit_fourier(GAUSSIAN, X, rank=6, projection="iid", generator=generator(seed)).root for seed in range(300))
    samples = torch.stack([U @ U.T for U in draws])
    scores = (samples.mean(dim=0) - GAUSSIAN(X)) / (samples.std(dim=0) / 300**0.5 + 1e-12)
    assert scores.abs().max() < 4.5


def test_extension_of_eigenvectors() -> None:
    """With all points as anchors: L^{-1/2} Q^T k(X, x)."""
    X, new = points(50), points(9, seed=1)
    values, vectors = np.linalg.eigh(matrix(X))
    root = torch.as_tensor(vectors[:, -8:] * np.sqrt(values[-8:]))
    z = extend(GAUSSIAN, X, root, generator=generator())
    expected = GAUSSIAN(new, X).numpy() @ vectors[:, -8:] / np.sqrt(values[-8:])
    np.testing.assert_allclose(z(new), expected, atol=1e-9)
    torch.testing.assert_close(z(X), root, rtol=1e-8, atol=1e-8)


def test_extension_from_few_anchors() -> None:
    X, new = points(400), points(50, seed=1)
    factor = truncate(GAUSSIAN, X, rank=20, num_anchors=100, generator=generator())
    assert len(factor.features.landmarks) == 100
    error = factor.transform(new) @ factor.root.T - GAUSSIAN(new, X)
    assert float(error.square().mean().sqrt()) < 0.05


# -- MEKA ------------------------------------------------------------------------------------------------------


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
    lonely = factor.clusters == factor.clusters[-1]
    U = factor.root[lonely]
    torch.testing.assert_close(U @ U.T, GAUSSIAN(X[lonely]), rtol=1e-6, atol=1e-6)


def test_meka_with_a_cluster_without_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """k-means looks at a sample, so a centre can be nearest to nothing."""
    X = points()
    alone = fit_meka(GAUSSIAN, X, rank=30, num_clusters=1, generator=generator())
    monkeypatch.setattr(meka, "kmeans_centers", lambda X, count, **_: torch.cat([X[:1], X[:1] + 1e6]))
    factor = fit_meka(GAUSSIAN, X, rank=60, num_clusters=2, generator=generator())
    torch.testing.assert_close(factor.root @ factor.root.T, alone.root @ alone.root.T, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(factor.transform(X), factor.root, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_new_points_are_mapped_well_where_some_points_are_lonely(seed: int) -> None:
    """A direction that one point carries is lost by most draws of anchors, and its least squares then know no bound."""
    axes = 9 * torch.eye(3, dtype=torch.float64)  # 6 bandwidths from the crowd: k is 1e-8, small but not 0
    X, new = torch.cat([points(600), axes, -axes]), points(50, seed=9)
    values, vectors = torch.linalg.eigh(GAUSSIAN(X))
    root = vectors[:, -35:] * values[-35:].sqrt()
    found = extend(GAUSSIAN, X, root, num_anchors=100, generator=generator(seed))(new)
    best = torch.linalg.lstsq(root, GAUSSIAN(X, new)).solution.T
    assert (found - best).norm() < 0.2 * best.norm()
