"""The figures and the table of May 2018, chapter 6, drawn from rows."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from bochner.report import Page
from bochner.studies.drawing import COLORS, Curve, Panel, draw_panel, finish, new_axes
from bochner.studies.findings import by, sets_of
from bochner.studies.nystrom_rff import ERROR_EDGES, KMEANS, NORM_EDGES, NYSTROM, POWERS, RFF
from bochner.studies.nystrom_rff_data import TASKS
from bochner.studies.study import Row

ALIKE = 2.0  # errors are compared within this factor


class Point(NamedTuple):
    """Medians over seeds, and the range of y."""

    x: float
    y: float
    least: float
    most: float


def curve(rows: Sequence[Row], x: str, y: str) -> list[Point]:
    """One point for each number of features, in its order, from the rows that have both values."""
    points = []
    known = [row for row in rows if row.get(x) is not None and row.get(y) is not None]
    for _, seeds in sorted(by(known, "num_features").items()):
        values = [row[y] for row in seeds]
        points.append(Point(median(row[x] for row in seeds), median(values), min(values), max(values)))
    return points


def level_at(points: Sequence[Point], x: float) -> float | None:
    """log y at x by linear interpolation in log x and log y; None outside the range.

    >>> round(level_at([Point(1, 1, 1, 1), Point(100, 0.01, 0, 0)], 10.0), 6)
    0.1
    """
    known = sorted((point.x, point.y) for point in points if point.x > 0 and point.y > 0)
    if not known or not known[0][0] <= x <= known[-1][0]:
        return None
    xs, ys = np.log(np.array(known)).T
    return float(np.exp(np.interp(np.log(x), xs, ys)))


def compare(first: Sequence[Point], second: Sequence[Point]) -> list[float]:
    """log(first / second) at each point of `first` within the range of the second curve; negative where it is lower."""
    levels = [(point.y, level_at(second, point.x)) for point in first]
    return [float(np.log(y / level)) for y, level in levels if level is not None and y > 0]


def slope(points: Sequence[Point]) -> float | None:
    """d log y / d log x, by least squares."""
    if len(points) < 2:
        return None
    xs, ys = np.log([[point.x, point.y] for point in points]).T
    return float(np.polyfit(xs, ys, 1)[0])


def matched(first: Sequence[Row], second: Sequence[Row], name: str) -> tuple[Row, Row] | None:
    """The pair of rows, one of each, with the most similar values of `name`; None if they differ by a factor of 2."""
    pairs = [(abs(np.log(a[name] / b[name])), a, b) for a in first for b in second if a[name] and b[name]]
    distance, *pair = min(pairs, key=lambda pair: pair[0], default=(np.inf, {}, {}))
    return (pair[0], pair[1]) if distance < np.log(ALIKE) else None


# -- figures and tables ----------------------------------------------------------------------------------------

MAPS = (RFF, NYSTROM, KMEANS)
LABELS = {
    "num_features": "features D",
    "memory": "stored numbers",
    "mse": "kernel error, mean square",
    **{f"power_{power}": f"kernel error, mean |error|^{power}" for power in POWERS},
}


def performance_label(data: str) -> str:
    return "heldout error" if TASKS[data].classes else "heldout RMSE"


def show_sets(page: Page, rows: Sequence[Row]) -> None:
    """The papers' data set that each set is or replaces."""
    chosen = [TASKS[name] for name, _ in sets_of(rows)]
    page.table(["set", "in the thesis", "1 / (2 σ²)"], [[task.name, task.paper, task.gamma] for task in chosen])


def kernel_error(page: Page, rows: Sequence[Row]) -> None:
    show_sets(page, rows)
    for name, group in sets_of(rows):
        drawn = [
            (_plot(name, group, x, "mse"), f"{name}: kernel error against {LABELS[x]}.")
            for x in ("num_features", "memory")
        ]
        page.figures(drawn)
    _sizes_table(page, rows, "mse", "kernel error, mean square")


def performance(page: Page, rows: Sequence[Row]) -> None:
    show_sets(page, rows)
    for name, group in sets_of(rows):
        page.figures(
            (_plot(name, group, x, "performance"), f"{name}: {performance_label(name)} against {LABELS[x]}.")
            for x in ("num_features", "memory", "mse")
        )
    _sizes_table(page, rows, "performance", "heldout error or RMSE")


def powers(page: Page, rows: Sequence[Row]) -> None:
    for name, group in sets_of(rows):
        page.figures(
            (_plot(name, group, f"power_{power}", "performance"), f"{name}: {performance_label(name)}, r = {power}.")
            for power in POWERS
        )


def bias_and_variance(page: Page, rows: Sequence[Row]) -> None:
    """Table 6.2 and Figure 6.4, for the Nystrom and the Fourier map with the most similar mean squared errors."""
    table: list[list[Any]] = []
    for name, group in sets_of(rows):
        pair = alike(group)
        if pair is None:
            continue
        for row in pair:
            kind = f"{row['map']}, D = {row['num_features']:,}"
            for kernel_values, prefix in (("k < 0.25", "small_"), ("k ≥ 0.25", "large_"), ("all", "")):
                numbers = [row[prefix + moment] for moment in ("mse", "bias", "variance", "outliers")]
                table.append([name, kind, kernel_values, *numbers])
        drawn = [
            (_histogram(name, pair, prefix), text)
            for prefix, text in _KINDS.items()
            if all(r[prefix + "histogram"] for r in pair)
        ]
        page.figures((figure, f"{name}: errors where {text}.") for figure, text in drawn)
    page.table(["set", "map", "pairs", "mean square", "bias", "variance", "share of errors > 0.035"], table)


def norms(page: Page, rows: Sequence[Row]) -> None:
    drawn = []
    for name, group in sets_of(rows):
        for kind in (NYSTROM, RFF):
            figure, axes = new_axes(
                f"{name}: {kind}", "squared norm of z(x)", "share of rows", x_scale="linear", y_scale="linear"
            )
            by_size = sorted(by([row for row in group if row["map"] == kind], "num_features").items())
            for style, ((count,), seeds) in enumerate(by_size):
                color = COLORS[style % len(COLORS)]
                axes.stairs(seeds[0]["norm_histogram"], NORM_EDGES.numpy(), color=color, label=f"D = {count:,}")
            drawn.append((finish(figure, axes), f"{name}: squared norms by {kind}; those of the kernel are 1."))
    page.figures(drawn)


def effect_of_features(page: Page, rows: Sequence[Row]) -> None:
    drawn = []
    for name, group in sets_of(rows):
        curves = [
            Curve(kernel, curve(seeds, "num_features", "loss"), style)
            for style, ((kernel,), seeds) in enumerate(by(group, "kernel").items())
        ]
        caption = f"{name}: heldout cross-entropy against D, Fourier features of three kernels."
        drawn.append((draw_panel(Panel(name, "features D", "heldout cross-entropy", curves)), caption))
    page.figures(drawn)
    groups = by(rows, "data", "kernel", "num_features").items()
    page.table(
        ["set", "kernel", "D", "heldout cross-entropy", "heldout error", "seeds"],
        [[*key, _median(seeds, "loss"), _median(seeds, "performance"), len(seeds)] for key, seeds in groups],
    )


def alike(rows: Sequence[Row]) -> tuple[Row, Row] | None:
    """The Nystrom and the Fourier row of a set with the most similar mean squared errors."""
    return matched([r for r in rows if r["map"] == NYSTROM], [r for r in rows if r["map"] == RFF], "mse")


_KINDS = {"small_": "k < 0.25", "large_": "k ≥ 0.25"}


def _plot(name: str, rows: Sequence[Row], x: str, y: str) -> Any:
    label = performance_label(name) if y == "performance" else LABELS[y]
    curves = [
        Curve(kind, curve([row for row in rows if row["map"] == kind], x, y), style) for style, kind in enumerate(MAPS)
    ]
    return draw_panel(Panel(name, LABELS[x], label, curves))


def _histogram(name: str, pair: Sequence[Row], prefix: str) -> Any:
    figure, axes = new_axes(f"{name}, {_KINDS[prefix]}", "k(x, y) - z(x) . z(y)", "share of pairs", x_scale="linear")
    for style, row in enumerate(pair):
        label = f"{row['map']}, D = {row['num_features']:,}"
        axes.stairs(row[prefix + "histogram"], ERROR_EDGES.numpy(), color=COLORS[1 - style], label=label)
    return finish(figure, axes)


def _sizes_table(page: Page, rows: Sequence[Row], value: str, title: str) -> None:
    groups = by(rows, "data", "map", "num_features").items()
    columns = ["set", "map", "D", "stored numbers", f"{title}: median", "least", "most", "seeds"]
    body = []
    for key, seeds in groups:
        values = [row[value] for row in seeds if value in row]
        body.append([*key, seeds[0]["memory"], _median(seeds, value), min(values), max(values), len(values)])
    page.table(columns, body)


def _median(rows: Sequence[Row], name: str) -> float:
    return curve([{**row, "num_features": 0} for row in rows], "num_features", name)[0].y
