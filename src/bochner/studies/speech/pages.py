"""The papers' tables, with their own numbers in parentheses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bochner.report import Cell, Page, format_number
from bochner.studies.drawing import add_curve, finish, new_axes
from bochner.studies.findings import by
from bochner.studies.speech.metrics import HELDOUT
from bochner.studies.speech.published import (
    ORIGINALS,
    WIDTHS,
    published_best,
    published_kernel,
    published_network,
    table,
    tricks_of,
)
from bochner.studies.speech.rows import averaged
from bochner.studies.study import Row

COLUMNS = {"ce": "CE", "ent": "ENT", "erll": "ERLL", "err": "ERR", "ter": "TER dev %", "test_ter": "TER test %"}
ABLATED = [COLUMNS[name] for name in (*HELDOUT, "ter")]
Published = Callable[[Row, str], float | None]


def show_kernels(page: Page, rows: Sequence[Row]) -> None:
    lines: list[list[Cell]] = [
        [*_kind(row), tricks_of(row), row["num_features"], *_beside(row, (*HELDOUT, "ter"), published_kernel)]
        for row in averaged(rows)
    ]
    page.table(["set", "kernel", "selection", "tricks", "D", *ABLATED], lines)
    page.note(_whose(rows) + " Theirs have 100,000 features, 200,000 on TIMIT.")


def show_networks(page: Page, rows: Sequence[Row]) -> None:
    widths = sorted({row["width"] for row in rows})

    def theirs(row: Row, metric: str) -> float | None:
        return published_network(row, metric, widths)

    lines: list[list[Cell]] = [
        [row["data"], f"{row['depth']} x {row['width']}", tricks_of(row), *_beside(row, (*HELDOUT, "ter"), theirs)]
        for row in averaged(rows)
    ]
    page.table(["set", "layers x units", "tricks", *ABLATED], lines)
    pairs = ", ".join(f"{theirs} beside {ours}" for ours, theirs in zip(widths, WIDTHS, strict=False))
    page.note(f"{_whose(rows)} Their networks have four layers of {pairs} units.")


def show_best(page: Page, rows: Sequence[Row]) -> None:
    """Table 7: a line a metric, the network beside the kernel."""
    for (data,), mine in by(rows, "data").items():
        kinds = {row["kind"]: row for row in mine}
        lines: list[list[Cell]] = [
            [name, *(_pair(kinds[kind], metric, published_best(data, kind, metric)) for kind in kinds)]
            for metric, name in COLUMNS.items()
        ]
        page.table([data, *(f"best {kind}" for kind in kinds)], lines)
        chosen = "; ".join(f"{kind}: {row['model']}, of {row['models']}" for kind, row in kinds.items())
        page.note(f"Chosen on dev, and the only ones that read test ({mine[0]['tokens']:,.0f} tokens): {chosen}.")
    page.note(_whose(rows))


def show_features(page: Page, rows: Sequence[Row]) -> None:
    models = averaged(rows)
    page.figures(
        [
            (_curves(data, mine, metric), f"{data}: {COLUMNS[metric]} against the number of features.")
            for (data,), mine in by(models, "data").items()
            for metric in ("ce", "ter")
        ]
    )
    page.table(
        ["set", "kernel", "selection", "D", "CE", "TER dev %"],
        [[*_kind(row), row["num_features"], row["ce"],
          100 * row["ter"]] for row in models],
    )  # fmt: skip
    page.note("Beside it, from the papers, TER dev % on Broadcast News, which is not here:")
    page.table(
        ["kernel", "selection", "D", "TER dev %"],
        [
            [line["kernel"], line["feature_selection"], int(line["num_features"]), float(line["ter_dev"])]
            for line in table("features")
        ],
    )


def show_depth(page: Page, rows: Sequence[Row]) -> None:
    """Table 3: a line a depth, a column a width."""
    for (data,), mine in by(averaged(rows), "data").items():
        widths = sorted({row["width"] for row in mine})
        errors = {(row["depth"], row["width"]): 100 * row["ter"] for row in mine}
        lines: list[list[Cell]] = [
            [depth, *(errors.get((depth, width)) for width in widths)] for depth in sorted({d for d, _ in errors})
        ]
        page.table([f"{data}: layers", *(f"{width} units: TER dev %" for width in widths)], lines)
    page.note("Beside it, from the papers, TER dev % on Broadcast News, which is not here:")
    page.table(
        ["layers", *(f"{width} units" for width in WIDTHS)],
        [[int(line["hidden_layers"]), *(float(line[width]) for width in WIDTHS)] for line in table("depth")],
    )


def _beside(row: Row, metrics: Sequence[str], theirs: Published) -> list[Cell]:
    return [_pair(row, metric, theirs(row, metric)) for metric in metrics]


def _pair(row: Row, metric: str, theirs: float | None) -> str:
    ours = 100 * row[metric] if metric.endswith("ter") else row[metric]
    return format_number(ours) + ("" if theirs is None else f" ({theirs:g})")


def _whose(rows: Sequence[Row]) -> str:
    """What the parentheses hold: another corpus's numbers, not those of the stand-in."""
    originals = ", ".join(f"{ORIGINALS[data]} beside {data}" for (data,) in by(rows, "data"))
    return f"In parentheses the papers' numbers, of other speech: {originals}. Levels cannot be compared, only order."


def _curves(data: str, rows: Sequence[Row], metric: str) -> Any:
    figure, axes = new_axes(data, "features D", COLUMNS[metric], y_scale="linear")
    for style, ((kernel, selects), mine) in enumerate(by(rows, "model", "selection").items()):
        scale = 100 if metric == "ter" else 1
        points = [(row["num_features"], scale * row[metric]) for row in mine]
        label = f"{kernel}, selected" if selects else kernel
        add_curve(axes, [(x, y, y, y) for x, y in points], label=label, style=style)
    return finish(figure, axes)


def _kind(row: Row) -> list[Cell]:
    return [row["data"], row["model"], "yes" if row["selection"] else "no"]
