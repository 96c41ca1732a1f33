"""`bochner evaluate`, and the scores of predictions, accumulated over blocks of rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from bochner.cli.tables import Columns, TextOptions, open_for_model, require_targets, text_classes
from bochner.cli.train_directory import load_model
from bochner.data import Rows, TableRows, with_classes
from bochner.data.batches import in_order
from bochner.data.blocks import Block
from bochner.stages import write_json

MAX_CONFUSIONS = 5
BATCH_ROWS = 4096
MIN_LOG = float(np.log(np.finfo(np.float64).tiny))  # bounds -log p(y | x) where p is rounded to 0
Scores = dict[str, float]


def evaluate(
    model: Path,
    data: Path,
    *,
    target: str | None = None,
    json: Path | None = None,
    columns: Columns = None,
    weight: str | None = None,
    sep: str | None = None,
    encoding: str | None = None,
    decimal: Literal[".", ","] | None = None,
    device: str = "auto",
) -> None:
    """Score a model on a file of rows with known targets.

    Examples:

        bochner evaluate out/iris test.csv --target species
        bochner evaluate out/iris test.csv --target species --json test_scores.json

    For a classifier: accuracy, error, balanced accuracy (the mean over classes), ce (the mean of -log p(class | x)),
    perplexity (its exponential), and the most frequent confusions. For a regressor: R2, root mean squared error and
    mean absolute error. Use rows that served neither for training nor for any choice.

    Args:
        model: The output directory of `bochner train`, or a model file.
        data: Rows, in any format that `bochner train` reads.
        target: The true values: a column of a table, an array in an .npz (default y), or the path of an .npy file.
        json: Write the scores to this file, too.
        columns: Names of the inputs, separated by commas, if they differ from those of training.
        weight: A column of row weights.
        sep: Separator of a CSV file, a character or "tab". Default: detected.
        encoding: Encoding of a CSV file, such as "cp1252". Default: detected.
        decimal: Decimal sign of a CSV file. Default: detected.
        device: Where predictions are computed; "auto" is the GPU if there is one.
    """
    estimator = load_model(model, device=device)
    names: dict[str, Any] = {"columns": columns, "target": target, "weight": weight}
    text = TextOptions(sep, encoding, decimal)
    rows = open_for_model(estimator, data, **names, labels=text_classes(estimator), text=text)
    scorer = score_rows(estimator, require_targets(data, rows))
    protocol = f"all {scorer.num_rows:,} rows of {data}" + ("" if weight is None else f", weighted by {weight}")
    _print_scores(scorer, protocol)
    if json is not None:
        write_json(json, {"model": str(model), "protocol": protocol, "num_rows": scorer.num_rows, **scorer.scores()})


def _print_scores(scorer: Scorer, protocol: str) -> None:
    print(f"{protocol}\n")
    for name, value in scorer.scores().items():
        print(f"{name:<18} {value:>10.4f}")
    confusions = scorer.confusions(MAX_CONFUSIONS) if isinstance(scorer, ClassScorer) else []
    if confusions:
        print("\nmost frequent confusions (rows)")
    for true, predicted, rows in confusions:
        print(f"{true!s} predicted as {predicted!s}: {rows:,}")


class Scorer(Protocol):
    """Sums over the rows seen so far."""

    num_rows: int

    def add(self, block: Block) -> None: ...

    def scores(self) -> Scores: ...


def score_rows(model: Any, rows: Rows) -> Scorer:
    """Score all rows, a batch at a time; row weights count if there are any."""
    classes = getattr(model, "classes_", None)
    scorer: Scorer = NumberScorer(model) if classes is None else ClassScorer(model)
    if isinstance(rows, TableRows):
        for part in rows.batches(BATCH_ROWS):
            y = part.read_targets(0) if classes is None else part.class_indices(classes)
            scorer.add(Block(part.X, y, None if part.weight is None else torch.from_numpy(part.weight)))
        return scorer
    for block in in_order(rows if classes is None else with_classes(rows, classes), BATCH_ROWS):
        scorer.add(block._replace(X=block.X.double()))  # the estimator returns the dtype of its inputs
    return scorer


class ClassScorer:
    """Accuracy, cross-entropy and confusions of a classifier; y are indices into its classes.

        accuracy           share of rows whose most probable class is right; error = 1 - accuracy
        ce                 -mean log p(y | x); perplexity = exp(ce)
        balanced_accuracy  mean accuracy of the classes that occur in y

    Memory: O(C), and the pairs of classes that were confused.
    """

    def __init__(self, model: Any) -> None:
        self._model, self.num_rows = model, 0
        C = len(model.classes_)
        self._right, self._weight, self._loss = np.zeros(C), np.zeros(C), 0.0
        self._confusions: Counter[tuple[int, int]] = Counter()

    def add(self, block: Block) -> None:
        log_p = torch.as_tensor(self._model.predict_log_proba(block.X)).clamp_min(MIN_LOG).cpu()
        y, weight = block.y.cpu(), _weight(block)
        predicted = log_p.argmax(dim=1)
        self._loss -= float(log_p.gather(1, y[:, None])[:, 0] @ weight)
        self._weight += np.bincount(y, weight, len(self._weight))
        self._right += np.bincount(y, weight * (predicted == y), len(self._weight))
        wrong = predicted != y
        self._confusions.update(zip(y[wrong].tolist(), predicted[wrong].tolist(), strict=True))
        self.num_rows += len(y)

    def scores(self) -> Scores:
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

    def confusions(self, count: int) -> list[tuple[Any, Any, int]]:
        """The `count` most frequent errors, as (true class, predicted class, rows)."""
        classes = self._model.classes_.tolist()
        return [(classes[true], classes[wrong], rows) for (true, wrong), rows in self._confusions.most_common(count)]


class NumberScorer:
    """Errors of a regressor for targets [n] or [n, t].

    r2    1 - sum (y - f)^2 / sum (y - mean y)^2, the mean over targets
    rmse  sqrt(mean (y - f)^2) and mae = mean |y - f|, over rows and targets
    """

    def __init__(self, model: Any) -> None:
        self._model, self.num_rows, self._weight = model, 0, 0.0
        self._mean: Tensor = torch.zeros(1, dtype=torch.float64)
        self._spread, self._squared, self._absolute = (torch.zeros(1, dtype=torch.float64) for _ in range(3))

    def add(self, block: Block) -> None:
        y, weight = _columns(block.y), _weight(block)
        error = y - _columns(torch.as_tensor(self._model.predict(block.X)))
        self._squared = self._squared + weight @ error.square()
        self._absolute = self._absolute + weight @ error.abs()
        self._add_targets(y, weight)
        self.num_rows += len(y)

    def scores(self) -> Scores:
        spread = torch.where(self._spread > 0, self._spread, torch.nan)
        return {
            "r2": float((1 - self._squared / spread).mean()),
            "rmse": float((self._squared / self._weight).mean().sqrt()),
            "mae": float((self._absolute / self._weight).mean()),
        }

    def _add_targets(self, y: Tensor, weight: Tensor) -> None:
        """Update mean and sum of squared deviations without cancellation (Chan, Golub and LeVeque, 1983)."""
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
