"""The chapter's figures and its table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bochner.report import Page
from bochner.studies.drawing import COLORS, add_curve, finish, new_axes
from bochner.studies.findings import by
from bochner.studies.nystrom_rff.cells import KMEANS, NYSTROM, RFF
from bochner.studies.nystrom_rff.curves import curve, matched
from bochner.studies.nystrom_rff.errors import ERROR_EDGES, NORM_EDGES, POWERS
from bochner.studies.nystrom_rff.tasks import TASKS
from bochner.studies.study import Row

MAPS = (RFF, NYSTROM, KMEANS)
WORDS = {
    "num_features": "features D",
    "memory": "stored numbers",
    "mse": "kernel error, mean square",
    **{f"power_{power}": f"kernel error, mean |error|^{power}" for power in POWERS},
}


def performance_word(data: str) -> str:
    return "heldout error" if TASKS[data].classes else "heldout RMSE"


def which_sets(page: Page, rows: Sequence[Row]) -> None:
    """What each set is, or stands for."""
    chosen = [TASKS[name] for name, _ in _sets(rows)]
    page.table(["set", "in the thesis", "1 / (2 σ²)"], [[task.name, task.paper, task.gamma] for task in chosen])


def kernel_error(page: Page, rows: Sequence[Row]) -> None:
    which_sets(page, rows)
    for name, mine in _sets(rows):
        drawn = [
            (_plot(name, mine, x, "mse"), f"{name}: kernel error against {WORDS[x]}.")
            for x in ("num_features", "memory")
        ]
        page.figures(drawn)
    _sizes_table(page, rows, "mse", "kernel error, mean square")


def performance(page: Page, rows: Sequence[Row]) -> None:
    which_sets(page, rows)
    for name, mine in _sets(rows):
        page.figures(
            (_plot(name, mine, x, "performance"), f"{name}: {performance_word(name)} against {WORDS[x]}.")
            for x in ("num_features", "memory", "mse")
        )
    _sizes_table(page, rows, "performance", "heldout error or RMSE")


def powers(page: Page, rows: Sequence[Row]) -> None:
    for name, mine in _sets(rows):
        page.figures(
            (_plot(name, mine, f"power_{power}", "performance"), f"{name}: {performance_word(name)}, r = {power}.")
            for power in POWERS
        )


def bias_and_variance(page: Page, rows: Sequence[Row]) -> None:
    """Table 6.2 and Figure 6.4, for the Nystrom and the Fourier map whose mean square errors are most alike."""
    table: list[list[Any]] = []
    for name, mine in _sets(rows):
        pair = alike(mine)
        if pair is None:
            continue
        for row in pair:
            kind = f"{row['map']}, D = {row['num_features']:,}"
            for kernel_values, prefix in (("k < 0.25", "small_"), ("k ≥ 0.25", "large_"), ("all", "")):
                numbers = [row[prefix + word] for word in ("mse", "bias", "variance", "outliers")]
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
    for name, mine in _sets(rows):
        for kind in (NYSTROM, RFF):
            figure, axes = new_axes(
                f"{name}: {kind}", "squared norm of z(x)", "share of rows", x_scale="linear", y_scale="linear"
            )
            chosen = [
                found[0] for _, found in sorted(by([r for r in mine if r["map"] == kind], "num_features").items())
            ]
            for style, row in enumerate(chosen):
                axes.stairs(
                    row["norm_histogram"],
                    NORM_EDGES.numpy(),
                    color=COLORS[style % len(COLORS)],
                    label=f"D = {row['num_features']:,}",
                )
            drawn.append((finish(figure, axes), f"{name}: squared norms by {kind}; the kernel's own are 1."))
    page.figures(drawn)


def effect_of_features(page: Page, rows: Sequence[Row]) -> None:
    drawn = []
    for name, mine in _sets(rows):
        figure, axes = new_axes(name, "features D", "heldout cross-entropy")
        for style, ((kernel,), found) in enumerate(by(mine, "kernel").items()):
            add_curve(axes, curve(found, "num_features", "loss"), label=kernel, style=style)
        drawn.append(
            (finish(figure, axes), f"{name}: heldout cross-entropy against D, Fourier features of three kernels.")
        )
    page.figures(drawn)
    groups = by(rows, "data", "kernel", "num_features").items()
    page.table(
        ["set", "kernel", "D", "heldout cross-entropy", "heldout error", "seeds"],
        [[*key, _median(found, "loss"), _median(found, "performance"), len(found)] for key, found in groups],
    )


def alike(rows: Sequence[Row]) -> tuple[Row, Row] | None:
    """The Nystrom and the Fourier row of a set whose mean square errors are most alike."""
    return matched([r for r in rows if r["map"] == NYSTROM], [r for r in rows if r["map"] == RFF], "mse")


_KINDS = {"small_": "k < 0.25", "large_": "k ≥ 0.25"}


def _sets(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    return [(name, found) for (name,), found in by(rows, "data").items()]


def _plot(name: str, rows: Sequence[Row], x: str, y: str) -> Any:
    word = performance_word(name) if y == "performance" else WORDS[y]
    figure, axes = new_axes(name, WORDS[x], word)
    for style, kind in enumerate(MAPS):
        add_curve(axes, curve([row for row in rows if row["map"] == kind], x, y), label=kind, style=style)
    return finish(figure, axes)


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
    for key, found in groups:
        values = [row[value] for row in found if value in row]
        body.append([*key, found[0]["memory"], _median(found, value), min(values), max(values), len(values)])
    page.table(columns, body)


def _median(rows: Sequence[Row], name: str) -> float:
    return curve([{**row, "num_features": 0} for row in rows], "num_features", name)[0].y
