"""Rows of one set and map as a curve, and two curves side by side."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from bochner.studies.findings import by
from bochner.studies.study import Row

ALIKE = 2.0


class Point(NamedTuple):
    """Medians over seeds, and the range of y."""

    x: float
    y: float
    least: float
    most: float


def curve(rows: Sequence[Row], x: str, y: str) -> list[Point]:
    """One point for each number of features, in order of it; rows without a value are left out."""
    points = []
    known = [row for row in rows if row.get(x) is not None and row.get(y) is not None]
    for _, mine in sorted(by(known, "num_features").items()):
        values = [row[y] for row in mine]
        points.append(Point(median(row[x] for row in mine), median(values), min(values), max(values)))
    return points


def level_at(points: Sequence[Point], x: float) -> float | None:
    """log y at x by straight lines between log x and log y; None beyond the ends.

    >>> round(level_at([Point(1, 1, 1, 1), Point(100, 0.01, 0, 0)], 10.0), 6)
    0.1
    """
    found = sorted((point.x, point.y) for point in points if point.x > 0 and point.y > 0)
    if not found or not found[0][0] <= x <= found[-1][0]:
        return None
    xs, ys = np.log(np.array(found)).T
    return float(np.exp(np.interp(np.log(x), xs, ys)))


def compare(first: Sequence[Point], second: Sequence[Point]) -> list[float]:
    """log(first / second) at each point of `first` that lies beside the second curve: negative where it is lower."""
    levels = [(point.y, level_at(second, point.x)) for point in first]
    return [float(np.log(y / level)) for y, level in levels if level is not None and y > 0]


def slope(points: Sequence[Point]) -> float | None:
    """d log y / d log x, by least squares."""
    if len(points) < 2:
        return None
    xs, ys = np.log([[point.x, point.y] for point in points]).T
    return float(np.polyfit(xs, ys, 1)[0])


def matched(first: Sequence[Row], second: Sequence[Row], name: str) -> tuple[Row, Row] | None:
    """The two rows, one of each, whose values of `name` are most alike; None where they differ by a factor of 2."""
    pairs = [(abs(np.log(a[name] / b[name])), a, b) for a in first for b in second if a[name] and b[name]]
    distance, *pair = min(pairs, key=lambda pair: pair[0], default=(np.inf, {}, {}))
    return (pair[0], pair[1]) if distance < np.log(ALIKE) else None
