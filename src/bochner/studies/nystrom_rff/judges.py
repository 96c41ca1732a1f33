"""Rows of one set as one number for each thing that the chapter says."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import exp
from statistics import fmean, median, stdev

from bochner.studies.findings import GENERALLY, Judge, Verdict, by, over_sets
from bochner.studies.nystrom_rff.cells import NYSTROM, RFF
from bochner.studies.nystrom_rff.curves import Point, compare, curve, slope
from bochner.studies.nystrom_rff.errors import POWERS
from bochner.studies.nystrom_rff.pictures import alike
from bochner.studies.study import Row

Rows = Sequence[Row]
Number = Callable[[Rows], float | None]
FEWEST = 3  # draws


def judge_sets(
    number: Number, word: str, *, below: float = float("inf"), above: float = float("-inf"), needed: float = GENERALLY
) -> Judge:
    """A verdict over the sets, each by its own rows."""

    def judge(rows: Rows) -> Verdict | None:
        values = {name: number(mine) for (name,), mine in by(rows, "data").items()}
        return over_sets(values, word, below=below, above=above, needed=needed)

    return judge


def ratio(first: str, second: str, *, x: str, y: str) -> Number:
    """The median of y of one map over that of the other at equal x, the other's curve read between its points."""

    def number(rows: Rows) -> float | None:
        found = compare(_curve(rows, first, x, y), _curve(rows, second, x, y))
        return exp(median(found)) if found else None

    return number


def steepness(rows: Rows) -> float | None:
    """The slope of log error against log memory of Fourier features, less that of Nystrom maps."""
    ours, theirs = (slope(_curve(rows, kind, "memory", "mse")) for kind in (RFF, NYSTROM))
    return None if ours is None or theirs is None else ours - theirs


def gap_left(rows: Rows) -> float | None:
    """|log ratio| of performances at the largest common D over that at the smallest."""
    found = compare(
        _curve(rows, RFF, "num_features", "performance"), _curve(rows, NYSTROM, "num_features", "performance")
    )
    return abs(found[-1] / found[0]) if len(found) > 1 and found[0] else None


def least_bias(rows: Rows) -> float | None:
    """The least bias of Nystrom maps at large kernel values, over all D and seeds."""
    return min((row["large_bias"] for row in _of(rows, NYSTROM) if row["large_bias"] is not None), default=None)


def variance_ratio(rows: Rows) -> float | None:
    """Variance of Nystrom maps at large kernel values over that at small ones."""
    found = [row for row in _of(rows, NYSTROM) if row["large_variance"] and row["small_variance"]]
    return median(row["large_variance"] / row["small_variance"] for row in found) if found else None


def bias_more(rows: Rows) -> float | None:
    """How far from 0 the bias at large kernel values is, Nystrom's less the Fourier map's, at equal mean square error.

    In standard errors over draws: one draw of Fourier features errs alike on all large values, in no direction.
    """
    pair = alike(rows)
    if pair is None:
        return None
    ours, theirs = (
        [row["large_bias"] for row in _of(rows, one["map"]) if row["num_features"] == one["num_features"]]
        for one in pair
    )
    if None in (*ours, *theirs) or min(len(ours), len(theirs)) < FEWEST:
        return None
    return _distance(ours) - _distance(theirs)


def outliers_more(rows: Rows) -> float | None:
    """Share of outliers at large kernel values, Nystrom's less the Fourier map's, at equal mean square error."""
    pair = alike(rows)
    if pair is None or pair[0]["large_outliers"] is None:
        return None
    return float(pair[0]["large_outliers"] - pair[1]["large_outliers"])


def largest_norm(rows: Rows) -> float | None:
    return max((row["norm_max"] for row in _of(rows, NYSTROM)), default=None)


def norm_distance(rows: Rows) -> float | None:
    """|1 - mean norm| of Fourier features over that of as many Nystrom features, the median over D."""
    off = [{**row, "off": abs(1 - row["norm"])} for row in rows]
    return ratio(RFF, NYSTROM, x="num_features", y="off")(off)


def least_rise(rows: Rows) -> float | None:
    """The least step of the mean norm of Nystrom features from one D to the next."""
    found = curve(_of(rows, NYSTROM), "num_features", "norm")
    return min((b.y - a.y for a, b in pairwise(found)), default=None)


def power_gap(rows: Rows) -> float | None:
    """The distance of the two curves of performance by the best mean |error|^r over that by the mean square."""
    gaps = []
    for x in ("mse", *(f"power_{power}" for power in POWERS)):
        found = compare(_curve(rows, NYSTROM, x, "performance"), _curve(rows, RFF, x, "performance"))
        gaps.append(median(map(abs, found)) if found else None)
    others = [gap for gap in gaps[1:] if gap is not None]
    return min(others) / gaps[0] if gaps[0] and others else None


def loss_ratio(rows: Rows) -> float | None:
    """The loss at the largest D over that at the smallest, the largest of the kernels'."""
    found = [curve(mine, "num_features", "loss") for mine in by(rows, "kernel").values()]
    return max((points[-1].y / points[0].y for points in found if len(points) > 1), default=None)


def gain_ratio(rows: Rows) -> float | None:
    """The share of the loss that the last step of D takes away over that of the first, the largest of the kernels'."""
    found = [curve(mine, "num_features", "loss") for mine in by(rows, "kernel").values()]
    return max(((1 - p[-1].y / p[-2].y) / (1 - p[1].y / p[0].y) for p in found if len(p) > 2), default=None)


def _distance(values: Sequence[float]) -> float:
    """|mean| in standard errors.

    >>> _distance([1.0, 2.0, 3.0])
    3.4641016...
    """
    return abs(fmean(values)) / max(stdev(values) / len(values) ** 0.5, sys.float_info.min)


def _of(rows: Rows, kind: str) -> list[Row]:
    return [row for row in rows if row["map"] == kind]


def _curve(rows: Rows, kind: str, x: str, y: str) -> list[Point]:
    return curve(_of(rows, kind), x, y)
