"""A solver that ends before its tolerance warns at its call; one that converges does not."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable

import pytest
from sklearn.exceptions import ConvergenceWarning

from bochner.kernels import Gaussian
from bochner.solvers import fit_landmark_logistic, fit_landmark_ridge, fit_saga
from tests.solvers.problems import classes, fourier_map, generator, numbers, points
from tests.solvers.rows import Rows

X = points()
CLASSES = Rows(X, classes(X, 3))


def alpha(**arguments: float) -> None:
    fit_landmark_ridge(Gaussian(), X[:30], Rows(X, numbers(X)), alpha=1e-5, **arguments)


def newton(**arguments: float) -> None:
    fit_landmark_logistic(Gaussian(), X[:25], CLASSES, num_classes=3, **{"alpha": 1e-3, **arguments})


def saga(**arguments: float) -> None:
    fit_saga(fourier_map(), CLASSES, loss="softmax", num_classes=3, alpha=0.1, generator=generator(), **arguments)


NUMBER = r"\d\.?\d*(e-\d+)?"
ENDS: list[tuple[Callable[..., None], dict[str, float], str]] = [
    (
        alpha,
        {"tolerance": 1e-9, "max_iterations": 2},
        f"conjugate gradients stopped at max_iterations=2 with {NUMBER} of the residual left, tolerance 1e-09: raise",
    ),
    (
        saga,
        {"max_epochs": 2},
        f"SAGA stopped at max_epochs=2 with {NUMBER} of the gradient left, tolerance 0.0001: raise",
    ),
    (
        newton,
        {"max_steps": 2},  # alpha is still on its way down from 1
        f"Newton's method stopped at max_steps=2 with the objective last seen {NUMBER} above its minimum for alpha = "
        r"0\.03, tolerance 0.001: raise that, or alpha, 0.001",
    ),
    (newton, {"max_iterations": 1, "tolerance": 0.1, "alpha": 1e-5}, "max_iterations=1 in its last step with"),
    (newton, {"tolerance": 1e-300}, r"stopped at rounding with .* tolerance 1e-300: raise the tolerance\."),
]


@pytest.mark.parametrize(
    ("fit", "arguments", "message"), ENDS, ids=["ridge", "saga", "steps", "iterations", "rounding"]
)
def test_a_limit_is_reported(fit: Callable[..., None], arguments: dict[str, float], message: str) -> None:
    with pytest.warns(ConvergenceWarning) as caught:
        fit(**arguments)
    assert len(caught) == 1
    assert re.search(message, str(caught[0].message))
    assert caught[0].filename == __file__


@pytest.mark.parametrize("fit", [alpha, newton, saga])
def test_what_converges_is_silent(fit: Callable[..., None]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit()


def test_one_step_fewer_than_needed() -> None:
    """There is no warning if the limit is exactly the number of steps needed."""
    steps: list[int] = []
    saga(report=lambda step, _: steps.append(step))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        saga(max_epochs=steps[-1])
    with pytest.warns(ConvergenceWarning):
        saga(max_epochs=steps[-1] - 1)
