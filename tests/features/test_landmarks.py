"""Properties of landmark rules beyond the conformance suite."""

from __future__ import annotations

import pytest
import torch

from bochner.features import LANDMARK_RULES, NystromMap, choose_landmarks
from bochner.features.landmarks import kmeans_centers, leverage_sample, pivoted_cholesky, weighted_sample
from bochner.kernels import Gaussian, Kernel
from bochner.ops.linalg import top_eigenpairs
from tests.features.cases import generator, points


def clustered(count: int = 400) -> torch.Tensor:
    """One large cloud and a small far one, which uniform sampling tends to miss."""
    X = 0.3 * points(count)
    X[: count // 40] += 10
    return X


@pytest.mark.parametrize("rule", LANDMARK_RULES)
def test_every_point_a_landmark_is_exact(rule: str) -> None:
    X, kernel = points(30), Gaussian(bandwidth=3.0)
    z = NystromMap.fit(kernel, X, num_landmarks=30, landmarks=rule, generator=generator())
    torch.testing.assert_close(z.approximate(X, X), kernel(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("rule", ["uniform", "leverage", "pivoted-cholesky"])
def test_landmarks_are_distinct_points(rule: str) -> None:
    X = points(50)
    chosen = choose_landmarks(rule, Gaussian(bandwidth=2.0), X, 20, generator=generator())
    matches = (chosen[:, None, :] == X[None]).all(dim=2)
    assert (matches.sum(dim=1) == 1).all()
    assert matches.any(dim=0).sum() == 20


@pytest.mark.parametrize("rule", LANDMARK_RULES)
def test_duplicated_points_do_no_harm(rule: str) -> None:
    X = points(10).repeat(4, 1)
    kernel = Gaussian(bandwidth=3.0)
    z = NystromMap.fit(kernel, X, num_landmarks=20, landmarks=rule, generator=generator())
    features = z(X)
    assert torch.isfinite(features).all()
    assert (features.square().sum(dim=1) <= 1 + 1e-6).all()


@pytest.mark.parametrize("rule", ["kmeans", "leverage", "pivoted-cholesky"])
def test_better_than_uniform_where_it_matters(rule: str) -> None:
    X, kernel = clustered(), Gaussian(bandwidth=4.0)
    K = kernel(X)

    def error(rule: str) -> float:
        maps = (
            NystromMap.fit(kernel, X, num_landmarks=12, landmarks=rule, generator=generator(seed)) for seed in range(20)
        )
        return float(torch.stack([(K - z.approximate(X, X)).trace() for z in maps]).mean())

    assert error(rule) < 0.9 * error("uniform")


def test_kmeans_finds_separate_clouds() -> None:
    centers = torch.tensor([[0.0, 0.0], [50.0, 0.0], [0.0, 50.0]], dtype=torch.float64)
    X = centers.repeat(100, 1) + torch.randn(300, 2, generator=generator(), dtype=torch.float64)
    for seed in range(5):
        found = kmeans_centers(X, 3, generator=generator(seed), rounds=30)
        objective = torch.cdist(X, found).min(dim=1).values.square().mean()
        assert objective < 1e3  # a merged pair of clouds costs over 400 a point in two thirds of them
        assert torch.isfinite(found).all()


def test_kmeans_lowers_the_objective_every_round() -> None:
    X = points(500)
    costs = [
        float(
            torch.cdist(X, kmeans_centers(X, 20, generator=generator(), rounds=rounds)).min(dim=1).values.square().sum()
        )
        for rounds in (1, 2, 4, 8, 16)
    ]
    assert costs == sorted(costs, reverse=True)


def test_kmeans_refills_empty_clusters() -> None:
    X = torch.cat([torch.zeros(50, 2), torch.tensor([[5.0, 5.0], [9.0, 9.0]])])
    found = kmeans_centers(X, 3, generator=generator(), rounds=20)
    assert len(found.unique(dim=0)) == 3


def test_leverage_scores_find_the_rare_points() -> None:
    X, kernel = clustered(), Gaussian(bandwidth=4.0)
    rare = [int((leverage_sample(kernel, X, 20, generator=generator(seed)) < 10).sum()) for seed in range(40)]
    assert sum(rare) / 40 > 2 * 20 * 10 / 400  # a uniform sample holds half a rare point


def test_pivoted_cholesky_is_a_cholesky_factor() -> None:
    X, kernel = points(80), Gaussian(bandwidth=2.0)
    pivots, factor = pivoted_cholesky(kernel, X, 30, generator=generator(), block_size=8)
    K = kernel(X)
    assert len(set(pivots.tolist())) == 30
    # exact on the pivots' rows, and the Nystrom approximation elsewhere
    torch.testing.assert_close((factor @ factor.T)[pivots], K[pivots], rtol=1e-8, atol=1e-8)
    schur = K[:, pivots] @ torch.linalg.solve(K[pivots][:, pivots], K[pivots])
    torch.testing.assert_close(factor @ factor.T, schur, rtol=1e-6, atol=1e-6)


def test_pivoted_cholesky_blocks_do_not_change_the_distribution() -> None:
    """The first two pivots follow P(i) ~ K_ii, P(j | i) ~ (K - K_i K_i^T / K_ii)_jj, whatever the block size."""
    X, kernel = points(5), Gaussian(bandwidth=3.0)
    K = kernel(X)
    residuals = torch.stack([(K - torch.outer(K[i], K[i]) / K[i, i]).diagonal().clamp_min(0) for i in range(5)])
    expected = residuals / residuals.sum(dim=1, keepdim=True) / 5
    for block_size in (1, 4):
        counts = torch.zeros(5, 5, dtype=torch.float64)
        for seed in range(3000):
            i, j = pivoted_cholesky(kernel, X, 2, generator=generator(seed), block_size=block_size).pivots.tolist()
            counts[i, j] += 1 / 3000
        assert (counts - expected).abs().max() < 5 * (expected.max() / 3000) ** 0.5


def test_weighted_sample_follows_the_weights() -> None:
    weights = torch.tensor([0.0, 1.0, 2.0, 3.0])
    first = torch.stack([weighted_sample(weights, 1, generator=generator(seed)) for seed in range(3000)])
    shares = torch.bincount(first.flatten(), minlength=4) / 3000
    torch.testing.assert_close(shares, weights / 6, rtol=0, atol=0.05)
    assert sorted(weighted_sample(weights, 3, generator=generator()).tolist()) == [1, 2, 3]


@pytest.mark.parametrize("count", [5, 40])
def test_top_eigenpairs(count: int) -> None:
    K = Gaussian(bandwidth=3.0)(points(100))
    values, vectors = top_eigenpairs(K, count, generator=generator())
    exact = torch.linalg.eigvalsh(K).flip(0)[:count]
    torch.testing.assert_close(values, exact, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(vectors.T @ vectors, torch.eye(count, dtype=K.dtype), rtol=0, atol=1e-8)


def test_fewer_features_keep_the_best_rank() -> None:
    """z with D < m is the best rank-D part of the m-landmark approximation on the landmarks."""
    X, kernel = points(60), Gaussian(bandwidth=3.0)
    z = NystromMap.fit(kernel, X, num_landmarks=60, num_features=10, generator=generator())
    error = torch.linalg.matrix_norm(kernel(X) - z.approximate(X, X), ord=2)
    assert error < 1.02 * torch.linalg.eigvalsh(kernel(X)).flip(0)[10]


def test_the_sample_of_a_level_gives_the_scores_of_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if it is a single point: here all of the score is that of the last point of each level."""
    samples, last = [], []

    def scores(kernel: Kernel, X: torch.Tensor, sample: torch.Tensor, *_: object) -> torch.Tensor:
        samples.append(sample)
        last.append(X[-1:])
        return torch.eye(len(X), dtype=torch.float64)[-1]

    monkeypatch.setattr("bochner.features.landmarks._leverage_scores", scores)
    X = points(64)
    (chosen,) = leverage_sample(Gaussian(), X, 1, generator=generator())
    assert torch.equal(torch.cat(samples[1:]), torch.cat(last[:-1]))
    assert torch.equal(X[chosen], last[-1][0])
    assert len(samples) == 6  # of 2, 4, ..., 64 points
