"""Convex solvers in two processes: the model of one process, from rows that only one of them reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bochner.data.blocks import Block
from bochner.kernels import Gaussian
from bochner.solvers import fit_askotch, fit_exact_ridge, fit_landmark_logistic, fit_landmark_ridge, fit_ridge
from tests.solvers.parallel.ranks import run_ranks
from tests.solvers.problems import classes, fourier_map, numbers, points, weights
from tests.solvers.rows import Rows


class WatchedRows(Rows):
    """Rows that record which shards were read."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.seen: set[int] = set()

    def read(self, shard: int) -> Block:
        self.seen.add(shard)
        return super().read(shard)


def rows(shard_rows: int = 50) -> WatchedRows:
    X = points(230)
    return WatchedRows(X, numbers(X), weights(230), shard_rows=shard_rows)


def on_landmarks(group: Any = None) -> tuple[np.ndarray, set[int]]:
    source = rows()
    model = fit_landmark_ridge(Gaussian(), source.X[:40], source, alpha=1e-3, tolerance=1e-10, group=group)
    return model.coefficients.numpy(), source.seen


def on_features(group: Any = None) -> tuple[np.ndarray, set[int]]:
    source = rows()
    head = fit_ridge(fourier_map(), source, alpha=1e-3, group=group)
    return torch.cat([head.weights, head.bias[:, None]], dim=1).detach().numpy(), source.seen


def by_newton(group: Any = None) -> tuple[np.ndarray, set[int]]:
    X = points(230)
    source = WatchedRows(X, classes(X, 3), weights(230), shard_rows=50)
    model = fit_landmark_logistic(
        Gaussian(), X[:40], source, num_classes=3, alpha=1e-3, tolerance=1e-10, max_iterations=200, group=group
    )
    return model.coefficients.numpy(), source.seen


def by_askotch(group: Any = None) -> tuple[np.ndarray, set[int]]:
    source = rows()
    model = fit_askotch(Gaussian(), source, alpha=1e-3, block_rows=60, tolerance=1e-10, group=group)
    return torch.cat([model.landmarks, model.coefficients], dim=1).numpy(), source.seen


def on_all_rows(group: Any = None) -> tuple[np.ndarray, set[int]]:
    source = rows()
    model = fit_exact_ridge(Gaussian(), source, alpha=1e-3, group=group)
    return torch.cat([model.landmarks, model.coefficients], dim=1).numpy(), source.seen


@pytest.mark.parametrize("fit", [on_landmarks, on_features, by_newton, by_askotch, on_all_rows])
def test_two_processes_make_the_model_of_one(fit: Any, tmp_path: Path) -> None:
    right, seen = fit()
    assert seen == {0, 1, 2, 3, 4}
    (first, own), (second, others) = run_ranks(fit, 2, tmp_path)
    assert (own, others) == ({0, 2, 4}, {1, 3})
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, right, rtol=0, atol=1e-6)


def four(group: Any) -> tuple[np.ndarray, np.ndarray]:
    X = points(100)
    source = Rows(torch.cat([X, X]), torch.cat([numbers(X)] * 2), shard_rows=20)  # pairs of equal rows
    models = [fit_exact_ridge(Gaussian(), source, alpha=1e-18, group=each) for each in (group, None)]
    return tuple(model.decision(X).numpy() for model in models)  # type: ignore[return-value]


def test_four_processes_factorise_a_singular_matrix(tmp_path: Path) -> None:
    for decision, right in run_ranks(four, 4, tmp_path):
        np.testing.assert_allclose(decision, right, rtol=0, atol=1e-3 * np.abs(right).max())


def too_few(group: Any) -> str:
    with pytest.raises(ValueError, match="at least one shard for each of 2 processes, got 1") as caught:
        fit_ridge(fourier_map(), rows(shard_rows=500), alpha=1e-3, group=group)
    return str(caught.value)


def test_fewer_shards_than_processes(tmp_path: Path) -> None:
    assert len(run_ranks(too_few, 2, tmp_path)) == 2
