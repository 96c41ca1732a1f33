"""Interrupted landmark solvers continue and give the same model."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from bochner import KernelClassifier
from bochner.kernels import Gaussian
from bochner.models import LandmarkModel
from bochner.solvers import fit_landmark_logistic, fit_landmark_ridge
from bochner.storage import read_tensors, write_tensors
from tests.estimators.cases import rings
from tests.solvers.problems import classes, numbers, points
from tests.solvers.rows import Rows

X = points(200, dtype=torch.float32)
Fit = Callable[..., LandmarkModel]
FITS: dict[str, Fit] = {
    "ridge": partial(fit_landmark_ridge, Gaussian(), X[:40], Rows(X, numbers(X)), alpha=1e-5, tolerance=1e-7),
    "two classes": partial(
        fit_landmark_logistic, Gaussian(), X[:40], Rows(X, classes(X, 2)), num_classes=2, alpha=1e-4, tolerance=1e-9
    ),
    "three classes": partial(
        fit_landmark_logistic, Gaussian(), X[:40], Rows(X, classes(X, 3)), num_classes=3, alpha=1e-4, tolerance=1e-8
    ),
}


class StoppedError(Exception):
    pass


class Reports:
    """Counts steps; raises or sends SIGTERM at one of them."""

    def __init__(self, at: int | None = None, number: signal.Signals | None = None) -> None:
        self.at, self.number = at, number
        self.steps: list[int] = []

    def __call__(self, step: int, left: float) -> None:
        self.steps.append(step)
        if step == self.at:
            if self.number is None:
                raise StoppedError
            signal.raise_signal(self.number)


@pytest.mark.parametrize("at", [2, 4])
@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_an_interrupted_solver_continues(fit: Fit, at: int, tmp_path: Path) -> None:
    whole, resumed = Reports(), Reports()
    expected = fit(report=whole)
    assert len(whole.steps) > at
    stored: dict[str, Any] = {"checkpoint_dir": tmp_path, "checkpoint_seconds": 0.0}
    with pytest.raises(StoppedError):
        fit(report=Reports(at), **stored)
    model = fit(report=resumed, **stored)
    assert resumed.steps == whole.steps[at - 1 :]
    assert torch.equal(model.coefficients, expected.coefficients)
    with pytest.raises(ValueError, match=r"tolerance: 1e-0\d there, 0.001 here"):
        fit(tolerance=1e-3, **stored)


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_sigterm_leaves_a_checkpoint_of_the_current_step(fit: Fit, tmp_path: Path) -> None:
    def stop(number: int, frame: object) -> None:
        raise StoppedError

    previous = signal.signal(signal.SIGTERM, stop)
    try:
        with pytest.raises(StoppedError):
            fit(report=Reports(3, signal.SIGTERM), checkpoint_dir=tmp_path)
    finally:
        signal.signal(signal.SIGTERM, previous)
    resumed = Reports()
    model = fit(report=resumed, checkpoint_dir=tmp_path)
    assert resumed.steps[0] == 4
    assert torch.equal(model.coefficients, fit().coefficients)


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_forged_checkpoints_are_refused(fit: Fit, tmp_path: Path) -> None:
    with pytest.raises(StoppedError):
        fit(report=Reports(3), checkpoint_dir=tmp_path, checkpoint_seconds=0.0)
    (file,) = tmp_path.iterdir()
    tensors, state = read_tensors(file)
    number = next(name for name in ("iteration", "step") if name in state)
    shorter = {name: tensor[:-1] for name, tensor in tensors.items()}
    for changed, header in ((shorter, state), ({}, state), (tensors, {**state, number: -1}), (tensors, {})):
        write_tensors(file, changed, header)
        with pytest.raises(ValueError, match=str(tmp_path)):
            fit(checkpoint_dir=tmp_path)


@pytest.mark.parametrize("solver", ["landmarks", "newton"])
def test_estimators_resume(solver: str, tmp_path: Path) -> None:
    rows, labels = rings(300)
    settings: dict[str, Any] = {"preset": None, "n_components": 50, "solver": solver, "random_state": 0}
    plain = KernelClassifier(**settings).fit(rows, labels)
    stored = KernelClassifier(**settings, solver_params={"checkpoint_dir": tmp_path}).fit(rows, labels)
    assert (plain.decision_function(rows) == stored.decision_function(rows)).all()
    with pytest.raises(ValueError, match=r"other data.*training y"):
        KernelClassifier(**settings, solver_params={"checkpoint_dir": tmp_path}).fit(rows, labels[::-1])
