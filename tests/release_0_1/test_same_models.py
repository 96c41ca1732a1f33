"""Same seeds give the models of version 0.1: five cases whose predictions 0.1 wrote to reference.npz."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, make_regression
from torch import Generator

from bochner import KernelClassifier, KernelRegressor
from bochner.acoustic.settings import KernelSettings
from bochner.acoustic.training import train_model
from bochner.adaptation.selection import select_features
from bochner.data import ArraySource
from bochner.features import FourierMap
from bochner.kernels import Gaussian, Laplacian
from bochner.lowrank import fit_nystrom
from bochner.models import LinearHead
from bochner.solvers.optimizers import SGDSettings

REFERENCE = np.load(Path(__file__).with_name("reference.npz"))
DIGITS = load_digits(return_X_y=True)
X, Y = DIGITS[0] / 16, DIGITS[1]
FRAMES, STATES = torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(Y)


def test_a_classifier_by_sgd() -> None:
    params = {"max_epochs": 3, "batch_size": 64, "precision": "float64"}
    model = KernelClassifier(preset=None, n_components=256, solver="sgd", solver_params=params, random_state=0)
    model.fit(X[:1000], Y[:1000])
    assert model.decision_function(X[1000:1100]) == pytest.approx(REFERENCE["sgd_classifier"], abs=1e-5)


def test_a_regressor_on_landmarks() -> None:
    inputs, y = make_regression(600, 8, noise=5.0, random_state=0)
    model = KernelRegressor(
        preset=None,
        n_components=200,
        solver="landmarks",
        alpha=1e-4,
        standardize=True,
        solver_params={"precision": "float64"},
        random_state=0,
    )
    model.fit(inputs[:500], y[:500])
    assert model.predict(inputs[500:]) == pytest.approx(REFERENCE["landmark_regressor"], abs=1e-5)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        (
            "acoustic_kernel",
            KernelSettings(kernel="laplacian", num_features=256, batch_size=64, max_epochs=3, learning_rate=2.0),
        ),
        (
            "acoustic_bottleneck",
            KernelSettings(
                num_features=128,
                rank=8,
                bandwidth=3.0,
                preconditioner_rank=0,
                batch_size=64,
                max_epochs=2,
                learning_rate=2.0,
                criterion="erll:1",
            ),
        ),
    ],
)
def test_an_acoustic_model(name: str, settings: KernelSettings) -> None:
    train, heldout = ArraySource(FRAMES[:1000], STATES[:1000]), ArraySource(FRAMES[1000:1200], STATES[1000:1200])
    trained = train_model(settings, train, heldout, num_states=10, seed=0)
    with torch.no_grad():
        log_p = trained.module(FRAMES[1200:1300]).log_softmax(dim=1).numpy()
    assert log_p == pytest.approx(REFERENCE[name], abs=1e-5)


def test_a_low_rank_factor() -> None:
    points = torch.as_tensor(X[:400])
    factor = fit_nystrom(Gaussian(bandwidth=3.0), points, rank=30, generator=Generator().manual_seed(0))
    K = factor.matmul(torch.eye(400, dtype=torch.float64)[:, :40])[:100].numpy()
    assert pytest.approx(REFERENCE["lowrank_nystrom"], abs=1e-5) == K


def test_a_selection_of_features() -> None:
    selection = select_features(
        lambda count, generator: FourierMap.draw(
            Laplacian(bandwidth=20.0), num_inputs=64, num_features=count, generator=generator, dtype=torch.float64
        ),
        lambda count, generator: LinearHead.zeros(num_features=count, num_outputs=10, dtype=torch.float64),
        ArraySource(FRAMES.double()[:1000], STATES[:1000]),
        SGDSettings(learning_rate=8.0, batch_size=64),
        num_features=64,
        rounds=5,
        rows_per_round=1000,
        generator=Generator().manual_seed(0),
        verbose=False,
    )
    assert selection.births.tolist() == REFERENCE["selection_births"].tolist()
    features = selection.feature_map(FRAMES.double()[1200:1250]).numpy()
    assert features == pytest.approx(REFERENCE["selection"], abs=1e-5)
