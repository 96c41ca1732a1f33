"""Scores of predictions, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
Score = Callable[[Array, Array, Array], float]

NUM_RESAMPLES = 300  # the ends of a 95 % interval are then known to about a tenth of its length
LEVEL = 0.95
SMALLEST = np.finfo(np.float64).tiny  # of p in log p


class Interval(NamedTuple):
    """A score with the ends of its bootstrap interval; NaN where it is not defined."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Evaluation:
    """Predictions for rows that a model was not fitted on.

    `targets` are class indices [n] or numbers [n, t]; `predictions` are probabilities [n, C] or numbers [n, t]; weights
    [n] count rows.
    """

    targets: Array
    predictions: Array
    weight: Array

    @classmethod
    def of(cls, targets: Any, predictions: Any, weight: Any = None) -> Evaluation:
        """From arrays or tensors; rows of weight 0 are left out."""
        y, f = (_array(values) for values in (targets, predictions))
        w = np.ones(len(y)) if weight is None else _array(weight).astype(np.float64)
        if not len(y) == len(f) == len(w) > 0:
            raise ValueError(
                f"targets, predictions and weight must have equally many rows, got {len(y)}, {len(f)} and {len(w)}."
            )
        f = f.astype(np.float64).reshape(len(f), -1)
        if y.dtype.kind == "f":
            y = y.astype(np.float64).reshape(len(y), -1)
        return cls(y[w > 0], f[w > 0], w[w > 0])

    @property
    def is_classification(self) -> bool:
        return self.targets.ndim == 1

    def scores(self, *, seed: int = 0) -> dict[str, Interval]:
        """Every score of the task with a 95 % interval by resampling of the rows (percentile bootstrap).

        >>> Evaluation.of([0, 1, 1, 0], [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]]).scores()["accuracy"].value
        0.75
        """
        y, f, w = self.targets, self.predictions, self.weight
        rng = np.random.default_rng(seed)
        counts = rng.multinomial(len(y), np.full(len(y), 1 / len(y)), size=NUM_RESAMPLES)
        results = {}
        for name, score in self._names().items():
            values = [score(y[drawn > 0], f[drawn > 0], (drawn * w)[drawn > 0]) for drawn in counts]
            defined = [value for value in values if np.isfinite(value)]
            tails = 100 * np.array([(1 - LEVEL) / 2, (1 + LEVEL) / 2])
            low, high = np.percentile(defined, tails) if defined else (np.nan, np.nan)
            results[name] = Interval(score(y, f, w), float(low), float(high))
        return results

    def _names(self) -> dict[str, Score]:
        if not self.is_classification:
            return {"R2": r2, "RMSE": root_mean_squared_error, "mean absolute error": mean_absolute_error}
        names: dict[str, Score] = {
            "accuracy": accuracy,
            "balanced accuracy": balanced_accuracy,
            "log loss": log_loss,
        }
        if self.predictions.shape[1] == 2:
            names |= {"ROC AUC": roc_auc, "average precision": average_precision}
        return names


# -- scores of targets, predictions and weights ------------------------------------------------------------------------


def accuracy(y: Array, p: Array, w: Array) -> float:
    return float(np.average(p.argmax(axis=1) == y, weights=w))


def balanced_accuracy(y: Array, p: Array, w: Array) -> float:
    """The mean accuracy over the classes that occur."""
    totals = np.bincount(y, weights=w, minlength=p.shape[1])
    right = np.bincount(y, weights=w * (p.argmax(axis=1) == y), minlength=p.shape[1])
    return float((right[totals > 0] / totals[totals > 0]).mean())


def log_loss(y: Array, p: Array, w: Array) -> float:
    own = p[np.arange(len(y)), y]
    return float(-np.average(np.log(np.maximum(own, SMALLEST)), weights=w))


def roc_auc(y: Array, p: Array, w: Array) -> float:
    """The chance that a row of class 1 has a higher score than one of class 0; ties count half."""
    positive, negative = _by_score(y, p, w)
    pairs = positive.sum() * negative.sum()
    return float(positive @ (negative.cumsum() - negative / 2) / pairs) if pairs > 0 else float("nan")


def average_precision(y: Array, p: Array, w: Array) -> float:
    """The mean over rows of class 1 of the precision at their score."""
    positive, negative = (weights[::-1] for weights in _by_score(y, p, w))
    if not positive.sum() > 0:
        return float("nan")
    precision = positive.cumsum() / (positive + negative).cumsum()
    return float(positive @ precision / positive.sum())


def _by_score(y: Array, p: Array, w: Array) -> tuple[Array, Array]:
    """Weights of class 1 and of class 0 at every distinct score of class 1, in increasing order."""
    _, place = np.unique(p[:, 1], return_inverse=True)
    count = int(place.max()) + 1
    return np.bincount(place, w * (y == 1), minlength=count), np.bincount(place, w * (y == 0), minlength=count)


def r2(y: Array, f: Array, w: Array) -> float:
    """1 - squared error / squared deviation from the mean, averaged over outputs; NaN if a target does not vary."""
    error = np.average((y - f) ** 2, axis=0, weights=w)
    spread = np.average((y - np.average(y, axis=0, weights=w)) ** 2, axis=0, weights=w)
    return float((1 - error / spread).mean()) if (spread > 0).all() else float("nan")


def root_mean_squared_error(y: Array, f: Array, w: Array) -> float:
    return float(np.sqrt(np.average((y - f) ** 2, axis=0, weights=w)).mean())


def mean_absolute_error(y: Array, f: Array, w: Array) -> float:
    return float(np.average(np.abs(y - f), axis=0, weights=w).mean())


# -- calibration -------------------------------------------------------------------------------------------------------


class CalibrationBin(NamedTuple):
    """Rows of similar predicted probability: its mean, the observed share, and the error of that share."""

    predicted: float
    observed: float
    error: float
    rows: int


def calibration_bins(evaluation: Evaluation, num_bins: int = 10) -> list[CalibrationBin]:
    """Bins of equally many rows, by p(class 1 | x) for two classes and by the largest probability for more.

    The error is half the length of a 95 % interval (Wilson) of the share.
    """
    y, p, w = evaluation.targets, evaluation.predictions, evaluation.weight
    if p.shape[1] == 2:
        predicted, true = p[:, 1], y == 1
    else:
        predicted, true = p.max(axis=1), p.argmax(axis=1) == y
    bins = []
    for rows in np.array_split(np.argsort(predicted, kind="stable"), min(num_bins, len(y))):
        share = float(np.average(true[rows], weights=w[rows]))
        n, z = len(rows), 1.96
        error = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
        bins.append(CalibrationBin(float(np.average(predicted[rows], weights=w[rows])), share, float(error), n))
    return bins


def calibration_error(bins: list[CalibrationBin]) -> float:
    """The mean difference between predicted and observed shares."""
    rows = [b.rows for b in bins]
    return float(np.average([abs(b.predicted - b.observed) for b in bins], weights=rows))


def confusion(evaluation: Evaluation) -> Array:
    """Weighted counts [C, C]: true classes in rows, predicted ones in columns."""
    C = evaluation.predictions.shape[1]
    cells = evaluation.targets * C + evaluation.predictions.argmax(axis=1)
    return np.bincount(cells, weights=evaluation.weight, minlength=C * C).reshape(C, C)


def _array(values: Any) -> Array:
    return values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)
