"""Ridge on features against scikit-learn and the normal equations."""

from __future__ import annotations

import pytest
import torch
from sklearn.linear_model import Ridge
from torch import Tensor

from bochner.data.blocks import Source
from bochner.models.heads import FeatureModel, LinearHead
from bochner.solvers import fit_ridge, fit_ridge_path
from bochner.solvers import ridge as ridge_module
from tests.oracles.memory import PeakMemory
from tests.solvers.problems import assert_heads_close, classes, fourier_map, numbers, points, weights
from tests.solvers.rows import Rows


def expected(Z: Tensor, Y: Tensor, alpha: float, weight: Tensor | None = None) -> LinearHead:
    total = len(Z) if weight is None else float(weight.sum())
    model = Ridge(alpha=alpha * total, solver="cholesky").fit(Z.double().numpy(), Y.double().numpy(), weight)
    return LinearHead(torch.as_tensor(model.coef_), torch.as_tensor(model.intercept_))


@pytest.mark.parametrize("alpha", [1e-6, 1e-2, 10.0])
@pytest.mark.parametrize("shard_rows", [7, 1000])
def test_equals_scikit_learn(alpha: float, shard_rows: int) -> None:
    X, z = points(), fourier_map()
    fit, right = (
        fit_ridge(z, Rows(X, numbers(X), shard_rows=shard_rows), alpha=alpha),
        expected(z(X), numbers(X), alpha),
    )
    assert_heads_close(fit, right, atol=1e-8)


def test_the_gram_matrix_in_pieces(monkeypatch) -> None:
    monkeypatch.setattr(ridge_module, "GRAM_COLUMNS", 7)
    monkeypatch.setattr(ridge_module, "TILE_ROWS", 11)
    X, z = points(), fourier_map()
    fit = fit_ridge(z, Rows(X, numbers(X)), alpha=1e-3)
    assert_heads_close(fit, expected(z(X), numbers(X), 1e-3), atol=1e-8)


def test_weights_as_scikit_learn_and_as_repeated_rows() -> None:
    X, z, w = points(), fourier_map(), weights(120)
    Y = numbers(X)
    fit = fit_ridge(z, Rows(X, Y, w, shard_rows=50), alpha=1e-3)
    assert_heads_close(fit, expected(z(X), Y, 1e-3, w.double()), atol=1e-8)
    repeated = fit_ridge(z, Rows(X.repeat_interleave(w, dim=0), Y.repeat_interleave(w, dim=0)), alpha=1e-3)
    assert_heads_close(fit, repeated, atol=1e-9)


def test_classes_are_one_hot() -> None:
    X, z = points(), fourier_map()
    y = classes(X, 3)
    fit = fit_ridge(z, Rows(X, y), alpha=1e-3, num_classes=3)
    assert_heads_close(fit, expected(z(X), torch.nn.functional.one_hot(y, 3), 1e-3), atol=1e-8)
    torch.testing.assert_close(FeatureModel(z, fit)(X).sum(dim=1), torch.ones(len(X)).double())


def test_float32_stays_close_when_the_mean_is_large() -> None:
    X = points(20_000, 3, dtype=torch.float32) * 0.05
    z = fourier_map(64, dtype=torch.float32)  # features nearly constant: the mean is most of them
    fit = fit_ridge(z, Rows(X, numbers(X)), alpha=1e-4)
    right = expected(z(X), numbers(X), 1e-4)
    torch.testing.assert_close(fit.double()(z(X).double()), right(z(X).double()), rtol=0, atol=1e-5)


def test_a_path_equals_its_points() -> None:
    X, z = points(), fourier_map()
    alphas = [1e-6, 1e-3, 1.0]
    for alpha, fit in zip(alphas, fit_ridge_path(z, Rows(X, numbers(X)), alphas=alphas), strict=True):
        assert_heads_close(fit, fit_ridge(z, Rows(X, numbers(X)), alpha=alpha), atol=1e-7)


def test_no_ridge_and_dependent_features() -> None:
    X = points(10)
    source, z = Rows(X, numbers(X)), fourier_map(40)
    with pytest.raises(ValueError, match=r"alpha must make the features' covariance invertible, got 0\.0; try"):
        fit_ridge(z, source, alpha=0.0)
    (fit,) = fit_ridge_path(z, source, alphas=[0.0])
    torch.testing.assert_close(fit(z(X)), numbers(X))


def test_memory_does_not_grow_with_rows() -> None:
    class Endless:
        """The same shard over and over."""

        num_inputs, shard_sizes = 3, [500] * 40

        def read(self, shard: int):
            X = points(500, seed=shard, dtype=torch.float32)
            return Rows(X, X[:, 0]).read(0)

    source: Source = Endless()
    with PeakMemory() as memory:
        fit_ridge(fourier_map(64, dtype=torch.float32), source, alpha=1e-3)
    assert memory.peak < 2 * 500 * 64 * 4 * 3


@pytest.mark.parametrize("alpha", [-1.0, float("nan"), None, "1"])
def test_bad_ridge(alpha: object) -> None:
    X = points()
    with pytest.raises(ValueError, match="alpha must be a non-negative finite number, got"):
        fit_ridge(fourier_map(), Rows(X, X[:, 0]), alpha=alpha)
    with pytest.raises(ValueError, match="alphas must be a non-negative finite number, got"):
        fit_ridge_path(fourier_map(), Rows(X, X[:, 0]), alphas=[1.0, alpha])
    with pytest.raises(ValueError, match="alphas must hold at least one number, got none"):
        fit_ridge_path(fourier_map(), Rows(X, X[:, 0]), alphas=[])
