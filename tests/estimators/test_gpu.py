"""Classifier and regressor on a CUDA device: the same results as on a CPU, and models that are moved between the
two."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import bochner
from bochner import KernelClassifier, KernelRegressor
from tests.estimators.cases import options

pytestmark = pytest.mark.gpu

X, y = load_digits(return_X_y=True)
X = X.astype(np.float32)
SMALL = {"preset": None, "n_components": 256, "random_state": 0, "verbose": False}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"rank": 9, "batch_size": 64},
        {"num_blocks": 2},
        {"selection": 2},
        {"adapt": "dab"},
        {"adapt": "dab", "optimizer": "adamw", "learning_rate": 1e-2, "schedule": "one-cycle", "batch_size": 64},
    ],
)
def test_stochastic_solvers_learn_as_well(settings) -> None:
    scores = [
        KernelClassifier(**options(SMALL, settings, solver="sgd", max_epochs=8, device=device))
        .fit(X[:1200], y[:1200])
        .score(X[1200:], y[1200:])
        for device in ("cpu", "cuda")
    ]
    assert min(scores) > 0.9
    assert abs(scores[0] - scores[1]) < 0.02


@pytest.mark.parametrize("solver", ["ridge", "landmarks", "newton"])
def test_exact_solvers_give_the_same_scores(solver: str) -> None:
    scores = [
        KernelClassifier(**SMALL, solver=solver, alpha=1e-3, solver_params={"device": device})
        .fit(X[:1200], y[:1200])
        .decision_function(X)
        for device in ("cpu", "cuda")
    ]
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-2 * np.abs(scores[0]).max())


@pytest.mark.parametrize("solver", ["sgd", "ridge", "landmarks", "saga"])
def test_regression(solver: str) -> None:
    model = KernelRegressor(**SMALL, solver=solver, alpha=1e-4, solver_params={"max_epochs": 20, "device": "cuda"})
    assert model.fit(X[:1200], y[:1200].astype(float)).score(X[1200:], y[1200:]) > 0.5


def test_a_model_travels(tmp_path: Path) -> None:
    model = KernelClassifier(**SMALL, solver="sgd", solver_params={"max_epochs": 3, "device": "cuda"}).fit(
        torch.from_numpy(X).cuda(), y
    )
    bochner.save(model, tmp_path / "model.safetensors")
    loaded = bochner.load(tmp_path / "model.safetensors")
    np.testing.assert_allclose(loaded.predict_proba(X), model.predict_proba(X), atol=1e-3)
    assert model.predict(torch.from_numpy(X).cuda()).is_cuda


def test_partial_fit_and_low_precision() -> None:
    model = KernelClassifier(**SMALL, solver_params={"device": "cuda"})
    for rows in np.array_split(np.arange(1200), 6):
        model.partial_fit(X[rows], y[rows], classes=range(10))
    assert model.score(X[1200:], y[1200:]) > 0.8
    for precision in ("tf32", "bf16"):
        fitted = KernelClassifier(
            **SMALL, solver="sgd", solver_params={"max_epochs": 5, "precision": precision, "device": "cuda"}
        )
        assert fitted.fit(X[:1200], y[:1200]).score(X[1200:], y[1200:]) > 0.9
