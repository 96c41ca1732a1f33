"""Conformance of every low-rank factor."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

import bochner
from tests.lowrank.cases import CASES, RANK, Case, generator, points
from tests.oracles import lowrank as oracle


def factors_that(holds: Callable[[Case], bool]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [case for case in CASES if holds(case)], ids=str)


every_factor = factors_that(lambda case: True)


def right_sides(count: int) -> torch.Tensor:
    return torch.randn(count, 2, generator=generator(5), dtype=torch.float64)


@every_factor
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shapes_and_dtypes(case: Case, dtype: torch.dtype) -> None:
    X, new = points(dtype=dtype), points(7, seed=1, dtype=dtype)
    factor = case.make(X)
    assert (factor.num_points, factor.rank, factor.dtype) == (60, RANK, dtype)
    assert factor.root.shape == (60, RANK)
    assert factor.transform(new).shape == (7, RANK)
    for result in (factor.root, factor.diag(), factor.transform(new), factor.matmul(X), factor.solve(0.1, X)):
        assert result.dtype == dtype


@every_factor
def test_root_and_products(case: Case) -> None:
    factor, V = case.make(points()), right_sides(60)
    U = torch.as_tensor(oracle.root(factor))
    torch.testing.assert_close(factor.root, U)
    torch.testing.assert_close(factor.matmul(V), U @ U.T @ V)
    torch.testing.assert_close(factor.matmul(V[:, 0]), U @ U.T @ V[:, 0])
    torch.testing.assert_close(factor.expand(V[:RANK]), U @ V[:RANK])
    torch.testing.assert_close(factor.project(V), U.T @ V)
    torch.testing.assert_close(factor.diag(), (U @ U.T).diagonal())
    some = torch.tensor([5, 0, 59])
    torch.testing.assert_close(factor.rows(some), U[some])


@every_factor
@pytest.mark.parametrize("alpha", [1e-6, 0.1, 1e3])
def test_solve_and_logdet(case: Case, alpha: float) -> None:
    factor, y = case.make(points()), right_sides(60)
    U = oracle.root(factor)
    expected = torch.as_tensor(oracle.solve(U, alpha, y.numpy()))
    torch.testing.assert_close(factor.solve(alpha, y), expected, rtol=1e-7, atol=1e-7 * float(expected.abs().max()))
    torch.testing.assert_close(factor.solve(alpha, y[:, 0]), factor.solve(alpha, y)[:, 0])
    assert factor.logdet(alpha) == pytest.approx(oracle.logdet(U, alpha), rel=1e-8)


@every_factor
def test_eigenpairs(case: Case) -> None:
    factor = case.make(points())
    values, vectors = factor.eigenpairs()
    torch.testing.assert_close(vectors.T @ vectors, torch.eye(RANK, dtype=torch.float64))
    torch.testing.assert_close((vectors * values) @ vectors.T, factor.root @ factor.root.T)
    assert bool((values.diff() <= 0).all())


@factors_that(lambda case: case.all_columns)
def test_condition_number(case: Case) -> None:
    factor = case.make(points())
    assert factor.condition_number() == pytest.approx(oracle.condition_number(oracle.root(factor)), rel=1e-6)


@factors_that(lambda case: case.converges)
def test_approximates(case: Case) -> None:
    """Far better than zero, and better with more columns."""
    X = points(200)
    K = case.kernel(X)

    def error(rank: int) -> float:
        roots = (case.make(X, rank=rank, seed=seed).root for seed in range(4))
        return sum(float((U @ U.T - K).norm()) for U in roots)

    assert error(48) < 0.6 * error(12) < 0.6 * 4 * float(K.norm())


@factors_that(lambda case: case.exact_at_full_rank)
def test_exact_at_full_rank(case: Case) -> None:
    X = points(30)
    K = case.kernel(X)
    U = case.make(X, rank=30).root
    torch.testing.assert_close(U @ U.T, K, rtol=1e-6, atol=1e-6 * float(K.max()))


@factors_that(lambda case: case.below)
def test_never_exceeds_the_kernel(case: Case) -> None:
    X = points()
    K, U = case.kernel(X), case.make(X).root
    assert torch.linalg.eigvalsh(K - U @ U.T).min() > -1e-9 * float(torch.linalg.eigvalsh(K).max())


@factors_that(lambda case: case.maps_points_to_root)
def test_points_have_their_rows(case: Case) -> None:
    X = points()
    factor = case.make(X)
    torch.testing.assert_close(factor.transform(X), factor.root, rtol=1e-6, atol=1e-6)


@every_factor
def test_new_points(case: Case) -> None:
    """The approximation is about as good at new points."""
    X, new = points(200), points(50, seed=1)
    factor = case.make(X, rank=48)

    def error(Z: torch.Tensor, Y: torch.Tensor) -> float:
        return float((Z @ factor.root.T - case.kernel(Y, X)).square().mean().sqrt())

    assert error(factor.transform(new), new) < 3 * error(factor.root, X) + 1e-6


@every_factor
def test_same_generator_same_factor(case: Case) -> None:
    X = points()
    first, again, other = (case.make(X, seed=seed).root for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert torch.equal(first, other) != case.random


@every_factor
def test_inputs_are_left_alone(case: Case) -> None:
    X, y = points(), right_sides(60)
    before = X.clone(), y.clone()
    factor = case.make(X)
    factor.solve(0.1, y)
    factor.matmul(y)
    assert torch.equal(X, before[0])
    assert torch.equal(y, before[1])


@every_factor
def test_save_and_load(case: Case, tmp_path) -> None:
    X = points(dtype=torch.float32)
    factor = case.make(X)
    bochner.save(factor, tmp_path / "factor.safetensors")
    loaded = bochner.load(tmp_path / "factor.safetensors")
    assert repr(loaded) == repr(factor)
    assert torch.equal(loaded.root, factor.root)
    assert torch.equal(loaded.transform(X), factor.transform(X))
    assert loaded.num_parameters == factor.num_parameters


@factors_that(lambda case: case.name != "fourier")  # whose frequencies are drawn in the dtype: others in each
def test_float32_is_as_good_as_its_digits(case: Case) -> None:
    X = points()
    K = case.kernel(X)
    errors = []
    for dtype in (torch.float32, torch.float64):
        U = case.make(X.to(dtype)).root.double()
        errors.append(float((U @ U.T - K).norm()))
    assert errors[0] < 1.05 * errors[1] + 1e-4 * float(K.norm())


def test_cached_results_are_dropped_after_a_move() -> None:
    factor = CASES[0].make(points(dtype=torch.float32))
    factor.eigenpairs()
    with torch.no_grad():
        factor.to(torch.float64)
        factor.root.mul_(2)
    U = factor.root
    torch.testing.assert_close(factor.eigenpairs().values.sum(), U.square().sum())


def test_condition_number_of_a_lower_rank_is_infinite() -> None:
    X = points(10).repeat(3, 1)
    assert CASES[0].make(X, rank=12).condition_number() == math.inf
    assert CASES[0].make(X, rank=10).condition_number() < math.inf
