"""LELA: any matrix from a leveraged sample of its entries."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor

import bochner
from bochner.lowrank.lela import TwoSidedFactor, _sample, fit_lela
from tests.lowrank.dense import generator, points


def low_rank(rows: int, columns: int, rank: int, *, noise: float = 0.0) -> Tensor:
    M = points(rows, rank) @ points(columns, rank, seed=1).T
    return M + noise * points(rows, columns, seed=2)


def fit(M: Tensor, **options: object) -> TwoSidedFactor:
    shape = {"num_rows": len(M), "num_columns": M.shape[1]}
    return fit_lela(lambda i, j: M[i, j], **{"generator": generator(), **shape, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize(("rows", "columns"), [(90, 60), (60, 90)])
def test_recovers_a_matrix_of_low_rank_from_a_part_of_it(rows: int, columns: int) -> None:
    M = low_rank(rows, columns, 3)
    factor = fit(M, rank=3, num_samples=2500, rounds=20)
    assert factor.shape == (rows, columns)
    torch.testing.assert_close(factor.left @ factor.right.T, M, rtol=0, atol=1e-6)


def test_is_near_the_optimum_under_noise() -> None:
    M = low_rank(120, 80, 4, noise=0.1)
    best = float(torch.linalg.svdvals(M)[4:].norm())
    factor = fit(M, rank=4, num_samples=5000)
    assert best <= float((M - factor.left @ factor.right.T).norm()) < 1.3 * best


def test_rounds_reduce_the_error_of_the_sparse_svd() -> None:
    errors: list[float] = []
    fit(low_rank(120, 80, 4, noise=0.1), rank=4, num_samples=4000, report=lambda number, error: errors.append(error))
    assert len(errors) == 11
    assert errors[-1] < 0.3 * errors[0]
    assert all(later <= earlier * 1.001 for earlier, later in pairwise(errors))


def test_samples_follow_their_probabilities() -> None:
    M = low_rank(8, 6, 2)
    s, seeds = 16, 1500
    squares = M.square()
    leverage = (squares.sum(dim=1, keepdim=True) + squares.sum(dim=0)) / ((8 + 6) * squares.sum())
    expected = (s / 2 * (leverage + M.abs() / M.abs().sum())).clamp_max(1)
    assert float((s / 2 * (leverage + M.abs() / M.abs().sum())).sum()) == pytest.approx(s)
    there = torch.zeros(8, 6, dtype=torch.float64)
    for seed in range(seeds):
        by_rows, by_columns = _sample(lambda i, j: M[i, j], 8, 6, s, generator(seed))
        samples, turned = by_rows.samples, by_columns.samples
        rows = torch.repeat_interleave(torch.arange(8), samples.offsets.diff())
        there[rows, samples.columns] += 1 / seeds
        torch.testing.assert_close(samples.weights, 1 / expected[rows, samples.columns])
        torch.testing.assert_close(by_rows.values[:, 0], M[rows, samples.columns])
        columns = torch.repeat_interleave(torch.arange(6), turned.offsets.diff())
        torch.testing.assert_close(by_columns.values[:, 0], M[turned.columns, columns])
    assert ((there - expected).abs() < 5 * (expected * (1 - expected) / seeds).sqrt() + 1e-9).all()


def test_spikes_are_sampled() -> None:
    """One large entry far from everything, which a uniform sample of this size mostly misses."""
    M = 0.01 * low_rank(100, 100, 1)
    M[17, 83] = 50.0
    errors = []
    for seed in range(5):
        factor = fit(M, rank=2, num_samples=3000, generator=generator(seed))
        errors.append(abs(float(factor.entries(torch.tensor([17]), torch.tensor([83]))) - 50))
    assert max(errors) < 1


def test_what_the_factor_does(tmp_path) -> None:  # type: ignore[no-untyped-def]
    factor, V = TwoSidedFactor(points(9, 2), points(7, 2, seed=1)), points(7, 4, seed=2)
    M = factor.left @ factor.right.T
    torch.testing.assert_close(factor.matmul(V), M @ V)
    i, j = torch.tensor([0, 8, 3]), torch.tensor([6, 0, 3])
    torch.testing.assert_close(factor.entries(i, j), M[i, j])
    assert factor.num_parameters == 2 * (9 + 7)
    bochner.save(factor, tmp_path / "factor.safetensors")
    loaded = bochner.load(tmp_path / "factor.safetensors")
    assert torch.equal(loaded.left, factor.left)
    assert torch.equal(loaded.right, factor.right)


def test_same_generator_same_factor_and_float32_stays() -> None:
    M = low_rank(40, 30, 2).float()
    first, again, other = (fit(M, rank=2, num_samples=800, generator=generator(seed)).left for seed in (1, 1, 2))
    assert first.dtype == torch.float32
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_bad_arguments() -> None:
    M = low_rank(10, 8, 2)
    with pytest.raises(ValueError, match="rank must be at most the smaller side of the matrix, 8, got 9"):
        fit(M, rank=9)
    with pytest.raises(ValueError, match="entries must not all be 0"):
        fit(torch.zeros(5, 5), rank=1)
    M[3, 3] = torch.nan
    with pytest.raises(ValueError, match="entries must be finite"):
        fit(M, rank=2)
    with pytest.raises(ValueError, match="alpha must be a positive"):
        fit(M, rank=2, alpha=0.0)
    with pytest.raises(ValueError, match="right must have 2 columns, got 3"):
        TwoSidedFactor(points(4, 2), points(4, 3))
