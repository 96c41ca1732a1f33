"""Small data and one machine for each solver."""

from __future__ import annotations

from typing import Any

import numpy as np

from bochner import KernelClassifier, KernelRegressor

Array = np.ndarray[Any, Any]

QUICK: dict[str, Any] = {"num_features": 64, "max_epochs": 8, "batch_size": 32, "random_state": 0}
# Everything that is drawn or chosen from the rows is given: only the convex problem is left.
GIVEN: dict[str, Any] = {"bandwidth": 1.3, "ridge": 0.02, "precision": "float64", "random_state": 0}


def rings(count: int = 200, *, seed: int = 0, noise: float = 0.1) -> tuple[Array, Array]:
    """Points in the plane, in three classes by their distance from the origin."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(count, 2))
    return X, np.digitize(np.hypot(*X.T) + noise * generator.normal(size=count), [0.8, 1.5])


def waves(count: int = 200, *, seed: int = 0) -> tuple[Array, Array]:
    """Numbers that are a smooth function of three inputs."""
    X = np.random.default_rng(seed).uniform(-2, 2, size=(count, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]


CLASSIFIERS = {
    "sgd": KernelClassifier(solver="sgd", **QUICK),
    "ridge": KernelClassifier(solver="ridge", **QUICK),
    "landmarks": KernelClassifier(solver="landmarks", **QUICK),
    "newton": KernelClassifier(solver="newton", **QUICK),
    "saga": KernelClassifier(solver="saga", **{**QUICK, "max_epochs": 100}, alpha=0.01),
    "blocks": KernelClassifier(solver="sgd", **QUICK, solver_params={"num_blocks": 2}),
    "bottleneck": KernelClassifier(
        solver="sgd", **{**QUICK, "max_epochs": 20}, solver_params={"rank": 2, "learning_rate": 4.0}
    ),
    "default": KernelClassifier(random_state=0),
}
REGRESSORS = {
    "sgd": KernelRegressor(solver="sgd", **{**QUICK, "num_features": 128, "max_epochs": 15}),
    "ridge": KernelRegressor(solver="ridge", **QUICK),
    "landmarks": KernelRegressor(solver="landmarks", **QUICK),
    "saga": KernelRegressor(solver="saga", **{**QUICK, "max_epochs": 200}, alpha=1e-4),
    "default": KernelRegressor(random_state=0),
}
