"""Cells of the low-rank study against whole matrices and scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.kernel_ridge import KernelRidge
from torch import Generator

from bochner.features.landmarks import uniform_sample
from bochner.kernels import Gaussian
from bochner.lowrank import truncate
from bochner.studies import lowrank_cells, lowrank_methods
from bochner.studies.lowrank_cells import ERROR_SEED, SETS, Cell, load, measure
from bochner.studies.lowrank_methods import STUDIED


def test_a_factor_is_measured_on_all_points_where_there_are_few(lowrank_dir: Path) -> None:
    result = measure(Cell("factor", "german", 0.8, 100, "svd", rank=7), lowrank_dir)
    X = load("german", lowrank_dir, seed=0).X
    values = torch.linalg.eigvalsh(Gaussian(bandwidth=0.8)(X)).flip(0)
    assert result["spectral"] == pytest.approx(float(values[7]), rel=1e-6)
    assert result["condition_number"] == pytest.approx(float(values[0] / values[6]), rel=1e-6)
    assert (result["parameters"], result["rank"], result["spectral_error"]) == (1050, 7, 0)


def test_the_optimum_is_an_eigenvalue_of_the_points_alone(lowrank_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the thesis prints as SVD is below the error of the best factor of all points."""
    monkeypatch.setattr(lowrank_cells, "ERROR_POINTS", 100)
    alone = measure(Cell("optimum", "german", 0.5, 100, rank=20), lowrank_dir)["spectral"]
    X = load("german", lowrank_dir, seed=0).X
    index = torch.randperm(150, generator=Generator().manual_seed(ERROR_SEED + 100))[:100]
    K = Gaussian(bandwidth=0.5)(X[index])
    assert alone == pytest.approx(float(torch.linalg.eigvalsh(K)[-21]), rel=1e-9)
    best = truncate(Gaussian(bandwidth=0.5), X, rank=20, generator=Generator().manual_seed(0)).root[index]
    assert alone < 0.95 * float(torch.linalg.eigvalsh(K - best @ best.T).abs().max())


def test_the_points_of_the_error_are_not_the_landmarks() -> None:
    """With the method's own seed, uniform landmarks would be the first of the points of the error."""
    cell = Cell("factor", "german", 1.0, 100, "standard nystrom", rank=25)
    error_points = uniform_sample(1000, 100, generator=lowrank_cells._error_generator(cell)).tolist()
    landmarks = uniform_sample(1000, 100, generator=Generator().manual_seed(cell.seed)).tolist()
    assert len(set(error_points) & set(landmarks)) < 30  # 10 by chance


def test_drawn_sets_differ_by_seed_and_the_others_do_not(lowrank_dir: Path) -> None:
    first, same, other = (load("ijcnn1 small", lowrank_dir, seed=seed).X for seed in (100, 100, 101))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    assert len(first.unique(dim=0)) == 1000
    assert torch.equal(load("german", lowrank_dir, seed=1).X, load("german", lowrank_dir, seed=2).X)


def test_scaled_sets_have_unit_variance_and_scaled_targets(lowrank_dir: Path) -> None:
    raw, scaled = load("wine", lowrank_dir, seed=0), load("wine scaled", lowrank_dir, seed=0)
    np.testing.assert_allclose(scaled.X.var(dim=0, unbiased=False), 1)
    np.testing.assert_allclose([scaled.y.mean(), scaled.y.var(unbiased=False)], [0, 1], atol=1e-12)
    assert raw.X.std() > 40
    assert raw.y.mean() > 5


def test_exact_ridge_regression_is_scikit_learns(lowrank_dir: Path) -> None:
    points = load("wine scaled", lowrank_dir, seed=0)
    result = measure(Cell("split", "wine scaled", 1.0, 100, "exact", ridge=0.5), lowrank_dir)
    order = torch.randperm(120, generator=Generator().manual_seed(ERROR_SEED + 100))
    test, train = order[:24], order[24:]
    mean = points.y[train].mean()
    peer = KernelRidge(alpha=0.5, kernel="rbf", gamma=0.5).fit(points.X[train], points.y[train] - mean)
    for name, part in (("train_rmse", train), ("test_rmse", test)):
        errors = peer.predict(points.X[part]) - (points.y[part] - mean).numpy()
        assert result[name] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-9)


def test_a_factor_of_full_rank_regresses_as_the_exact_kernel(lowrank_dir: Path) -> None:
    exact, factor = (
        measure(Cell("folds", "wine scaled", 1.0, 100, method, rank, ridge=0.5), lowrank_dir)["rmse"]
        for method, rank in (("exact", 0), ("pivoted-cholesky", 108))
    )
    assert factor == pytest.approx(exact, rel=1e-6)
    assert 0.1 < exact < 0.9  # of a spread of 1


def test_stable_ranks_fall_from_n_to_one(lowrank_dir: Path) -> None:
    ranks = [measure(Cell("stable rank", "german", width, 100), lowrank_dir)["stable_rank"] for width in (1e-3, 1, 1e3)]
    assert ranks[0] == pytest.approx(150, rel=1e-6)
    assert 1.1 < ranks[1] < 20
    assert ranks[2] == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("method", STUDIED)
def test_every_method_gives_a_factor_and_the_same_one_by_the_same_seed(method: str, lowrank_dir: Path) -> None:
    cell = Cell("factor", "german", 1.5, 100, method, rank=10, samples=10.0)
    first, second = (measure(cell, lowrank_dir) for _ in range(2))
    assert first["spectral"] == second["spectral"]
    assert first["parameters"] >= 1500
    assert first["parameters"] < 1.3 * 1500
    assert first["spectral"] < 60  # of a norm of about 100


def test_the_samples_are_counted_in_n_log_n(lowrank_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[dict[str, Any]] = []

    def fit_factor(method: str, k: Any, X: torch.Tensor, **options: Any) -> Any:
        calls.append(options)
        return truncate(k, X, rank=options["rank"], generator=options["generator"])

    monkeypatch.setattr(lowrank_methods, "fit_factor", fit_factor)
    measure(Cell("factor", "german", 1.5, 100, "als", rank=5, samples=4.0, rounds=2), lowrank_dir)
    measure(Cell("factor", "german", 1.5, 100, "als, l2", rank=5), lowrank_dir)
    assert calls[0]["num_samples"] == round(4 * 150 * np.log(150))
    assert (calls[0]["rounds"], calls[1]["num_samples"], calls[1]["sampling"]) == (2, None, "l2")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"data_dir: .*german_numer\.npz does not exist; it must contain 'X_scale'"
    ):
        load("german", tmp_path, seed=0)
    assert len(SETS) == 9
