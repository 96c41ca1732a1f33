"""Ranks, win rates and costs from the records of cells."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import rankdata, studentized_range

MIN_COVERAGE = 0.5  # contenders with a smaller share of the sets are not ranked: they would reduce the common cells
MAX_POINTS_BEHIND, MAX_RMSE_BEHIND = 0.02, 0.03

Record = dict[str, Any]


def error_of(record: Record) -> float:
    """RMSE, 1 - accuracy or 1 - ROC AUC, depending on the table; infinite for a failed cell."""
    if "error" in record:
        return math.inf
    scores = record["scores"]
    return scores["rmse"] if record["metric"] == "r2" else 1 - scores.get(record["metric"], -math.inf)


class Summary:
    """`errors` has one row per (set, split) and one column per contender; missing where the cell has not been run."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.cells = {(record["set"], record["split"], record["contender"]): record for record in records}
        values = {key: error_of(record) for key, record in self.cells.items()}
        series = pd.Series(values, index=pd.MultiIndex.from_tuples(values, names=["set", "split", "contender"]))
        self.errors = series.unstack("contender")
        self.contenders = list(self.errors.columns)
        self.metrics = {name: record["metric"] for (name, _, _), record in self.cells.items() if "metric" in record}

    def sets(self) -> list[str]:
        """The smallest first."""
        rows = {key[0]: record["num_train"] for key, record in self.cells.items() if "num_train" in record}
        return sorted(rows, key=lambda name: (rows[name], name))

    def ranked(self, contenders: Iterable[str]) -> list[str]:
        """The contenders with enough sets to be ranked."""
        counts = self.errors.notna().groupby("set").any().sum()
        return [name for name in contenders if name in counts and counts[name] >= MIN_COVERAGE * counts.max()]

    def ranks(self, contenders: list[str]) -> pd.DataFrame:
        """Ranks [sets, contenders], 1 the best, averaged over splits; of cells that all of them ran.

        Failed cells (time, memory or an error) share the last rank; ties share theirs.
        """
        common = self.errors[contenders].dropna()
        ranks = pd.DataFrame(rankdata(common.to_numpy(), axis=1), index=common.index, columns=contenders)
        return ranks.groupby("set").mean()

    def costs(self, contender: str, key: str, among: list[str]) -> list[float]:
        """A cost, such as "fit_seconds", in the cells that all of `among` finished."""
        common = self.errors[among].dropna()
        cells = common.index[np.isfinite(common).all(axis=1)]
        records = (self.cells.get((*cell, contender), {}) for cell in cells)
        return [record[key] for record in records if key in record]

    def wins(self, name: str, reference: str) -> Wins:
        """On how many sets `name` has the lower mean error over the splits that both ran.

        A failure of `name` is a loss; cells in which the reference failed are left out, since a time limit is not
        evidence.
        """
        both = self.errors[[name, reference]].dropna()
        both = both[np.isfinite(both[reference])].groupby("set").mean()
        ours, theirs = both[name].to_numpy(), both[reference].to_numpy()
        finite = np.isfinite(ours) & (theirs > 0)
        ratio = float(np.median(ours[finite] / theirs[finite])) if finite.any() else math.nan
        return Wins(int((ours < theirs).sum()), int((ours == theirs).sum()), int((ours > theirs).sum()), ratio)

    def scores(self, set_name: str, contender: str, key: str) -> list[float]:
        """The score on every split that was run and did not fail."""
        return [
            record["scores"][key]
            for (name, _, other), record in self.cells.items()
            if (name, other) == (set_name, contender) and key in record.get("scores", {})
        ]

    def records(self, contender: str, set_name: str | None = None) -> list[Record]:
        return [
            record for (name, _, other), record in self.cells.items() if other == contender and set_name in (None, name)
        ]

    def cost_ratio(self, name: str, reference: str, key: str) -> float:
        """Median ratio of a cost, such as "fit_seconds", over common cells measured on the same machine."""
        ratios = [
            record[key] / other[key]
            for (set_name, split, contender), record in self.cells.items()
            if contender == name
            and (other := self.cells.get((set_name, split, reference), {})).get(key)
            and record.get(key)
            and _place(record) == _place(other)
        ]
        return float(np.median(ratios)) if ratios else math.nan

    def behind(self, name: str, reference: str) -> list[Behind]:
        """Sets on which `name` is more than 2 points of accuracy (or of ROC AUC) or 3 % of RMSE behind."""
        both = self.errors[[name, reference]].dropna().groupby("set").mean()
        rows = []
        for set_name, (ours, theirs) in zip(both.index, both.to_numpy(), strict=True):
            is_regression = self.metrics.get(set_name) == "r2"
            gap = ours / theirs - 1 if is_regression else ours - theirs
            if gap > (MAX_RMSE_BEHIND if is_regression else MAX_POINTS_BEHIND):
                rows.append(Behind(str(set_name), self.metrics.get(set_name, ""), float(gap)))
        return sorted(rows, key=lambda row: row.set)


def _place(record: Record) -> tuple[Any, ...]:
    """The hardware of a cell, as far as times depend on it."""
    return record.get("threads"), record.get("device"), record.get("machine", {}).get("cores")


class Wins(NamedTuple):
    won: int
    tied: int
    lost: int
    ratio: float  # median of our error / theirs

    @property
    def rate(self) -> float:
        """A tie counts half."""
        total = self.won + self.tied + self.lost
        return (self.won + self.tied / 2) / total if total else math.nan


class Behind(NamedTuple):
    set: str
    metric: str
    gap: float  # in error: a difference for classes, relative for numbers


def critical_difference(num_contenders: int, num_sets: int, *, level: float = 0.05) -> float:
    """Nemenyi's critical difference: mean ranks that differ by less are not distinguished; q sqrt(k (k + 1) / (6 N))
    (Demsar 2006).

    q is the upper `level` quantile of the studentized range of k contenders, divided by sqrt(2).
    """
    quantile = studentized_range.ppf(1 - level, num_contenders, np.inf) / math.sqrt(2)
    return float(quantile * math.sqrt(num_contenders * (num_contenders + 1) / (6 * num_sets)))
