"""Rows as tables and verdicts want them: means over seeds, and how metrics go with the error rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from statistics import StatisticsError, correlation, fmean

from bochner.studies.findings import by
from bochner.studies.speech.cells import Cell
from bochner.studies.speech.metrics import HELDOUT, METRICS
from bochner.studies.study import Row

NAMES = tuple(field.name for field in fields(Cell) if field.name != "seed")
FEWEST = 3


def averaged(rows: Sequence[Row]) -> list[Row]:
    """One row a model, with means over its seeds."""
    return [_mean(mine) for mine in by(rows, *NAMES).values()]


def correlations(rows: Sequence[Row]) -> dict[str, float | None]:
    """Pearson's between each heldout metric and the token error rate, over the models of one task.

    None where there are fewer than three models, or a metric that is the same for all.
    """
    models = averaged(rows)
    errors = [row["ter"] for row in models]
    return {name: _correlation([row["metrics"][name] for row in models], errors) for name in METRICS}


def _mean(rows: Sequence[Row]) -> Row:
    means = {name: fmean(row[name] for row in rows) for name in (*HELDOUT, "ter")}
    return {**rows[0], **means, "metrics": {name: fmean(row["metrics"][name] for row in rows) for name in METRICS}}


def _correlation(x: Sequence[float], y: Sequence[float]) -> float | None:
    """
    >>> _correlation([1, 2, 3], [2, 4, 6]), _correlation([1, 1, 1], [2, 4, 6])
    (1.0, None)
    """
    if len(x) < FEWEST:
        return None
    try:
        return correlation(x, y)
    except StatisticsError:
        return None
