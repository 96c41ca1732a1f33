"""Small data sets, and an estimator for each solver and each way to adapt or select features."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from bochner import KernelClassifier, KernelRegressor, NetworkClassifier, NetworkRegressor
from bochner.search import SolverParams

Array = np.ndarray[Any, Any]
SOLVER_PARAMS = {entry.name for entry in fields(SolverParams)}


def options(*bases: dict[str, Any], **flat: Any) -> dict[str, Any]:
    """Constructor arguments: those of `bases`, then `flat` ones, of which solver options go into solver_params."""
    merged: dict[str, Any] = {}
    params: dict[str, Any] = {}
    for base in (*bases, flat):
        params |= base.get("solver_params", {})
        params |= {name: value for name, value in base.items() if name in SOLVER_PARAMS}
        merged |= {name: value for name, value in base.items() if name not in (*SOLVER_PARAMS, "solver_params")}
    return {**merged, **({"solver_params": params} if params else {})}


# A solver and its options by themselves: nothing is searched.
QUICK: dict[str, Any] = options(preset=None, n_components=64, max_epochs=8, batch_size=32, random_state=0)
# Everything that is drawn or chosen from the rows is given, so that only a convex problem remains.
GIVEN: dict[str, Any] = options(preset=None, bandwidth=1.3, alpha=0.02, precision="float64", random_state=0)
NETWORK: dict[str, Any] = options(hidden=(16,), max_epochs=30, batch_size=32, learning_rate=0.01, random_state=0)
# Networks need a higher rate on a few hundred rows, and more validation rows to stop at the right time.
TRAINED: dict[str, Any] = options(
    NETWORK,
    hidden=(32, 32),
    validation_fraction=0.2,
    max_epochs=25,
    learning_rate=0.03,
    average=True,
    improvement=0.0,
    max_halvings=8,
)


def least_r2(estimator: Any, r2: float) -> float:
    """A lower bound on R^2 on `waves`: networks fit a few hundred rows less closely, 0.92 to 0.97 over seeds."""
    return r2 - 0.15 if isinstance(estimator, NetworkRegressor) else r2


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
    "askotch": KernelClassifier(solver="askotch", **QUICK),
    "eigenpro": KernelClassifier(solver="eigenpro", **QUICK),
    "saga": KernelClassifier(solver="saga", **options(QUICK, max_epochs=100, alpha=0.01)),
    "blocks": KernelClassifier(solver="sgd", **options(QUICK, num_blocks=2)),
    "bottleneck": KernelClassifier(solver="sgd", **options(QUICK, rank=2, learning_rate=4.0, max_epochs=20)),
    "selection": KernelClassifier(selection=3, **QUICK),
    "uab": KernelClassifier(adapt="uab", solver="sgd", **QUICK),
    "sab": KernelClassifier(adapt="sab", solver="sgd", **QUICK),
    "dab": KernelClassifier(adapt="dab", solver="sgd", **QUICK),
    "network": NetworkClassifier(**TRAINED),
    "auto": KernelClassifier(preset=None, random_state=0),
    "searched": KernelClassifier(preset="fast", random_state=0),
}
REGRESSORS = {
    "sgd": KernelRegressor(solver="sgd", **options(QUICK, n_components=128, max_epochs=15)),
    "ridge": KernelRegressor(solver="ridge", **QUICK),
    "landmarks": KernelRegressor(solver="landmarks", **QUICK),
    "askotch": KernelRegressor(solver="askotch", **QUICK),
    "eigenpro": KernelRegressor(solver="eigenpro", **options(QUICK, n_components=256, max_epochs=20)),
    "saga": KernelRegressor(solver="saga", **options(QUICK, max_epochs=200, alpha=1e-4)),
    "dab": KernelRegressor(adapt="dab", solver="ridge", **options(QUICK, n_components=128)),
    "network": NetworkRegressor(**TRAINED),
    "auto": KernelRegressor(preset=None, random_state=0),
    "searched": KernelRegressor(preset="fast", random_state=0),
}
