"""The summary of a report: the quality of a model compared with a constant, and cautions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bochner.data.encoder import CategoryColumn, DroppedColumn
from bochner.data.frames import frame_columns, is_frame, read_column
from bochner.data.labels import abbreviated
from bochner.estimators.evaluation import (
    Array,
    Evaluation,
    calibration_bins,
    calibration_error,
    confusion,
)
from bochner.report import format_number

MIN_ROWS = 200  # the 95 % interval of an accuracy of 0.8 is then 0.11 wide
RARE = 0.05  # the share of a class below which the accuracy hardly depends on it
MIN_RECALL = 0.5
MAX_GAP = 0.05  # mean distance of predicted and observed probabilities
MAX_SHARE = 0.6  # of one column in the importances: the others together matter less than it
MIN_UNKNOWN = 0.01  # share of rows with a level that does not occur in training


def baseline(evaluation: Evaluation) -> Evaluation:
    """The best constant in place of the predictions: the shares of the classes, or the mean of the targets.

    >>> float(baseline(Evaluation.of([0, 1, 1], np.eye(2)[[0, 1, 1]])).predictions[0, 1].round(3))
    0.667
    """
    y, w = evaluation.targets, evaluation.weight
    if evaluation.is_classification:
        constant = np.bincount(y, weights=w, minlength=evaluation.predictions.shape[1]) / w.sum()
    else:
        constant = np.average(y, axis=0, weights=w)
    return Evaluation(y, np.broadcast_to(constant, evaluation.predictions.shape), w)


def headline(evaluation: Evaluation, classes: Sequence[str] | None, kind: str) -> str:
    """The most telling score of one target, with its interval and that of the constant."""
    scores, constant = evaluation.scores(), baseline(evaluation)
    rows = f"On {len(evaluation.targets):,} {kind} rows"
    if classes is not None:
        right, often = scores["accuracy"], constant.scores()["accuracy"].value
        name = classes[int(constant.predictions[0].argmax())]
        return (
            f"{rows}, {_percent(right.value)} ± {_percent((right.high - right.low) / 2)} of the predictions are right "
            f"(95 % interval). Always answering {name!r} would be right for {_percent(often)}."
        )
    error, r2 = scores["mean absolute error"], scores["R2"]
    plain = constant.scores()["mean absolute error"].value
    half = (error.high - error.low) / 2
    return (
        f"{rows}, predictions are off by {format_number(error.value)} ± {format_number(half, 2)} on average (95 % "
        f"interval). Always answering the mean would be off by {format_number(plain)}. The model explains "
        f"{_percent(max(r2.value, 0.0))} of the variation (R2)."
    )


def cautions(
    estimator: Any,
    *,
    held_out: Evaluation | None,
    test: Evaluation | None,
    classes: Sequence[str] | None,
    X: Any,
) -> list[str]:
    """Cautions for the reader; those that do not apply are left out."""
    evaluation = test or held_out
    sentences = [] if evaluation is None else [*_of_scores(evaluation, classes)]
    if held_out is not None and test is not None:
        sentences += _of_drift(held_out, test)
    if evaluation is not None and classes is not None:
        sentences += _of_classes(evaluation, classes)
    sentences += _of_columns(estimator, X)
    if test is None:
        sentences.append(
            "The scores are those of rows that also served to choose the model. Score rows that had no part in it."
        )
    return [
        *sentences,
        "Scores hold for new rows that are drawn like those that were scored: same time, same place, same way of "
        "measuring.",
        "Importances show which columns the predictions depend on, not what causes the outcome.",
    ]


def _of_scores(evaluation: Evaluation, classes: Sequence[str] | None) -> Iterator[str]:
    n, name = len(evaluation.targets), "accuracy" if classes is not None else "R2"
    if n < MIN_ROWS:
        yield f"Only {n:,} rows were scored: the intervals are wide."
    score, constant = evaluation.scores()[name], baseline(evaluation).scores()[name].value
    if np.isfinite(constant) and not score.low > constant:
        yield (
            f"It is not certain that the model is better than a constant: its {name} is {format_number(score.value)} "
            f"(95 % interval from {format_number(score.low)}), that of the constant {format_number(constant)}."
        )
    if classes is not None and n >= MIN_ROWS:
        gap = calibration_error(calibration_bins(evaluation))
        if gap > MAX_GAP:
            yield f"Probabilities are off by {_percent(gap)} on average: do not take them literally."


def _of_drift(held_out: Evaluation, test: Evaluation) -> Iterator[str]:
    name = "accuracy" if test.is_classification else "R2"
    before, after = held_out.scores()[name], test.scores()[name]
    if after.high < before.low:
        yield (
            f"The {name} on the test rows, {format_number(after.value)}, is lower than on held-out training rows, "
            f"{format_number(before.value)}: the test rows differ from those of training."
        )


def _of_classes(evaluation: Evaluation, classes: Sequence[str]) -> Iterator[str]:
    counts = confusion(evaluation)
    totals = counts.sum(axis=1)
    recall = np.divide(np.diag(counts), totals, out=np.ones(len(totals)), where=totals > 0)
    for place in np.argsort(totals)[:3].tolist():
        share = totals[place] / totals.sum()
        if 0 < share < RARE:
            yield (
                f"Class {classes[place]!r} has {_percent(share)} of the rows; the accuracy says little about it. "
                f"{_percent(recall[place])} of its rows are recognised."
            )
    weakest = int(recall.argmin())
    if recall[weakest] < MIN_RECALL and totals[weakest] / totals.sum() >= RARE:
        yield f"Of the rows of class {classes[weakest]!r}, only {_percent(recall[weakest])} are recognised."


def _of_columns(estimator: Any, X: Any) -> Iterator[str]:
    importances, names = getattr(estimator, "feature_importances_", None), column_names(estimator)
    if importances is not None and len(importances) > 1 and importances.max() > MAX_SHARE:
        yield (
            f"Column {names[int(importances.argmax())]!r} has {_percent(importances.max())} of the importance: make "
            "sure that it is known when predictions are made."
        )
    encoder = getattr(estimator, "encoder_", None)
    if encoder is None:
        return
    dropped = [column.name for column in encoder.columns if isinstance(column, DroppedColumn)]
    if dropped:
        reason = "were constant, missing or different in all training rows"
        yield f"Columns {abbreviated(dropped)} {reason}, and are not used."
    if X is None or not is_frame(X):
        return
    series = frame_columns(X)
    for column in encoder.columns:
        if isinstance(column, CategoryColumn) and column.name in series:
            rows = read_column(column.name, series[column.name], expected="category")
            is_new = ~np.isin(np.array(rows.levels), np.array(column.levels))
            share = float(is_new[rows.values].mean())
            if share > MIN_UNKNOWN:
                yield f"{_percent(share)} of the test rows have a value of {column.name!r} that training did not see."


def column_names(estimator: Any) -> list[str]:
    names = getattr(estimator, "feature_names_in_", None)
    return [f"column {i}" for i in range(estimator.n_features_in_)] if names is None else [str(name) for name in names]


def most_important(estimator: Any, count: int = 5) -> str | None:
    """The columns of largest importance in one sentence, None where the model has no importances."""
    shares: Array | None = getattr(estimator, "feature_importances_", None)
    if shares is None:
        return None
    names = column_names(estimator)
    top = np.argsort(-shares, kind="stable")[:count].tolist()
    shown = [f"{names[i]} ({shares[i]:.0%})".replace("%", " %") for i in top if shares[i] >= 0.005]
    return f"Predictions depend most on {', '.join(shown)}."


def _percent(share: float) -> str:
    """A share with one decimal, fewer where that is 0.

    >>> [_percent(share) for share in (0.97, 0.9823, 0.25, 0.0004, 1.0)]
    ['97 %', '98.2 %', '25 %', '0.04 %', '100 %']
    """
    digits = 1 if share >= 0.01 else 2
    return f"{100 * share:.{digits}f}".rstrip("0").rstrip(".") + " %"
