"""Scores on test rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics

from benchmarks.tabular.tables import Table

Array = NDArray[Any]

METRIC_NAMES = {"accuracy": "accuracy", "roc_auc": "ROC AUC", "r2": "R2"}


def score(
    table: Table, y: Array, predictions: Array, probabilities: Array | None, margins: Array | None
) -> dict[str, float]:
    """All scores available for the outputs; `margins` [n] rank the rows of a binary task without probabilities."""
    if table.kind == "regression":
        return _score_numbers(y, predictions)
    if table.kind == "multilabel":
        return {
            "accuracy": float((y == predictions).mean()),
            "macro_f1": float(metrics.f1_score(y, predictions, average="macro", zero_division=0)),
        }
    scores = {
        "accuracy": metrics.accuracy_score(y, predictions),
        "balanced_accuracy": metrics.balanced_accuracy_score(y, predictions),
    }
    if probabilities is not None:
        scores["log_loss"] = metrics.log_loss(y, probabilities, labels=np.arange(table.num_classes))
        margins = probabilities[:, 1]
    if table.kind == "binary" and margins is not None:
        scores["roc_auc"] = metrics.roc_auc_score(y, margins)
    return {name: float(value) for name, value in scores.items()}


def _score_numbers(y: Array, predictions: Array) -> dict[str, float]:
    return {
        "r2": float(metrics.r2_score(y, predictions)),
        "rmse": float(metrics.root_mean_squared_error(y, predictions)),
        "mae": float(metrics.mean_absolute_error(y, predictions)),
    }
