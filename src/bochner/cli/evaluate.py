"""`bochner evaluate`, and the scores of predictions, accumulated over blocks of rows."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch
from scipy.stats import t
from torch import Tensor

from bochner.cli.provenance import Relation, TrainingRecord
from bochner.cli.tables import Columns, TextOptions, open_for_model, require_targets, text_classes
from bochner.cli.train_directory import load_model
from bochner.data import Rows, TableRows, with_classes
from bochner.data.batches import in_order
from bochner.data.blocks import Block
from bochner.remote import local_path
from bochner.stages import write_json

logger = logging.getLogger(__name__)

MAX_CONFUSIONS = 5
BATCH_ROWS = 4096
MIN_LOG = float(np.log(np.finfo(np.float64).tiny))  # bounds -log p(y | x) where p is rounded to 0
Z95 = 1.959964  # the 97.5 % quantile of the normal distribution
NUM_GROUPS = 50  # a standard error from 50 groups is itself known to a tenth
Scores = dict[str, float]
Intervals = dict[str, tuple[float, float]]


def evaluate(
    model: str,
    data: str,
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

        bochner evaluate out/iris_csv test.csv
        bochner evaluate out/iris_csv test.csv --target variety --json test_scores.json

    For a classifier: accuracy, error, balanced accuracy (the mean over classes), ce (the mean of -log p(class | x)),
    perplexity (its exponential), and the most frequent confusions. For a regressor: R2, root mean squared error and
    mean absolute error. All have 95 % intervals for rows that are drawn like these. Use rows that were used neither for
    training nor for any choice; a file of training is recognised by its SHA-256.

    Args:
        model: The output directory of `bochner train`, or a model file.
        data: Rows, in any format that `bochner train` reads.
        target: The true values: a column of a table by name or position, an array in an .npz (default y), or the path
            of an .npy file. Default: as in training.
        json: Write the scores to this file, too.
        columns: Names of the inputs, separated by commas, if they differ from those of training.
        weight: A column of row weights.
        sep: Separator of a CSV file, a character or "tab". Default: detected.
        encoding: Encoding of a CSV file, such as "cp1252". Default: detected.
        decimal: Decimal sign of a CSV file. Default: detected.
        device: Where predictions are computed; "auto" is the GPU if there is one.
    """
    path = local_path(model)
    estimator, record = load_model(path, device=device), TrainingRecord.beside(path)
    if target is None and record is not None:
        target = record.target
    names: dict[str, Any] = {"columns": columns, "target": target, "weight": weight}
    text = TextOptions(sep, encoding, decimal)
    rows = open_for_model(estimator, data, **names, labels=text_classes(estimator), text=text)
    scorer = score_rows(estimator, require_targets(data, rows))
    protocol = f"all {scorer.num_rows:,} rows of {data}" + ("" if weight is None else f", weighted by {weight}")
    relation = Relation("whether training saw them is not known: there is no model card beside the model", is_new=True)
    if record is not None:
        relation = record.relation(data)
    if not relation.is_new:
        logger.warning(relation.text)
    _print_scores(scorer, f"{protocol}; {relation.text}" if relation.is_new else protocol)
    if json is not None:
        stored = {"model": model, "protocol": protocol, "relation": relation.text, "num_rows": scorer.num_rows}
        intervals = {name: list(ends) for name, ends in scorer.intervals().items()}
        write_json(json, {**stored, **scorer.scores(), "intervals": intervals})


def _print_scores(scorer: Scorer, protocol: str) -> None:
    print(f"{protocol}\n")
    intervals = scorer.intervals()
    print(f"{'score':<18} {'value':>10}   95 % interval")
    for name, value in scorer.scores().items():
        low, high = intervals[name]
        print(f"{name:<18} {value:>10.4f}   {low:.4f} to {high:.4f}")
    confusions = scorer.confusions(MAX_CONFUSIONS) if isinstance(scorer, ClassScorer) else []
    if confusions:
        print("\nmost frequent confusions (rows)")
    for true, predicted, rows in confusions:
        print(f"{true!s} predicted as {predicted!s}: {rows:,}")


class Scorer(Protocol):
    """Sums over the rows so far, whose targets `model` predicts."""

    model: Any
    num_rows: int

    def add(self, block: Block) -> None: ...

    def scores(self) -> Scores: ...

    def intervals(self) -> Intervals:
        """The ends of a 95 % interval of each score, for rows drawn like these."""
        ...


def make_scorer(model: Any) -> Scorer:
    return ClassScorer(model) if hasattr(model, "classes_") else NumberScorer(model)


def score_rows(model: Any, rows: Rows, scorer: Scorer | None = None) -> Scorer:
    """Score all rows, a batch at a time, and add them to `scorer`; row weights count if there are any."""
    classes, scorer = getattr(model, "classes_", None), scorer or make_scorer(model)
    scorer.model = model
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

    The interval of the accuracy is Wilson's, which is not a point when all rows are right; that of the balanced
    accuracy adds two right and two wrong rows to every class (Agresti and Coull, 1998); that of ce is normal. Weights w
    count as (sum w)^2 / sum w^2 rows. Memory: O(C), and the pairs of classes that were confused.
    """

    def __init__(self, model: Any) -> None:
        self.model, self.num_rows = model, 0
        C = len(model.classes_)
        self._right, self._weight, self._squares = np.zeros(C), np.zeros(C), np.zeros(C)
        self._loss = self._loss_squares = 0.0
        self._confusions: Counter[tuple[int, int]] = Counter()

    def add(self, block: Block) -> None:
        log_p = torch.as_tensor(self.model.predict_log_proba(block.X)).clamp_min(MIN_LOG).cpu()
        y, weight = block.y.cpu(), _weight(block)
        predicted = log_p.argmax(dim=1)
        losses = -log_p.gather(1, y[:, None])[:, 0].double()
        self._loss += float(losses @ weight)
        self._loss_squares += float(losses.square() @ weight)
        self._weight += np.bincount(y, weight, len(self._weight))
        self._squares += np.bincount(y, weight.square(), len(self._weight))
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

    def intervals(self) -> Intervals:
        scores, total = self.scores(), self._weight.sum()
        n = total**2 / self._squares.sum()
        low, high = wilson(scores["accuracy"], n)
        present = self._weight > 0
        rows = self._weight[present] ** 2 / self._squares[present]
        share = (self._right[present] / self._weight[present] * rows + 2) / (rows + 4)
        half = Z95 * float(np.sqrt((share * (1 - share) / (rows + 4)).sum()) / len(rows))
        balanced = scores["balanced_accuracy"]
        spread = np.sqrt(max(self._loss_squares / total - scores["ce"] ** 2, 0) / n)
        ce = max(scores["ce"] - Z95 * spread, 0), scores["ce"] + Z95 * spread
        return {
            "accuracy": (low, high),
            "error": (1 - high, 1 - low),
            "balanced_accuracy": (max(balanced - half, 0), min(balanced + half, 1)),
            "ce": ce,
            "perplexity": (float(np.exp(ce[0])), float(np.exp(ce[1]))),
        }

    def confusions(self, count: int) -> list[tuple[Any, Any, int]]:
        """The `count` most frequent errors, as (true class, predicted class, rows)."""
        classes = self.model.classes_.tolist()
        return [(classes[true], classes[wrong], rows) for (true, wrong), rows in self._confusions.most_common(count)]


def wilson(share: float, n: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of n rows.

    >>> [round(end, 3) for end in wilson(1.0, 14)]
    [0.785, 1.0]
    """
    centre = (share + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    half = Z95 / (1 + Z95**2 / n) * float(np.sqrt(share * (1 - share) / n + Z95**2 / (4 * n**2)))
    return max(centre - half, 0.0), min(centre + half, 1.0)


class NumberScorer:
    """Errors of a regressor for targets [n] or [n, t].

    r2    1 - sum (y - f)^2 / sum (y - mean y)^2, the mean over targets
    rmse  sqrt(mean (y - f)^2) and mae = mean |y - f|, over rows and targets

    Intervals are those of a jackknife (Tukey 1958): the rows are dealt into 50 groups, and the scores without each of
    them give the standard error. Memory: O(50 t).
    """

    def __init__(self, model: Any) -> None:
        self.model, self.num_rows = model, 0
        self._centre: Tensor | None = None
        # weights [G]; squared and absolute errors, and targets about the centre and their squares, [G, t] each
        self._weight, self._sums = torch.zeros(NUM_GROUPS, dtype=torch.float64), torch.zeros(4, NUM_GROUPS, 1).double()

    def add(self, block: Block) -> None:
        y, weight = _columns(block.y), _weight(block)
        error = y - _columns(torch.as_tensor(self.model.predict(block.X)))
        if self._centre is None:  # sums of squares about it do not cancel
            self._centre = y.mean(dim=0)
            self._sums = self._sums.expand(-1, -1, y.shape[1]).clone()
        deviation = y - self._centre
        group = (self.num_rows + torch.arange(len(y))) % NUM_GROUPS
        parts = torch.stack([error.square(), error.abs(), deviation, deviation.square()]) * weight[:, None]
        self._weight.index_add_(0, group, weight)
        self._sums.index_add_(1, group, parts)
        self.num_rows += len(y)

    def scores(self) -> Scores:
        return {name: float(value) for name, value in self._scores(self._weight.sum(), self._sums.sum(dim=1)).items()}

    def intervals(self) -> Intervals:
        used = self._weight > 0
        G, weight, sums = int(used.sum()), self._weight[used], self._sums[:, used]
        if G < 2:
            return dict.fromkeys(self.scores(), (np.nan, np.nan))
        without = self._scores(self._weight.sum() - weight, self._sums.sum(dim=1, keepdim=True) - sums)
        result = {}
        for name, value in self.scores().items():
            error = float(((G - 1) / G * (without[name] - without[name].mean()).square().sum()).sqrt())
            half = float(t.ppf(0.975, G - 1)) * error
            result[name] = (value - half if name == "r2" else max(value - half, 0.0), value + half)
        return result | {"r2": (result["r2"][0], min(result["r2"][1], 1.0))}

    @staticmethod
    def _scores(weight: Tensor, sums: Tensor) -> dict[str, Tensor]:
        """Scores of weights [...] and sums [4, ..., t]."""
        squared, absolute, first, second = sums
        spread = second - first.square() / weight[..., None]
        spread = torch.where(spread > 0, spread, torch.nan)
        return {
            "r2": (1 - squared / spread).mean(dim=-1),
            "rmse": (squared / weight[..., None]).mean(dim=-1).sqrt(),
            "mae": (absolute / weight[..., None]).mean(dim=-1),
        }


def _weight(block: Block) -> Tensor:
    return torch.ones(len(block.y)).double() if block.weight is None else block.weight.double().cpu()


def _columns(y: Tensor) -> Tensor:
    return y.reshape(len(y), -1).double().cpu()
