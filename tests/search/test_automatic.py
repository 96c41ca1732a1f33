"""The search: folds, models of one fold, metrics, and which trials are chosen."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from bochner.search import automatic
from bochner.search.automatic import (
    PRESETS,
    SQUARED,
    Criterion,
    Fixed,
    Fold,
    Preset,
    Recipe,
    SearchResult,
    SearchRows,
    Trial,
    brier_losses,
    search_model,
    squared_losses,
)

SMALL = Preset(150, 300, 300, 0, 2, 1, 2, transforms=("standard",), kernels=((1.0, 1.0), (1.5, 2.0)))
PAIRS = [(1.0, 1.0), (0.7, 1.0), (1.5, 1.5), (1.0, 1.5), (0.7, 2.0), (1.0, 2.0), (1.5, 2.0), (2.0, 2.0)]


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=Generator().manual_seed(seed), dtype=dtype)


def make_rows(X: Tensor, y: Tensor, weight: Tensor | None = None) -> SearchRows:
    Y = y.reshape(len(X), -1).to(X)
    weight = torch.ones(len(X)).to(X) if weight is None else weight
    return SearchRows(X, Y, weight, torch.zeros(X.shape[1], dtype=torch.bool))


def make_folds(n: int, labels: Tensor | None = None, preset: str = "default", seed: int = 0) -> list[Fold]:
    return automatic._make_folds(n, PRESETS[preset], None, labels, Generator().manual_seed(seed))


def make_search(rows: SearchRows, preset: Preset = SMALL, criterion: Criterion = SQUARED) -> automatic._Search:
    return automatic._Search(rows, preset, Fixed(), criterion, 0, None, False)


# -- folds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 5, 9, 100, 1000])
def test_every_row_is_validated_once_in_each_repetition(n: int) -> None:
    folds = make_folds(n)
    count = min(5, n)
    assert len(folds) == 2 * count
    for repetition in (folds[:count], folds[count:]):
        assert sorted(torch.cat([fold.validation for fold in repetition]).tolist()) == list(range(n))
    for fold in folds:
        assert sorted(torch.cat(fold).tolist()) == list(range(n))
        assert len(fold.train) > 0
    if n >= 100:
        assert set(folds[0].validation.tolist()) != set(folds[count].validation.tolist())


def test_three_folds_of_some_thousand_rows_and_one_of_more() -> None:
    middle = make_folds(3000)
    assert [len(fold.validation) for fold in middle] == [600] * 3
    assert len(torch.cat([fold.validation for fold in middle]).unique()) == 1800
    (large,) = make_folds(9000)
    assert len(large.validation) == 3000
    assert sorted(torch.cat(large).tolist()) == list(range(9000))


@pytest.mark.parametrize("seed", range(3))
def test_every_fold_has_its_share_of_a_rare_class(seed: int) -> None:
    n = 3000
    labels = torch.zeros(n, dtype=torch.long)
    labels[torch.randperm(n, generator=Generator().manual_seed(seed))[:15]] = 1
    for fold in make_folds(n, labels, seed=seed):
        assert int(labels[fold.validation].sum()) == 3
        assert int(labels[fold.train].sum()) == 12
        # the first trials see the first rows only, which must hold the class as well
        for first in (500, 1000):
            assert abs(int(labels[fold.train[:first]].sum()) - first * 15 / n) <= 2


def test_a_rare_class_is_held_out_of_many_rows() -> None:
    n = 12_000
    labels = (torch.arange(n) < 40).long()
    (fold,) = make_folds(n, labels)
    share = len(fold.validation) / n
    assert abs(int(labels[fold.validation].sum()) - 40 * share) <= 1


def test_two_rows_of_each_class_are_validated_apart() -> None:
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    for fold in make_folds(6, labels):
        assert len(labels[fold.validation].unique()) == len(fold.validation)
        assert set(labels[fold.train].tolist()) == {0, 1, 2}


def test_rows_given_for_validation_are_the_last_and_are_never_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    X = normal(130, 2, dtype=torch.float32)
    rows = make_rows(X, X[:, 0].sin())
    seen: list[Fold] = []
    original = automatic._Geometry.__init__

    def spied(self: Any, Z: Tensor, rows: SearchRows, fold: Fold, *others: Any) -> None:
        seen.append(fold)
        original(self, Z, rows, fold, *others)

    monkeypatch.setattr(automatic._Geometry, "__init__", spied)
    result = search_model(rows, SMALL, validation=30, verbose=False)
    assert max(int(fold.train.max()) for fold in seen) < 100
    for trial in result.trials:
        assert trial.validated.tolist() == list(range(100, 130))


# -- models of one fold ----------------------------------------------------------------------------------------------


def kernel_matrix(X: np.ndarray[Any, Any], Y: np.ndarray[Any, Any], s: float, p: float, q: float) -> Any:
    return np.exp(-(((np.abs(X[:, None] - Y[None]) ** q).sum(axis=2) ** (1 / q) / s) ** p))


@pytest.mark.parametrize(("p", "q"), PAIRS)
@pytest.mark.parametrize("weighted", [False, True])
def test_predictions_are_those_of_kernel_ridge(p: float, q: float, weighted: bool) -> None:
    X, y = normal(60, 3), normal(60, 2, seed=1)
    weight = 0.5 + normal(60, seed=2).abs() if weighted else torch.ones(60).double()
    fold = Fold(torch.arange(45), torch.arange(45, 60))
    geometry = automatic._Geometry(X, make_rows(X, y, weight), fold, None, q)
    A, V, w = X[:45].numpy(), X[45:].numpy(), weight[:45].numpy()
    distances = (np.abs(A[:, None] - A[None]) ** q).sum(axis=2)[np.triu_indices(45, 1)]
    median = np.sort(distances)[(len(distances) - 1) // 2] ** (1 / q)
    assert geometry.median == pytest.approx(median, rel=1e-6)
    penalties = [0.01, 1.0]
    for factor in (0.5, 2.0):
        s = factor * geometry.median
        for penalty, predicted in zip(
            penalties, geometry.predict(p, factor, geometry.solve(p, factor, penalties)), strict=True
        ):
            mean = (y[:45].numpy() * w[:, None]).sum(axis=0) / w.sum()
            a = np.linalg.solve(kernel_matrix(A, A, s, p, q) + penalty * np.diag(1 / w), y[:45].numpy() - mean)
            expected = kernel_matrix(V, A, s, p, q) @ a + mean
            np.testing.assert_allclose(predicted.numpy(), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("weighted", [False, True])
def test_near_penalties_share_a_factorisation(weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = normal(200, 3), normal(200, 2, seed=1)
    weight = normal(200, seed=2).exp() if weighted else None
    geometry = automatic._Geometry(X, make_rows(X, y, weight), Fold(torch.arange(150), torch.arange(150, 200)), None, 1)
    penalties = [10 ** (power / 2) for power in range(-8, 3)]
    separate = [geometry.predict(1.0, 1.0, geometry.solve(1.0, 1.0, [penalty]))[0] for penalty in penalties]
    calls, cholesky = [], automatic._cholesky
    monkeypatch.setattr(automatic, "_cholesky", lambda K: calls.append(len(K)) or cholesky(K))
    together = geometry.predict(1.0, 1.0, geometry.solve(1.0, 1.0, penalties))
    assert len(calls) == 3  # for five penalties each, and the last
    for expected, predicted in zip(separate, together, strict=True):
        assert float((predicted - expected).norm() / y[150:].norm()) < 3 * automatic.SHIFT_TOLERANCE


def test_equal_rows_and_the_least_penalty_have_a_model() -> None:
    """Rounding errors of float32 make such matrices indefinite, which must not make the trial fail."""
    X = normal(60, 2).float().round().repeat(30, 1)
    rows = make_rows(X, X[:, :1])
    geometry = automatic._Geometry(X, rows, Fold(torch.arange(1500), torch.arange(1500, 1800)), None, 2)
    for penalty in (1e-5, 1e-6):
        (predicted,) = geometry.predict(2.0, 16.0, geometry.solve(2.0, 16.0, [penalty]))
        torch.testing.assert_close(predicted, rows.Y[1500:], rtol=0, atol=0.05)


def test_factors_in_place_are_those_of_the_matrix() -> None:
    X = normal(40, 3)
    A = X @ X.T + torch.eye(40)
    expected = torch.linalg.cholesky(A)
    factor = automatic._cholesky(A)
    assert factor is not None
    torch.testing.assert_close(factor, expected)
    assert factor.data_ptr() == A.data_ptr()
    assert automatic._cholesky(-torch.eye(3)) is None


def test_a_trial_on_more_rows_repeats_its_last_metric_round_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the map before that round, so that its model is the one of all rounds when the rows are the same."""
    X = normal(200, 4, dtype=torch.float32)
    search = make_search(make_rows(X, (X[:, 0] * 2).sin()))
    folds = [Fold(torch.arange(150), torch.arange(150, 200))]
    trial = search._refined(search.first(folds)[0], folds)
    for _ in range(3):
        following = search._next_round(trial, "diagonal", 0.5, search._products(trial, folds), folds)
        assert following is not None
        trial = following
    solved: list[float] = []
    solve = automatic._Geometry.solve
    monkeypatch.setattr(automatic._Geometry, "solve", lambda self, p, *a: solved.append(p) or solve(self, p, *a))
    again = search._repeated(trial, folds)
    assert again is not None
    assert len(solved) == 2  # the metric, and the penalties
    torch.testing.assert_close(again.maps[0], trial.maps[0])
    all_rounds = search._learned_map(trial.recipe, folds[0].train)
    torch.testing.assert_close(again.maps[0], all_rounds)


@pytest.mark.parametrize("num_folds", [1, 3])
def test_the_penalty_is_found_some_decades_away(num_folds: int) -> None:
    """Noisy targets need a large penalty, from whichever the descent starts, and it is compared on all folds."""
    X = normal(240, 1, dtype=torch.float32)
    search = make_search(make_rows(X, X[:, 0].sin() + normal(240, seed=1)))
    order = torch.arange(240).split(80)
    folds = [Fold(torch.cat([*order[:i], *order[i + 1 :]]), part) for i, part in enumerate(order)][:num_folds]
    recipe = Recipe("standard", 1.5, 2.0)
    geometry = search._geometry("standard", 2.0, [None] * num_folds, folds)
    everywhere = [search._best(recipe, geometry, folds, [1.0], [index]) for index in range(len(automatic.PENALTIES))]
    least = min(everywhere, key=lambda trial: trial.loss)
    assert least.recipe.path[-1][1] > 0.1
    for start in (1e-5, 10.0):
        trial = search._descend(recipe, geometry, folds, (1.0, start), max_factors=1)
        assert trial.recipe.path[-1][1] > 0.1
        assert trial.loss < (1.02 if num_folds == 1 else 1.1) * least.loss
        assert len(trial.validated) == 80 * num_folds


def test_the_larger_of_two_penalties_with_equal_losses() -> None:
    """Where a model without noise fits as well with any small penalty, also for scores, which are negative losses."""
    X = torch.linspace(-2, 2, 120)[:, None]
    for criterion in (SQUARED, Criterion("r2", squared_losses, lambda p, y, w: float((p - y).square().mean() - 1))):
        search = make_search(make_rows(X, X[:, 0].sin()), criterion=criterion)
        fold = [Fold(torch.arange(0, 120, 2), torch.arange(1, 120, 2))]
        geometry = search._geometry("standard", 2.0, [None], fold)
        trials = [search._best(Recipe("standard", 1.5, 2.0), geometry, fold, [1.0], [index]) for index in range(8)]
        best = search._best(Recipe("standard", 1.5, 2.0), geometry, fold, [1.0], range(8))
        least = min(trial.loss for trial in trials)
        near = [t.recipe.path[-1][1] for t in trials if t.loss <= least + automatic.FLAT * abs(least)]
        assert best.recipe.path[-1][1] == max(near)
    assert len(near) > 1


def test_other_exponents_are_tried_under_a_learned_metric() -> None:
    """One of eight columns matters, smoothly: a smooth kernel is the best once the metric has found it."""
    X = normal(300, 8, dtype=torch.float32)
    kernels = ((0.7, 2.0), (1.0, 2.0), (2.0, 2.0))
    search = make_search(make_rows(X, (2 * X[:, 0]).sin()), replace(SMALL, kernels=kernels))
    folds = [Fold(torch.arange(200), torch.arange(200, 300))]
    trial = search._refined(search.first(folds)[0], folds)
    for _ in range(3):
        following = search._next_round(trial, "diagonal", 0.5, search._products(trial, folds), folds)
        assert following is not None
        trial = following
    assert trial.recipe.exponent == 0.7
    best = min(search._exponents(trial, folds), key=lambda other: other.loss)
    assert best.recipe.exponent > 1
    assert best.loss < 0.8 * trial.loss
    # the metric is still that of the kernels it was learned with
    torch.testing.assert_close(search._learned_map(best.recipe, folds[0].train), trial.maps[0])
    again = search._repeated(best, folds)
    assert again is not None
    torch.testing.assert_close(again.maps[0], trial.maps[0])
    torch.testing.assert_close(again.earlier[0], trial.earlier[0])


def test_trials_far_behind_the_best_go_no_further() -> None:
    search = make_search(make_rows(normal(400, 2), normal(400)))
    noise, other, validated = normal(400, seed=1), normal(400, seed=2), torch.arange(400)
    other = (other - other.mean()) / other.std()  # a standard error of 1/20

    def trial(gap: float) -> Trial:
        losses = 3 + noise if gap == 0 else 3 + noise + other + gap / 20
        return Trial(
            Recipe("standard", 1.0, 1.0), 100, float(losses.mean()), losses, validated, losses[:, None], (), (), ()
        )

    best, near, far = trial(0), trial(2), trial(6)  # in standard errors of the difference
    assert search._contenders([far, near, best]) == [best, near]


def autograd_gradients(X: Tensor, a: Tensor, s: float, p: float, q: float, linear: Tensor | None) -> Tensor:
    """The gradients [n, t, d] of f = K a at the rows of X [n, d]; a row's own term has gradient 0."""
    gradients = torch.zeros(len(X), a.shape[1], X.shape[1], dtype=X.dtype)
    A = X if linear is None else automatic._mapped(X, linear)
    for i in range(len(X)):
        others = torch.arange(len(X)) != i
        for output, column in enumerate(a.T):
            x = X[i].clone().requires_grad_()
            z = x if linear is None else automatic._mapped(x, linear)
            k = (-(((z - A[others]).abs() ** q).sum(dim=1) ** (1 / q) / s).pow(p)).exp()
            (gradients[i, output],) = torch.autograd.grad(k @ column[others], x)
    return gradients


@pytest.mark.parametrize(("p", "q"), PAIRS)
@pytest.mark.parametrize("form", ["none", "diagonal", "full"])
def test_gradients_are_those_of_autograd(p: float, q: float, form: str) -> None:
    if form == "full" and q < 2:
        pytest.skip("a product over columns has diagonal maps only")
    X, a = normal(25, 3), normal(25, 2, seed=1)
    X[:, 1] = (X[:, 1] > 0) * 1.5  # two values
    root = normal(3, 3, seed=2)
    linear = {"none": None, "diagonal": torch.tensor([0.3, 1.0, 2.0]).double(), "full": root @ root.T}[form]
    rows = make_rows(X, a)
    geometry = automatic._Geometry(X, rows, Fold(torch.arange(25), torch.arange(0)), linear, q)
    s = 1.3 * geometry.median
    product = geometry.gradient_product(a, p, s)
    gradients = autograd_gradients(X, a, s, p, q, linear)
    expected = torch.einsum("iod,ioe->de", gradients, gradients)
    expected = expected / expected.diagonal().max()
    assert product is not None
    assert product.shape == ((3, 3) if q == 2 else (3,))
    torch.testing.assert_close(product, expected if q == 2 else expected.diagonal(), rtol=1e-6, atol=1e-8)
    slopes, lengths = geometry.slopes(a, p, s), gradients.norm(dim=1)
    torch.testing.assert_close(slopes / slopes.max(), lengths / lengths.max(), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("q", [1.0, 1.5, 2.0])
def test_a_constant_function_has_no_metric(q: float) -> None:
    X = normal(30, 2)
    geometry = automatic._Geometry(X, make_rows(X, torch.ones(30)), Fold(torch.arange(30), torch.arange(0)), None, q)
    (coefficients,), s = geometry.solve(1.0, 1.0, [0.1]), geometry.bandwidth(1.0)
    assert coefficients is not None
    assert geometry.gradient_product(coefficients, 1.0, s) is None
    search = make_search(make_rows(X, torch.ones(30)))
    path = ((1.0, 0.1),) * 2
    assert search._learned_map(Recipe("standard", 1.0, q, "diagonal", 0.5, path), torch.arange(30)) is None


def test_power_maps() -> None:
    root = normal(4, 4)
    M = root @ root.T
    M = M / M.diagonal().max()
    full = automatic._power_map(M, "full", 0.5, rank=4).double()
    torch.testing.assert_close(full @ full, M, rtol=1e-4, atol=1e-5)
    quarter = automatic._power_map(M, "full", 0.25, rank=4).double()
    torch.testing.assert_close(quarter @ quarter, full, rtol=1e-4, atol=1e-5)
    for part in (M, M.diagonal()):
        diagonal = automatic._power_map(part, "diagonal", 0.5, rank=4).double()
        torch.testing.assert_close(diagonal, M.diagonal().sqrt(), rtol=1e-5, atol=1e-6)
    # an input without any gradient keeps a little of its scale
    assert automatic._power_map(torch.tensor([1.0, 0.0]).double(), "diagonal", 0.5, rank=4).tolist() == pytest.approx(
        [1, automatic.MIN_SCALE]
    )
    singular = automatic._power_map(torch.diag(torch.tensor([1.0, 0.0]).double()), "full", 0.5, rank=4)
    assert float(torch.linalg.eigvalsh(singular).min()) == pytest.approx(automatic.MIN_SCALE, rel=1e-3)


@pytest.mark.parametrize("power", [0.25, 0.5])
def test_power_maps_of_wide_tables_come_from_a_sketch(power: float) -> None:
    G = normal(7, 40) * torch.logspace(0, -3, 7).double()[:, None]
    M = G.T @ G / (G.T @ G).diagonal().max()
    exact = automatic._power_map(M, "full", power, rank=40)
    torch.testing.assert_close(automatic._power_map(M, "full", power, rank=9), exact, rtol=1e-4, atol=1e-6)
    too_few = automatic._power_map(M, "full", power, rank=5)
    assert not torch.allclose(too_few, exact, rtol=1e-4, atol=1e-6)


def test_the_median_leaves_out_equal_rows() -> None:
    x = torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0, 3.0]).double()[:, None]
    # distances 1 (four times), 3 (four times), 2; the six pairs at distance 0 do not count
    D = (x - x.T).square()
    assert automatic._median(D, 2.0) == pytest.approx(2.0)
    assert automatic._median(D.sqrt(), 1.0) == pytest.approx(2.0)
    assert automatic._median(torch.zeros(4, 4), 2.0) == 1.0
    assert automatic._median(torch.zeros(1, 1), 2.0) == 1.0


def test_a_factorisation_that_fails_gives_no_model() -> None:
    X = torch.zeros(6, 1)  # a singular matrix, and a penalty that float64 cannot see
    geometry = automatic._Geometry(
        X, make_rows(X, torch.arange(6.0)), Fold(torch.arange(5), torch.arange(5, 6)), None, 2
    )
    failed, fine = geometry.predict(2.0, 1.0, geometry.solve(2.0, 1.0, [1e-30, 1.0]))
    assert bool(failed.isinf().all())
    assert bool(fine.isfinite().all())


# -- metrics ---------------------------------------------------------------------------------------------------------


def search_loss(rows: SearchRows, fixed: Fixed, seed: int) -> SearchResult:
    return search_model(rows, SMALL, fixed=fixed, seed=seed, verbose=False)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("exponent", "norm", "share"), [(1.0, 1.0, 0.75), (1.5, 2.0, 0.4)])
def test_a_metric_helps_where_two_of_twelve_inputs_matter(
    seed: int, exponent: float, norm: float, share: float
) -> None:
    X = normal(300, 12, seed=seed, dtype=torch.float32)
    rows = make_rows(X, (2 * X[:, 0]).sin() + X[:, 1].square() / 2)
    kernels = ((exponent, norm),)
    without, with_metric = (
        search_loss(rows, Fixed(kernels=kernels, metric=metric), seed).chosen[0] for metric in (False, None)
    )
    assert without.recipe.rounds == 0
    assert with_metric.recipe.rounds >= 1
    assert with_metric.loss < share * without.loss


@pytest.mark.parametrize("seed", range(3))
def test_a_full_metric_finds_a_rotated_direction(seed: int) -> None:
    X = normal(300, 8, seed=seed, dtype=torch.float32)
    direction = torch.nn.functional.normalize(torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0, 1.0, 1.0, 1.0]), dim=0)
    rows = make_rows(X, (2 * X @ direction).sin())
    without, with_metric = (
        search_loss(rows, Fixed(kernels=((1.5, 2.0),), metric=metric), seed) for metric in (False, None)
    )
    assert with_metric.chosen[0].recipe.metric == "full"
    assert with_metric.chosen[0].loss < 0.2 * without.chosen[0].loss
    metric = with_metric.kernels[0].metric
    assert metric is not None
    leading = torch.linalg.eigh(metric).eigenvectors[:, -1]
    assert abs(float(leading @ direction.to(leading))) > 0.9


def test_the_last_trials_learn_their_metric_again_on_more_rows() -> None:
    X = normal(500, 8, dtype=torch.float32)
    rows = make_rows(X, (2 * X[:, 0]).sin())
    preset = replace(SMALL, first_rows=100, middle_rows=150, last_rows=350, kernels=((1.5, 2.0),))
    result = search_model(rows, preset, verbose=False)
    middle = min(trial.loss for trial in result.trials if trial.rows == 150)
    assert result.chosen[0].rows == 350
    assert result.chosen[0].recipe.rounds > 0
    assert result.chosen[0].loss < middle
    assert all(linear is not None for linear in result.chosen[0].maps)


@pytest.mark.parametrize(("p", "q", "form"), [(1.5, 2.0, "full"), (1.0, 1.0, "diagonal")])
def test_models_on_landmarks_solve_the_regularised_problem(p: float, q: float, form: str) -> None:
    X, y, weight = normal(90, 3), normal(90, 2, seed=1), 0.5 + normal(90, seed=2).abs()
    linear = normal(3, 3, seed=3) if form == "full" else normal(3, seed=3).abs() + 0.1
    rows = make_rows(X, y, weight)
    geometry = automatic._Geometry(X, rows, Fold(torch.arange(20), torch.arange(0)), linear, q)
    a = geometry.solve_on_landmarks(p, 0.5, 0.2, X, y, weight)
    assert a is not None
    mapped = (X @ linear if form == "full" else X * linear).numpy()
    s, w = geometry.bandwidth(0.5), weight.numpy()
    K, K_mm = kernel_matrix(mapped, mapped[:20], s, p, q), kernel_matrix(mapped[:20], mapped[:20], s, p, q)
    mean = (y.numpy() * w[:, None]).sum(axis=0) / w.sum()
    expected = np.linalg.solve(K.T @ (K * w[:, None]) + 0.2 * K_mm, K.T @ ((y.numpy() - mean) * w[:, None]))
    np.testing.assert_allclose(a.numpy(), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("seed", [0, 2, 5])
def test_final_trials_learn_their_metric_from_many_rows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The direction of a function in 16 noisy columns: over six seeds the loss was 0.47 to 1.0 times as large."""
    monkeypatch.setattr(automatic, "METRIC_LANDMARKS", 50)
    generator = Generator().manual_seed(seed)
    X, direction = torch.randn(900, 16, generator=generator), torch.randn(16, generator=generator)
    y = (2 * X @ direction / direction.norm()).sin() + 0.3 * torch.randn(900, generator=generator)
    rows = make_rows(X, y)
    few = Preset(60, 80, 100, 160, 2, 1, 2, kernels=((1.5, 2.0),), transforms=("standard",), holdout_rows=100)
    solved: list[int] = []
    solve = automatic._Geometry.solve_on_landmarks
    monkeypatch.setattr(
        automatic._Geometry, "solve_on_landmarks", lambda self, *a: solved.append(len(a[3])) or solve(self, *a)
    )
    direct = search_model(rows, few, verbose=False).chosen[0]
    assert not solved
    learned = search_model(rows, replace(few, metric_rows=600), verbose=False).chosen[0]
    assert set(solved) == {600}
    assert learned.rows == direct.rows == 160
    assert learned.loss < 0.9 * direct.loss


# -- choices ---------------------------------------------------------------------------------------------------------


def make_trial(search: automatic._Search, predictions: Tensor, metric: str = "none", rows: int = 100) -> Trial:
    losses = search.criterion.rows(predictions, search.rows.Y, search.rows.weight)
    path = ((1.0, 1.0),) if metric == "none" else ((1.0, 1.0),) * 2
    recipe = Recipe("standard", 1.0, 2.0, metric, 0.0 if metric == "none" else 0.5, path)
    return Trial(recipe, rows, float(losses.mean()), losses, torch.arange(len(losses)), predictions, *[(None,)] * 3)


def test_the_simpler_of_two_trials_is_chosen_within_a_standard_error() -> None:
    X = normal(400, 1)
    search = make_search(make_rows(X, torch.zeros(400)))
    noise = normal(400, 1, seed=1)
    plain = make_trial(search, noise)
    # on each row the loss differs by +-1 and on average by 0.02 or 0.2: the standard error is 0.05
    signs = torch.where(torch.arange(400) % 2 == 0, 1.0, -1.0)[:, None]
    for gain, expected in ((0.02, plain), (0.2, None)):
        losses = plain.losses[:, None] + 2 + signs - gain
        better = make_trial(search, losses.sqrt(), "full")
        plain_shifted = make_trial(search, (plain.losses[:, None] + 2).sqrt())
        chosen = search.choose([better, plain_shifted])
        assert chosen == [plain_shifted if expected is not None else better]
    # the same trials with equal complexity: the least loss
    equal = replace(plain_shifted, recipe=better.recipe)
    assert search.choose([equal, better]) == [better]


def test_trials_on_fewer_rows_are_not_chosen() -> None:
    X = normal(50, 1)
    search = make_search(make_rows(X, torch.zeros(50)))
    small, large = make_trial(search, 0.1 * X, rows=50), make_trial(search, X, rows=100)
    assert search.choose([small, large]) == [large]


def test_a_score_of_all_rows_is_compared_without_a_standard_error() -> None:
    X = normal(50, 1)
    search = make_search(make_rows(X, torch.zeros(50)), criterion=Criterion("c", squared_losses, lambda *_: 0.0))
    plain, learned = make_trial(search, X), make_trial(search, 0.9999 * X, "full")
    assert search.choose([plain, learned]) == [learned]


def test_an_ensemble_takes_a_trial_only_if_it_gains() -> None:
    X = normal(300, 1)
    rows = make_rows(X, torch.zeros(300))
    search = make_search(rows)
    first, second = normal(300, 1, seed=1), 1.05 * normal(300, 1, seed=2)
    best, other = make_trial(search, first), make_trial(search, second)
    same, bad = make_trial(search, first.clone()), make_trial(search, 10 * normal(300, 1, seed=3))
    trials = [best, same, other, bad]
    assert automatic._ensemble(best, trials, rows, 4, SQUARED) == [best, other]  # independent errors cancel
    assert automatic._ensemble(best, [best, same, bad], rows, 4, SQUARED) == [best]
    assert automatic._ensemble(best, trials, rows, 1, SQUARED) == [best]


def test_the_criterion_orders_the_trials() -> None:
    X = normal(120, 2, dtype=torch.float32)
    rows = make_rows(X, X[:, 0].sin())
    calls: list[float] = []

    def largest_error(predictions: Tensor, Y: Tensor, weight: Tensor) -> float:
        calls.append(float((predictions - Y).abs().max()))
        return calls[-1]

    result = search_model(rows, SMALL, criterion=Criterion("stub", squared_losses, largest_error), verbose=False)
    assert len(calls) > len(result.trials)
    chosen = result.chosen[0]
    final = [t for t in result.trials if t.rows == chosen.rows and len(t.validated) == len(chosen.validated)]
    assert result.chosen[0].loss == min(trial.loss for trial in final)
    assert {trial.loss for trial in result.trials} <= set(calls)


def mean_brier(predictions: Tensor, Y: Tensor) -> float:
    return float(brier_losses(predictions, Y, torch.ones(len(Y))).mean())


@pytest.mark.parametrize("num_classes", [2, 3])
def test_classes_are_compared_by_calibrated_probabilities(num_classes: int) -> None:
    """Predictions that order the rows better win even if they are close to their mean; squared errors prefer others."""
    y = (torch.arange(300) * 7) % num_classes
    Y = y[:, None].double() if num_classes == 2 else torch.nn.functional.one_hot(y, num_classes).double()
    middle = Y.mean(dim=0)
    noise = normal(*Y.shape)
    wide, narrow = Y + 0.4 * noise, middle + 0.05 * (Y + 0.2 * noise - middle)
    ones = torch.ones(len(Y))
    assert squared_losses(wide, Y, ones).mean() < 0.9 * squared_losses(narrow, Y, ones).mean()
    assert mean_brier(narrow, Y) < 0.2 * mean_brier(wide, Y)
    assert mean_brier(narrow, Y) == pytest.approx(mean_brier(3 * narrow - 1, Y), rel=1e-5)
    assert mean_brier(wide, Y) < 0.5 * float(squared_losses(middle.expand_as(Y), Y, ones).mean())
    wide[0, 0] = math.nan
    assert brier_losses(wide, Y, ones).isinf().all()


# -- records ---------------------------------------------------------------------------------------------------------


def test_records_are_json_in_the_order_of_the_trials() -> None:
    X = normal(120, 2, dtype=torch.float32)
    result = search_model(make_rows(X, X[:, 0].sin()), SMALL, verbose=False)
    records = [trial.record() for trial in result.trials]
    keys = {"transform", "exponent", "norm", "metric", "power", "rounds", "factor", "penalty", "rows", "validated"}
    for trial, record in zip(result.trials, records, strict=True):
        assert set(record) == keys | {"loss", "error"}
        assert json.loads(json.dumps(record, allow_nan=False)) == record
        assert record["loss"] == trial.loss > 0
        assert (record["factor"], record["penalty"]) == trial.recipe.path[-1]
        assert record["rounds"] == len(trial.recipe.path) - 1
        assert (record["metric"] == "none") == (record["rounds"] == 0)
        expected = trial.losses.std(correction=0) / 120**0.5 if len(trial.validated) > 120 else None
        if expected is not None:
            assert record["error"] == pytest.approx(float(expected), rel=1e-5)
    rounds = [record["rounds"] for record in records]
    assert rounds[:2] == [0, 0]
    assert max(rounds) >= 1
    assert rounds.index(max(rounds)) > 3  # metrics come after the first trials and the refined ones
    assert all(result.chosen[0] is not trial or math.isfinite(trial.loss) for trial in result.trials)


def test_a_search_is_repeated_exactly_by_its_seed() -> None:
    X = normal(150, 3, dtype=torch.float32)
    rows = make_rows(X, normal(150, 12, seed=1))  # more outputs than probes
    first, again, other = (search_model(rows, SMALL, seed=seed, verbose=False) for seed in (1, 1, 2))
    assert [t.record() for t in first.trials] == [t.record() for t in again.trials]
    assert torch.equal(first.importances, again.importances)
    assert [t.record() for t in first.trials] != [t.record() for t in other.trials]


@pytest.mark.parametrize("n", [60, 300, 4500])
def test_a_search_out_of_time_ends_after_its_first_trial(n: int) -> None:
    X = normal(n, 2, dtype=torch.float32)
    result = search_model(make_rows(X, X[:, 0].sin()), SMALL, time_limit=1e-9, verbose=False)
    assert len(result.trials) == 1
    assert result.chosen == result.trials
    assert float(result.importances.sum()) == pytest.approx(1)


@pytest.mark.parametrize(("last_rows", "num_calls"), [(60, 0), (61, 1)])
def test_the_last_stage_is_for_more_rows_only(last_rows: int, num_calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no more rows than in the middle it would repeat the same trials."""
    calls, last = [], automatic._Search.last
    monkeypatch.setattr(automatic._Search, "last", lambda *arguments: calls.append(1) or last(*arguments))
    X = normal(90, 2, dtype=torch.float32)
    search_model(make_rows(X, X[:, 0]), replace(SMALL, first_rows=40, middle_rows=60, last_rows=last_rows))
    assert len(calls) == num_calls
