"""The thesis's tables and figures among all other studies, and what it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from types import MappingProxyType
from typing import Any

from bochner.report import Page
from bochner.studies.drawing import add_curve, finish, new_axes
from bochner.studies.ledger import Result
from bochner.studies.lowrank.cells import Cell, measure
from bochner.studies.lowrank.grids import Figure, Panel, Table, cells_of, entries_of
from bochner.studies.lowrank.page import PROTOCOL, entry_text
from bochner.studies.lowrank.plots import points_of
from bochner.studies.lowrank.run import SIZES, plan
from bochner.studies.lowrank.sets import SETS
from bochner.studies.study import Row, Size, Study

BHARDWAJ = "Bhardwaj 2015"
OWN_SIZE = MappingProxyType({"smoke": "smoke", "small": "small", "paper": "thesis"})
FILES = {name: chosen.file for name, chosen in SETS.items()}
QUICK = ("5.8", "5.10", "5.11", "5.1 figure")  # what smoke has


def results_of(rows: Sequence[Row]) -> dict[Cell, Result]:
    """Rows as cells and their results again."""
    names = [field.name for field in fields(Cell)]
    return {Cell(**{name: row[name] for name in names}): dict(row) for row in rows}


def _parts(size: Size, numbers: Sequence[str]) -> tuple[list[Table], list[Figure]]:
    whole = plan(SIZES[OWN_SIZE[size]])
    wanted = [number for number in numbers if size != "smoke" or number in QUICK]
    figures = [figure for figure in whole.figures if f"{figure.number} figure" in wanted]
    return [table for table in whole.tables if table.number in wanted], figures


def _cells(numbers: Sequence[str], size: Size) -> list[Cell]:
    return cells_of(entries_of(*_parts(size, numbers)))


def _show(numbers: Sequence[str], page: Page, rows: Sequence[Row]) -> None:
    found = results_of(rows)
    tables, figures = _parts("paper", numbers)
    for table in tables:
        lines = {label: [entry_text(entry, found) for entry in entries] for label, entries in table.rows.items()}
        known = {label: texts for label, texts in lines.items() if any(text[0] != "-" for text in texts)}
        if known:
            page.subheading(f"Table {table.number}: {table.title}")
            page.table([table.label, *table.columns], [[label, *texts] for label, texts in known.items()])
    for figure in figures:
        page.figures(
            (_panel(figure, panel, found), f"Figure {figure.number}: {figure.title.lower()}, {panel.title}.")
            for panel in figure.panels
            if any(points_of(curve, found) for curve in panel.curves)
        )


def _panel(figure: Figure, panel: Panel, found: Mapping[Cell, Result]) -> Any:
    drawn, axes = new_axes(panel.title, figure.x, figure.y, x_scale=figure.x_scale, y_scale=figure.y_scale)
    for style, curve in enumerate(panel.curves):
        points = [(x, y, y - spread, y + spread) for x, y, spread in points_of(curve, found)]
        add_curve(axes, points, label=curve.label, style=style)
    return finish(drawn, axes)


def _study(name: str, title: str, *numbers: str) -> Study:
    source = ", ".join(f"Figure {number.split()[0]}" if "figure" in number else f"Table {number}" for number in numbers)
    return Study(
        name,
        title,
        f"{BHARDWAJ}, {source}",
        PROTOCOL,
        "lowrank",
        Cell,
        partial(_cells, numbers),
        lambda where: lambda cell: measure(cell, where.data_dir),
        partial(_show, numbers),
        FILES,
    )


STUDIES = (
    _study("lowrank-sampling", "ALS by eight ways to sample the matrix", "5.1", "5.2", "5.3", "5.4", "5.5"),
    _study("lowrank-starts", "ALS from four starts", "5.6", "5.7", "5.8"),
    _study("lowrank-spectral-error", "Low-rank methods at equal numbers of parameters", "5.10"),
    _study("lowrank-same-samples", "Low-rank methods from as many entries of K", "5.11"),
    _study("lowrank-seconds", "Run times of low-rank methods", "5.12"),
    _study("lowrank-ridge", "Ridge regression by a factor and by all of K", "5.13"),
    _study("stable-rank", "Stable rank by bandwidth", "5.1 figure"),
    _study("lowrank-error-curves", "Spectral error by parameters", "5.2 figure"),
    _study("lowrank-ridge-curves", "Ridge regression by parameters", "5.3 figure", "5.6 figure"),
    _study("lowrank-condition", "Condition numbers by rank", "5.4 figure", "5.5 figure"),
)
