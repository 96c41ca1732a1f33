"""Nystrom, pivoted Cholesky, ensemble and Fourier factors against their formulas."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from bochner.features import EnsembleNystromMap, FourierMap
from bochner.kernels import Gaussian
from bochner.lowrank import (
    fit_ensemble,
    fit_fourier,
    fit_nystrom,
    fit_pivoted_cholesky,
)
from bochner.lowrank.errors import largest
from tests.lowrank.cases import GAUSSIAN, generator, points
from tests.oracles import lowrank as oracle
from tests.oracles.memory import peak_elements


def matrix(X: torch.Tensor) -> np.ndarray:
    return GAUSSIAN(X).numpy()


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


def test_default_landmarks_include_isolated_points() -> None:
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
