"""Numbers at the limits of float32: an error that names the argument, a warning, or the right model; never NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

from bochner import KernelClassifier, KernelRegressor

RNG = np.random.default_rng(0)
X = RNG.standard_normal((200, 3)).astype(np.float32)
y, t = (X[:, 0] > 0).astype(int), X[:, 0] + 0.1 * RNG.standard_normal(200)
SMALL: dict[str, Any] = {"preset": None, "n_components": 32, "random_state": 0}


@pytest.mark.parametrize("solver", ["landmarks", "newton", "sgd"])
@pytest.mark.parametrize("bandwidth", [1e-300, 1e-30, 1e300])
def test_an_extreme_bandwidth_is_an_error(bandwidth: float, solver: str) -> None:
    with pytest.raises(ValueError, match=r"bandwidth.*1e[+-]30"):
        KernelClassifier(**SMALL, bandwidth=bandwidth, solver=solver).fit(X, y)


@pytest.mark.parametrize("bandwidth", [1e-300, 1e300])
def test_an_extreme_bandwidth_of_a_search_is_an_error(bandwidth: float) -> None:
    with pytest.raises(ValueError, match=r"bandwidth.*1e[+-]300"):
        KernelClassifier(preset="fast", bandwidth=bandwidth).fit(X, y)


def test_a_bandwidth_that_makes_the_kernel_constant_is_warned_of() -> None:
    with pytest.warns(ConvergenceWarning, match=r"bandwidth=1e\+30"):
        KernelRegressor(**SMALL, bandwidth=1e30, solver="ridge").fit(X, t)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("solver", ["ridge", "landmarks"])
def test_the_unit_of_the_inputs_does_not_matter(solver: str, scale: float) -> None:
    inputs = X * np.float32(scale)
    assert KernelRegressor(**SMALL, solver=solver).fit(inputs, t).score(inputs, t) > 0.9


@pytest.mark.parametrize("rate", [1e3, 1e6])
def test_steps_that_diverge_are_an_error_and_are_undone(rate: float) -> None:
    model = KernelRegressor(**SMALL, solver_params={"batch_size": 16}).partial_fit(X, t)
    before = model.predict(X)
    model.set_params(solver_params={"batch_size": 16, "learning_rate": rate})
    with pytest.raises(FloatingPointError, match=r"learning_rate=1e\+0[36]"):
        model.partial_fit(X, t)
    np.testing.assert_array_equal(model.predict(X), before)


def test_scores_that_are_not_finite_are_an_error() -> None:
    model = KernelClassifier(**SMALL, solver="ridge").fit(X, y)
    model.model_.head.weights.data.fill_(torch.nan)
    with pytest.raises(FloatingPointError, match="row 0"):
        model.predict(X)
