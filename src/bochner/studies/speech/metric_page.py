"""Which heldout metric goes with the token error rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bochner.report import Cell, Page
from bochner.studies.drawing import COLORS, MARKERS, finish, new_axes
from bochner.studies.findings import by
from bochner.studies.speech.cells import NETWORK
from bochner.studies.speech.metrics import METRICS
from bochner.studies.speech.published import published_correlation
from bochner.studies.speech.rows import averaged, correlations
from bochner.studies.study import Row

FAMILIES = {
    "erll": ("entropy regularized log loss", "β", "linear"),
    "capped": ("capped log loss", "λ", "log"),
    "topk": ("top-k log loss", "share of rows ignored, 1 - k/N", "linear"),
}


def show_metrics(page: Page, rows: Sequence[Row]) -> None:
    """The three panels of Figure 2, the models they are of, and all correlations."""
    found = {data: correlations(mine) for (data,), mine in by(rows, "data").items()}
    drawn = [(_family(name, found), f"Correlation of the {FAMILIES[name][0]} with TER on dev.") for name in FAMILIES]
    scattered = [
        (_models(data, mine, metric, word), f"{data}: a point is a model of the ablations.")
        for (data,), mine in by(rows, "data").items()
        for metric, word in (("erll:0", "cross-entropy"), ("erll:1", "ERLL, β = 1"))
    ]
    page.figures(drawn + scattered)
    lines: list[list[Cell]] = [
        [metric, *(cell for data in found for cell in (found[data][metric], published_correlation(data, metric)))]
        for metric in METRICS
    ]
    page.table(["metric", *(name for data in found for name in (data, "papers, other speech"))], lines)
    page.note("erll:0, capped:0 and topk:1 are all the cross-entropy.")


def _family(name: str, found: dict[str, dict[str, float | None]]) -> Any:
    title, x, scale = FAMILIES[name]
    figure, axes = new_axes(title, x, "correlation with TER", x_scale=scale, y_scale="linear")
    for style, (data, values) in enumerate(found.items()):
        points = [
            (_place(metric), value) for metric, value in values.items()
            if metric.startswith(name) and value is not None and (_place(metric) > 0 or scale != "log")
        ]  # fmt: skip
        if points:
            axes.plot(*zip(*points, strict=True), color=COLORS[style], marker=MARKERS[style], markersize=4, label=data)
    return finish(figure, axes)


def _place(metric: str) -> float:
    """Where it stands on its axis.

    >>> _place("erll:2"), round(_place("topk:0.9"), 3)
    (2.0, 0.1)
    """
    name, _, value = metric.partition(":")
    return 1 - float(value) if name == "topk" else float(value)


def _models(data: str, rows: Sequence[Row], metric: str, word: str) -> Any:
    figure, axes = new_axes(data, word, "TER dev %", x_scale="linear", y_scale="linear")
    for style, ((model,), mine) in enumerate(by(averaged(rows), "model").items()):
        axes.plot(
            [row["metrics"][metric] for row in mine], [100 * row["ter"] for row in mine], linestyle="none",
            color=COLORS[style], marker=MARKERS[style], markersize=4, label="networks" if model == NETWORK else model,
        )  # fmt: skip
    return finish(figure, axes)
