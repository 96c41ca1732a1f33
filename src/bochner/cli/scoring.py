"""How good predictions are, over rows of any number."""

from __future__ import annotations

from collections import Counter
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from bochner.data import with_classes
from bochner.data.batches import in_order
from bochner.data.blocks import Block, Source

ROWS_AT_ONCE = 4096
LEAST_LOG = float(np.log(np.finfo(np.float64).tiny))  # of a probability that rounded to 0
Metrics = dict[str, float]


class Tally(Protocol):
    """Sums over the rows seen so far."""

    num_rows: int

    def add(self, block: Block) -> None: ...

    def metrics(self) -> Metrics: ...


def score(model: Any, source: Source) -> Tally:
    """The tally of all rows of `source`, a few at a time; weights count where the rows have them."""
    classes = getattr(model, "classes_", None)
    tally: Tally = NumberTally(model) if classes is None else ClassTally(model)
    for block in in_order(source if classes is None else with_classes(source, classes), ROWS_AT_ONCE):
        tally.add(block)
    return tally


class ClassTally:
    """Accuracy, cross-entropy and confusions of a classifier; y are places in its classes.

        accuracy           share of rows whose likeliest class is right; error = 1 - accuracy
        ce                 -mean log p(y | x); perplexity = exp(ce)
        balanced_accuracy  mean over the classes present of the share of their rows that are right

    Memory: O(C), and the pairs of classes that were confused.
    """

    def __init__(self, model: Any) -> None:
        self._model, self.num_rows = model, 0
        C = len(model.classes_)
        self._right, self._weight, self._loss = np.zeros(C), np.zeros(C), 0.0
        self._confused: Counter[tuple[int, int]] = Counter()

    def add(self, block: Block) -> None:
        logs = self._model.predict_log_proba(block.X.double()).clamp_min(LEAST_LOG).cpu()
        y, weight = block.y.cpu(), _weight(block)
        predicted = logs.argmax(dim=1)
        self._loss -= float(logs.gather(1, y[:, None])[:, 0] @ weight)
        self._weight += np.bincount(y, weight, len(self._weight))
        self._right += np.bincount(y, weight * (predicted == y), len(self._weight))
        wrong = predicted != y
        self._confused.update(zip(y[wrong].tolist(), predicted[wrong].tolist(), strict=True))
        self.num_rows += len(y)

    def metrics(self) -> Metrics:
        total = self._weight.sum()
        accuracy, ce = float(self._right.sum() / total), self._loss / total
        present = self._weight > 0
        return {
            "accuracy": accuracy,
            "error": 1 - accuracy,
            "balanced_accuracy": float((self._right[present] / self._weight[present]).mean()),
            "ce": float(ce),
            "perplexity": float(np.exp(ce)),
        }

    def confusions(self, most: int) -> list[tuple[Any, Any, int]]:
        """The most frequent mistakes, as (true class, predicted class, rows)."""
        classes = self._model.classes_.tolist()
        return [(classes[true], classes[found], rows) for (true, found), rows in self._confused.most_common(most)]


class NumberTally:
    """Errors of a regressor for targets [n] or [n, t].

    r2    1 - sum (y - f)^2 / sum (y - mean y)^2, the mean over targets
    rmse  sqrt(mean (y - f)^2) and mae = mean |y - f|, over rows and targets
    """

    def __init__(self, model: Any) -> None:
        self._model, self.num_rows, self._weight = model, 0, 0.0
        self._mean: Tensor = torch.zeros(1, dtype=torch.float64)
        self._spread, self._squares, self._sizes = (torch.zeros(1, dtype=torch.float64) for _ in range(3))

    def add(self, block: Block) -> None:
        y, weight = _columns(block.y), _weight(block)
        error = y - _columns(torch.as_tensor(self._model.predict(block.X.double())))
        self._squares = self._squares + weight @ error.square()
        self._sizes = self._sizes + weight @ error.abs()
        self._add_targets(y, weight)
        self.num_rows += len(y)

    def metrics(self) -> Metrics:
        spread = torch.where(self._spread > 0, self._spread, torch.nan)
        return {
            "r2": float((1 - self._squares / spread).mean()),
            "rmse": float((self._squares / self._weight).mean().sqrt()),
            "mae": float((self._sizes / self._weight).mean()),
        }

    def _add_targets(self, y: Tensor, weight: Tensor) -> None:
        """Mean and spread of two sets from those of each, without cancellation (Chan, Golub and LeVeque, 1983)."""
        added = float(weight.sum())
        if added == 0:
            return
        mean = weight @ y / added
        step, total = mean - self._mean, self._weight + added
        self._spread = self._spread + weight @ (y - mean).square() + step.square() * (self._weight * added / total)
        self._mean, self._weight = self._mean + step * (added / total), total


def _weight(block: Block) -> Tensor:
    return torch.ones(len(block.y)).double() if block.weight is None else block.weight.double().cpu()


def _columns(y: Tensor) -> Tensor:
    return y.reshape(len(y), -1).double().cpu()
