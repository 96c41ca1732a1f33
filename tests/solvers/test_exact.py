"""One factorisation against the dense solution, refits without a row, and landmarks that are all rows; partitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bochner.kernels import Gaussian, Kernel, Laplacian, PowerExponential
from bochner.solvers import exact, fit_exact_ridge, fit_landmark_ridge
from bochner.solvers.exact import fit_exact, fit_partition
from tests.solvers.problems import classes, dense_landmark_ridge, generator, numbers, points, weights
from tests.solvers.rows import Rows


@pytest.mark.parametrize("weight", [None, weights(120)], ids=["even", "weighted"])  # some weights are 0
@pytest.mark.parametrize("alpha", [1e-1, 1e-4, 1e-8])
@pytest.mark.parametrize("kernel", [3 * Gaussian(bandwidth=1.0), Laplacian(bandwidth=2.0)], ids=str)
def test_equals_the_dense_solution(kernel, alpha: float, weight: Tensor | None) -> None:
    X = points()
    Y = numbers(X)
    model = fit_exact_ridge(kernel, Rows(X, Y, weight, shard_rows=50), alpha=alpha)
    right = dense_landmark_ridge(kernel, X, X, Y, torch.ones(120) if weight is None else weight, alpha)
    torch.testing.assert_close(model.decision(X), right, rtol=0, atol=1e-6)


@pytest.mark.parametrize("amplitude", [1.0, 100.0])
def test_equals_landmarks_at_all_rows(amplitude: float) -> None:
    """Classes, and alpha of its own."""
    X = points()
    source = Rows(X, classes(X, 3))
    kernel = amplitude * Gaussian(bandwidth=1.0)
    model = fit_exact_ridge(kernel, source, num_classes=3)
    right = fit_landmark_ridge(kernel, X, source, num_classes=3, tolerance=1e-12)
    torch.testing.assert_close(model.decision(X), right.decision(X), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("alpha", "dtype"), [(1e-2, torch.float32), (1e-9, torch.float64)])
def test_float32_rows_have_a_float32_model_where_that_resolves_it(alpha: float, dtype: torch.dtype) -> None:
    X = points(400, dtype=torch.float32)
    Y = numbers(X)
    model = fit_exact_ridge(Gaussian(bandwidth=2.0), Rows(X, Y), alpha=alpha)
    right = dense_landmark_ridge(Gaussian(bandwidth=2.0), X, X, Y, torch.ones(400), alpha)
    assert model.landmarks.dtype == model.coefficients.dtype == model.bias.dtype == dtype
    assert model.decision(X).dtype == torch.float32
    assert float((model.decision(X) - right).square().mean().sqrt()) < 1e-4


@pytest.mark.parametrize("alpha", [3e-7, 3e-8])  # the factor in float32 succeeds, and fails without a shift
def test_refinement_of_a_float32_factor(alpha: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "DOUBLE_ROWS", 100)
    monkeypatch.setattr(exact, "MIN_REFINEMENTS", 60)
    X, kernel = points(400, dtype=torch.float32), Gaussian(bandwidth=3.0)
    Y, tried = numbers(X), watch_factorisations(monkeypatch)
    model = fit_exact_ridge(kernel, Rows(X, Y), alpha=alpha)
    assert set(tried) == {torch.float32}
    A = kernel(X.double()) + 400 * alpha * torch.eye(400)
    centred = Y.double() - Y.double().mean(dim=0)
    residual = A @ model.coefficients - centred
    assert model.coefficients.dtype == torch.float64
    assert float((residual.norm(dim=0) / centred.norm(dim=0)).max()) < 1e-8
    condition = float(torch.linalg.cond(A))
    assert condition > 1e6  # where float32 alone leaves little
    single = torch.linalg.solve(A.float(), centred.float()).double()
    assert float((A @ single - centred).norm() / centred.norm()) > 1e-4


def test_a_factor_that_refinement_cannot_use_gives_way_to_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "DOUBLE_ROWS", 100)
    X, tried = points(400, dtype=torch.float32), watch_factorisations(monkeypatch)
    model = fit_exact_ridge(Gaussian(bandwidth=3.0), Rows(X, numbers(X)), alpha=1e-12)
    assert tried == [torch.float32, torch.float32, torch.float64]
    right = dense_landmark_ridge(Gaussian(bandwidth=3.0), X, X, numbers(X).double(), torch.ones(400), 1e-12)
    assert float((model.decision(X) - right).square().mean().sqrt()) < 1e-3


@pytest.mark.parametrize("bandwidth", [1e-3, 1e6])
def test_equal_rows_and_a_tiny_ridge(bandwidth: float) -> None:
    X = points(60).repeat(2, 1)
    model = fit_exact_ridge(Gaussian(bandwidth=bandwidth), Rows(X, numbers(X)), alpha=1e-18)
    assert model.decision(X).isfinite().all()


def test_bad_arguments() -> None:
    X = points(20)
    source = Rows(X, numbers(X))
    with pytest.raises(ValueError, match="alpha must be a positive"):
        fit_exact_ridge(Gaussian(), source, alpha=0.0)
    with pytest.raises(ValueError, match="kernel must be positive semi-definite"):
        fit_exact_ridge(Indefinite(), source, alpha=1e-9)


# -- fit_exact: one factorisation with leave-one-out predictions ------------------------------------------------------


def dense(kernel: Kernel, X: Tensor, Y: Tensor, w: Tensor, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and bias by NumPy, in float64."""
    K, y, v = kernel(X.double()).numpy(), Y.double().numpy(), w.double().numpy()
    bias = (v[:, None] * y).sum(axis=0) / v.sum()
    return np.linalg.solve(K + alpha * np.diag(1 / v), y - bias), bias


def without(kernel: Kernel, X: Tensor, Y: Tensor, w: Tensor, alpha: float, row: int) -> np.ndarray:
    """The prediction for a row by the model of all others."""
    others = torch.arange(len(X)) != row
    a, b = dense(kernel, X[others], Y[others], w[others], alpha)
    return kernel(X[row : row + 1].double(), X[others].double()).numpy()[0] @ a + b


def positive_weights(n: int) -> Tensor:
    return 0.2 + 3 * torch.rand(n, generator=generator(5), dtype=torch.float64)


def duplicated(n: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return points(n // 2, dtype=dtype).repeat(2, 1)


EXACT_KERNELS = [PowerExponential(exponent=1.0, norm=1.0, bandwidth=3.0), Gaussian(bandwidth=1.0)]
exact_kernels = pytest.mark.parametrize("kernel", EXACT_KERNELS, ids=str)


@exact_kernels
@pytest.mark.parametrize("alpha", [1.0, 1e-3])
@pytest.mark.parametrize("weight", [None, positive_weights(40)], ids=["even", "weighted"])
@pytest.mark.parametrize("X", [points(40), duplicated(40)], ids=["points", "duplicates"])
def test_coefficients_and_leave_one_out(X: Tensor, weight: Tensor | None, alpha: float, kernel: Kernel) -> None:
    Y = numbers(X)
    w = torch.ones(40) if weight is None else weight
    before = X.clone(), Y.clone()
    fit = fit_exact(kernel, X, Y, alpha=alpha, weight=weight)
    a, b = dense(kernel, X, Y, w, alpha)
    np.testing.assert_allclose(fit.model.coefficients, a, rtol=0, atol=1e-9 / alpha)
    np.testing.assert_allclose(fit.model.bias, b, rtol=0, atol=1e-12)
    np.testing.assert_allclose(fit.model(X), kernel(X).numpy() @ a + b, rtol=0, atol=1e-9)
    assert fit.rows.tolist() == list(range(40))
    right = np.stack([without(kernel, X, Y, w, alpha, row) for row in range(40)])
    np.testing.assert_allclose(fit.left_out, right, rtol=0, atol=1e-8)
    assert torch.equal(X, before[0])
    assert torch.equal(Y, before[1])


@pytest.mark.parametrize("weight", [None, positive_weights(40)], ids=["even", "weighted"])
def test_leave_one_out_for_the_last_rows_only(weight: Tensor | None, monkeypatch: pytest.MonkeyPatch) -> None:
    X = points(40)
    whole = fit_exact(EXACT_KERNELS[0], X, numbers(X), alpha=0.1, weight=weight)
    monkeypatch.setattr(exact, "LEAVE_OUT_ROWS", 7)
    fit = fit_exact(EXACT_KERNELS[0], X, numbers(X), alpha=0.1, weight=weight)
    assert fit.rows.tolist() == list(range(33, 40))
    fewer = fit_exact(EXACT_KERNELS[0], X, numbers(X), alpha=0.1, weight=weight, num_left_out=2)
    torch.testing.assert_close(fewer.left_out, whole.left_out[38:], rtol=0, atol=1e-12)
    torch.testing.assert_close(fit.left_out, whole.left_out[33:], rtol=0, atol=1e-12)


def test_a_row_of_weight_2_is_two_rows() -> None:
    X = points(40)
    w = torch.ones(40)
    w[:5] = 2
    twice = torch.cat([X, X[:5]])
    right = fit_exact(EXACT_KERNELS[0], twice, numbers(X)[torch.arange(45) % 40], alpha=0.1).model
    model = fit_exact(EXACT_KERNELS[0], X, numbers(X), alpha=0.1, weight=w).model
    torch.testing.assert_close(model(points(20, seed=1)), right(points(20, seed=1)), rtol=0, atol=1e-9)


@exact_kernels
def test_many_rows_in_float32(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    X = points(200, dtype=torch.float32)
    new = points(50, seed=1, dtype=torch.float32)
    right = fit_exact(kernel, X.double(), numbers(X), alpha=0.1)
    monkeypatch.setattr(exact, "DOUBLE_ROWS", 100)
    tried = watch_factorisations(monkeypatch)
    fit = fit_exact(kernel, X, numbers(X), alpha=0.1)
    assert tried == [torch.float32]
    assert fit.model.landmarks.dtype == torch.float32
    torch.testing.assert_close(fit.model(new).double(), right.model(new.double()), rtol=0, atol=1e-3)
    torch.testing.assert_close(fit.left_out, right.left_out, rtol=0, atol=1e-3)


def watch_factorisations(monkeypatch: pytest.MonkeyPatch) -> list[torch.dtype]:
    """A list that collects the dtypes of the following factorisations."""
    dtypes: list[torch.dtype] = []
    factorise = exact._factorise

    def watched(kernel: Kernel, X: Tensor, diagonal: Tensor) -> Tensor | None:
        dtypes.append(X.dtype)
        return factorise(kernel, X, diagonal)

    monkeypatch.setattr(exact, "_factorise", watched)
    return dtypes


def test_float64_where_float32_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Duplicates under a smooth kernel with almost no penalty: alpha is kept, and the model is in float64."""
    X, kernel = duplicated(200, torch.float32), Gaussian(bandwidth=2.0)
    new = points(50, seed=1, dtype=torch.float32)
    a, b = dense(kernel, X, numbers(X), torch.ones(200), 1e-8)
    monkeypatch.setattr(exact, "DOUBLE_ROWS", 100)
    tried = watch_factorisations(monkeypatch)
    fit = fit_exact(kernel, X, numbers(X), alpha=1e-8)
    assert tried == [torch.float32, torch.float64]
    assert fit.model.landmarks.dtype == torch.float64
    right = kernel(new.double(), X.double()).numpy() @ a + b
    np.testing.assert_allclose(fit.model(new), right, rtol=0, atol=1e-4 * np.abs(right).max())


def test_alpha_grows_where_float64_fails(caplog: pytest.LogCaptureFixture) -> None:
    X, kernel = duplicated(200), Gaussian(bandwidth=10.0)
    fit = fit_exact(kernel, X, numbers(X), alpha=1e-18)
    assert "alpha=1e-18 is too small" in caplog.text
    mean = fit.model(X).reshape(2, 100, 2).mean(dim=0)  # the targets of two equal rows differ by their noise
    assert float((mean - numbers(X).reshape(2, 100, 2).mean(dim=0)).square().mean().sqrt()) < 0.2
    assert fit.left_out.isfinite().all()


class Indefinite(Kernel, abstract=True):
    def diagonal(self, X: Tensor) -> Tensor:
        return X.new_zeros(len(X))

    def _evaluate(self, U: Tensor, V: Tensor) -> Tensor:
        return U.new_full((len(U), len(V)), 9.0)


def test_a_single_row_leaves_no_model() -> None:
    fit = fit_exact(EXACT_KERNELS[0], points(1), torch.full((1, 2), 3.0), alpha=0.1)
    torch.testing.assert_close(fit.model(points(5)), torch.full((5, 2), 3.0).double())
    assert fit.rows.shape == (0,)
    assert fit.left_out.shape == (0, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alpha": 0.0}, "alpha must be a positive finite number, got 0.0"),
        ({"weight": torch.zeros(20)}, "weight must hold one positive finite number per row"),
        ({"weight": torch.ones(19)}, "weight must hold one positive"),
        ({"Y": torch.zeros(20)}, r"Y must have shape \[n, t\]"),
        ({"Y": torch.zeros(19, 1)}, r"Y must have shape \[n, t\]"),
        ({"X": torch.zeros(0, 3), "Y": torch.zeros(0, 1)}, "n > 0"),
        ({"kernel": Indefinite()}, r"kernel must be positive semi-definite, but Indefinite\(\) is not on the rows"),
    ],
    ids=str,
)
def test_bad_arguments_of_fit_exact(changes: dict[str, Any], message: str) -> None:
    arguments = {"kernel": EXACT_KERNELS[0], "X": points(20), "Y": numbers(points(20)), "alpha": 0.1, **changes}
    with pytest.raises(ValueError, match=message):
        fit_exact(**arguments)


# -- fit_partition ----------------------------------------------------------------------------------------------------

METRIC = torch.diag(torch.tensor([0.1, 4.0, 1.0]))


@pytest.mark.parametrize("weight", [None, positive_weights(500)], ids=["even", "weighted"])
@pytest.mark.parametrize("changed", [{}, {"metric": METRIC}, {"scale": torch.tensor([9.0, 1.0, 0.0])}], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_parts_are_models_of_their_rows(
    dtype: torch.dtype, changed: dict[str, Any], weight: Tensor | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact, "LEAVE_OUT_ROWS", 50)
    kernel = PowerExponential(exponent=1.0, bandwidth=3.0, **changed)
    X = points(500, dtype=dtype)
    Y = numbers(X)
    fit = fit_partition(kernel, X, Y, alpha=0.1, max_rows=80, weight=weight)
    leaves = fit.model.leaves(X)
    sizes = leaves.bincount()
    assert int(sizes.max()) <= 80
    assert len(sizes) == len(fit.model.models) == 8  # halved three times
    for leaf, model in enumerate(fit.model.models):
        rows = (leaves == leaf).nonzero()[:, 0]
        assert torch.equal(model.landmarks, X[rows])
        w = torch.ones(500) if weight is None else weight
        a, b = dense(kernel, X[rows], Y[rows], w[rows], 0.1)
        right = kernel(X[rows].double()).numpy() @ a + b
        np.testing.assert_allclose(fit.model(X[rows]), right, rtol=0, atol=1e-4)
        for row in rows:
            place = (fit.rows == row).nonzero()[:, 0]
            if len(place):
                right = without(kernel, X[rows], Y[rows], w[rows], 0.1, int((rows == row).nonzero()))
                np.testing.assert_allclose(fit.left_out[place[0]], right, rtol=0, atol=1e-4)
    assert 50 <= len(fit.rows) == len(fit.rows.unique()) <= 58  # rounded up in each part


def test_few_rows_are_one_part() -> None:
    X = points(80)
    fit = fit_partition(EXACT_KERNELS[0], X, numbers(X), alpha=0.1, max_rows=80)
    right = fit_exact(EXACT_KERNELS[0], X, numbers(X), alpha=0.1)
    assert torch.equal(fit.model.coefficients, right.model.coefficients)
    assert torch.equal(fit.left_out, right.left_out)


def test_the_first_split_is_at_the_median_of_the_first_component() -> None:
    X = points(400) * torch.tensor([1.0, 5.0, 1.0]).double()
    model = fit_partition(EXACT_KERNELS[0], X, numbers(X), alpha=0.1, max_rows=200).model
    first = np.linalg.svd((X - X.mean(dim=0)).numpy())[2][0]
    np.testing.assert_allclose(np.abs(model.directions[0].numpy() @ first), 1, atol=1e-6)
    np.testing.assert_allclose(model.thresholds[0], np.median((X @ model.directions[0]).numpy()), atol=1e-9)


def level_columns(levels: int, n: int = 600) -> Tensor:
    chosen = torch.randint(levels, (n,), generator=generator(1))
    return torch.eye(levels, dtype=torch.float32)[chosen]


@pytest.mark.parametrize(
    ("X", "is_routed"),
    [
        (torch.ones(600, 3), False),  # all rows in one place
        (torch.cat([torch.zeros(590, 3), points(10, dtype=torch.float32)]), False),  # nearly all
        (level_columns(2), False),
        (level_columns(40), True),
        (torch.randint(0, 4, (600, 3), generator=generator(2)).float(), True),
        (points(600, 1, dtype=torch.float32).round(decimals=1), True),
        (1e4 + points(600, dtype=torch.float32), True),  # rounding of places is a thousandth of their spread
        (torch.cat([torch.zeros(310, 1), torch.rand(290, 1, generator=generator(3))]), None),
    ],
    ids=["equal", "nearly equal", "two levels", "levels", "integers", "rounded", "far", "half zero"],
)
def test_rows_that_coincide(X: Tensor, is_routed: bool | None) -> None:
    X = X[torch.randperm(len(X), generator=generator(4))]
    Y = X[:, :1] + 1
    fit = fit_partition(EXACT_KERNELS[0], X, Y, alpha=0.1, max_rows=70)
    assert len(fit.rows) == len(fit.rows.unique()) == 600  # every row is in one part
    assert all(len(model.landmarks) <= 70 for model in fit.model.models)
    landmarks = torch.cat([model.landmarks for model in fit.model.models])
    assert torch.equal(landmarks.sort(dim=0).values, X.sort(dim=0).values)
    leaves = fit.model.leaves(X)
    assert torch.equal(leaves, torch.cat([fit.model.leaves(x[None]) for x in X]))  # whatever the batch
    if is_routed:  # the rows of a part find it
        assert leaves.bincount().tolist() == [len(model.landmarks) for model in fit.model.models]
    assert float((fit.model(X) - Y).abs().max()) < 0.5


def test_many_columns_do_not_make_a_deep_tree() -> None:
    """Rows that each differ in another column have no common component."""
    X = torch.eye(400)
    fit = fit_partition(EXACT_KERNELS[0], X, X[:, :1], alpha=0.1, max_rows=50)
    assert len(fit.model.models) <= 40


def test_bad_arguments_of_fit_partition() -> None:
    with pytest.raises(ValueError, match="max_rows must be an integer of at least 1, got 0"):
        fit_partition(EXACT_KERNELS[0], points(20), numbers(points(20)), alpha=0.1, max_rows=0)
