"""SAGA against the exact minimum of the same objective."""

from __future__ import annotations

import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from bochner.models.heads import LinearHead
from bochner.solvers import fit_ridge, fit_saga
from tests.oracles.memory import PeakMemory
from tests.solvers.problems import (
    assert_heads_close,
    classes,
    dense_logistic,
    fourier_map,
    generator,
    numbers,
    points,
    weights,
)
from tests.solvers.rows import Rows

pytestmark = pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
EXACT = {"tolerance": 1e-7, "max_epochs": 3000, "batch_size": 8}


def scores(fit: LinearHead, X: Tensor) -> Tensor:
    return fit(fourier_map()(X)).detach()


@pytest.mark.parametrize(("loss", "num_classes"), [("logistic", 2), ("softmax", 2), ("softmax", 4)])
@pytest.mark.parametrize("alpha", [1e-1, 1e-2])
def test_equals_scikit_learn(loss: str, num_classes: int, alpha: float) -> None:
    X = points()
    y = classes(X, num_classes)
    source = Rows(X, y, shard_rows=50)
    fit = fit_saga(
        fourier_map(), source, loss=loss, num_classes=num_classes, alpha=alpha, generator=generator(), **EXACT
    )
    if loss == "softmax" and num_classes == 2:  # scikit-learn has one output for two classes, whatever the loss
        Z, f = fourier_map()(X), scores(fit, X)
        right = dense_logistic(Z, y, 2, torch.zeros(1), 2 * (alpha / 4), bias=True)
        torch.testing.assert_close((f[:, 1:] - f[:, :1]), right, rtol=0, atol=1e-4)
        return
    model = LogisticRegression(C=1 / (alpha * len(X)), tol=1e-10, max_iter=10_000).fit(
        fourier_map()(X).numpy(), y.numpy()
    )
    right = torch.as_tensor(model.decision_function(fourier_map()(X).numpy())).reshape(len(X), -1)
    found = scores(fit, X)
    if loss == "softmax":  # a constant added to all logits changes nothing
        found, right = found.log_softmax(dim=1), right.log_softmax(dim=1)
    torch.testing.assert_close(found, right, rtol=0, atol=1e-4)


def test_least_squares_equal_the_closed_form() -> None:
    X, z = points(), fourier_map()
    source = Rows(X, numbers(X), shard_rows=50)
    fit = fit_saga(z, source, loss="squared", alpha=1e-2, generator=generator(), **EXACT)
    assert_heads_close(fit, fit_ridge(z, source, alpha=1e-2), atol=1e-4)


def test_shards_that_hold_one_class_each() -> None:
    X, z = points(), fourier_map()
    y = classes(X, 3)
    order = y.argsort()
    sorted_rows = Rows(X[order], y[order], shard_rows=40)
    arguments = {"loss": "softmax", "num_classes": 3, "alpha": 1e-2, **EXACT}
    by_class = fit_saga(z, sorted_rows, generator=generator(), **arguments)
    mixed = fit_saga(z, Rows(X, y), generator=generator(1), **arguments)
    torch.testing.assert_close(by_class.weights, mixed.weights, rtol=0, atol=1e-4)


def test_weights_as_repeated_rows() -> None:
    X, z, w = points(), fourier_map(), weights(120)
    y = classes(X, 3)
    arguments = {"loss": "softmax", "num_classes": 3, "alpha": 1e-2, "generator": generator(), **EXACT}
    fit = fit_saga(z, Rows(X, y, w), **arguments)
    again = fit_saga(z, Rows(X.repeat_interleave(w, dim=0), y.repeat_interleave(w)), **arguments)
    torch.testing.assert_close(scores(fit, X).softmax(dim=1), scores(again, X).softmax(dim=1), rtol=0, atol=1e-4)


def test_same_seed_same_result() -> None:
    X, z = points(), fourier_map()
    source = Rows(X, classes(X, 3), shard_rows=50)
    arguments = {"loss": "softmax", "num_classes": 3, "alpha": 1e-2, "max_epochs": 2}
    with pytest.warns(ConvergenceWarning):
        one, two, other = (fit_saga(z, source, **arguments, generator=generator(seed)) for seed in (0, 0, 1))
    assert torch.equal(one.weights, two.weights)
    assert not torch.equal(one.weights, other.weights)


def test_memory_is_residuals_and_a_shard() -> None:
    n, D = 4000, 200
    X = points(n, dtype=torch.float32)
    source, z = Rows(X, classes(X, 3), shard_rows=200), fourier_map(D, dtype=torch.float32)
    with pytest.warns(ConvergenceWarning), PeakMemory() as memory:
        fit_saga(z, source, loss="softmax", num_classes=3, alpha=1e-2, max_epochs=1, generator=generator())
    assert memory.peak < 4 * (n * 3 + 5 * 200 * D + 10 * D * 3)


def test_gradient_falls_and_is_reported() -> None:
    X = points()
    history: list[tuple[int, float]] = []
    source = Rows(X, classes(X, 3))
    fit_saga(
        fourier_map(),
        source,
        loss="softmax",
        num_classes=3,
        alpha=1e-2,
        generator=generator(),
        report=lambda *pair: history.append(pair),
    )
    assert history[-1][1] <= 1e-4 < history[0][1]
    assert [epoch for epoch, _ in history] == list(range(1, len(history) + 1))


def test_bad_arguments() -> None:
    X = points()
    source = Rows(X, classes(X, 3))
    good = {"loss": "softmax", "num_classes": 3, "alpha": 1e-2, "generator": generator()}
    for change, message in (
        ({"loss": "hinge"}, r"loss must be one of \['softmax', 'logistic', 'squared'\], got 'hinge'"),
        ({"loss": "logistic"}, "num_classes must be 2 with loss='logistic', got 3"),
        ({"num_classes": None}, "num_classes must be given with loss='softmax', got None"),
        ({"alpha": -1}, "alpha must be a non-negative finite number, got -1"),
        ({"batch_size": 0}, "batch_size must be an integer of at least 1, got 0"),
        ({"tolerance": 0}, "tolerance must be a positive finite number, got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            fit_saga(fourier_map(), source, **{**good, **change})
