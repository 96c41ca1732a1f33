"""LightGBM and kernel models with 30 random configurations each, the best on validation rows refitted on all rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import log_loss, mean_squared_error
from sklearn.model_selection import train_test_split

from benchmarks.tabular.contenders import CONTENDERS, Contender, LightGBM, Model, Setting, kernel_model

Array = NDArray[Any]
Draw = Callable[[np.random.Generator], dict[str, Any]]

NUM_CONFIGURATIONS = 30


class Tuned:
    """The best of `NUM_CONFIGURATIONS` by log loss or squared error on 20 % of the rows; the first is the default."""

    def __init__(self, setting: Setting, make: Callable[..., Model], draw: Draw) -> None:
        self.setting, self.make, self.draw = setting, make, draw

    def fit(self, X: pd.DataFrame, y: Array) -> None:
        generator = np.random.default_rng(self.setting.seed)
        rows, heldout = train_test_split(
            np.arange(len(y)),
            test_size=0.2,
            random_state=self.setting.seed,
            stratify=None if self.setting.is_regression else y,
        )
        X_fit, X_heldout = (X.iloc[part].reset_index(drop=True) for part in (rows, heldout))
        configurations = [{}, *(self.draw(generator) for _ in range(NUM_CONFIGURATIONS - 1))]
        losses = []
        for configuration in configurations:
            model = self.make(self.setting, **configuration)
            model.fit(X_fit, y[rows])
            losses.append(self._loss(model, X_heldout, y[heldout]))
        self.choice = configurations[int(np.argmin(losses))]
        self.model: Any = self.make(self.setting, **self.choice)
        self.model.fit(X, y)

    def _loss(self, model: Any, X: pd.DataFrame, y: Array) -> float:
        if self.setting.is_regression:
            return float(mean_squared_error(y, model.predict(X)))
        return float(log_loss(y, model.predict_proba(X), labels=np.arange(self.setting.num_classes)))

    def predict(self, X: pd.DataFrame) -> Array:
        return self.model.predict(X)

    def predict_proba(self, X: pd.DataFrame) -> Array:
        return self.model.predict_proba(X)


def draw_lightgbm(generator: np.random.Generator) -> dict[str, Any]:
    """The ranges of Grinsztajn et al. (2022) and of LightGBM's tuning guide."""
    return {
        "learning_rate": float(np.exp(generator.uniform(np.log(0.01), np.log(0.3)))),
        "num_leaves": int(np.exp(generator.uniform(np.log(7), np.log(255)))),
        "min_child_samples": int(np.exp(generator.uniform(np.log(2), np.log(100)))),
        "subsample": float(generator.uniform(0.5, 1.0)),
        "subsample_freq": 1,
        "colsample_bytree": float(generator.uniform(0.4, 1.0)),
        "reg_lambda": float(np.exp(generator.uniform(np.log(1e-3), np.log(10.0)))),
        "min_split_gain": float(generator.choice([0.0, 0.0, 0.01, 0.1])),
    }


def draw_kernel_model(generator: np.random.Generator) -> dict[str, Any]:
    """A kernel, a metric or none, and a penalty; a quick search chooses the rest."""
    return {
        "preset": "fast",
        "kernel": str(generator.choice(["gaussian", "laplacian", "matern12", "matern32", "power-exponential"])),
        "adapt": [None, "agop"][generator.integers(2)],
        "alpha": float(np.exp(generator.uniform(np.log(1e-6), np.log(1e-1)))),
    }


TUNED = {
    contender.name: contender
    for contender in [
        Contender(
            "lightgbm-tuned",
            "lightgbm",
            lambda setting: Tuned(setting, partial(LightGBM, refit=True), draw_lightgbm),
            f"the best of {NUM_CONFIGURATIONS} random configurations",
            modules=("lightgbm",),
        ),
        Contender(
            "bochner-tuned",
            "bochner",
            lambda setting: Tuned(setting, kernel_model, draw_kernel_model),
            f"the best of {NUM_CONFIGURATIONS} random configurations",
            is_ours=True,
            modules=("bochner.estimators",),
        ),
    ]
}


def find_contender(name: str) -> Contender:
    return (CONTENDERS | TUNED)[name]
