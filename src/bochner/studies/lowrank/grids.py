"""Tables and figures as grids of entries, each the mean of some cells over seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import NamedTuple

from bochner.studies.ledger import Finished
from bochner.studies.lowrank.cells import Cell


class Entry(NamedTuple):
    """One number of ours, by the same cell with several seeds, and the thesis's."""

    cells: tuple[Cell, ...]
    measure: str = "spectral"
    published: float | None = None
    published_spread: float | None = None


class Found(NamedTuple):
    """Mean and standard deviation over the seeds that are done."""

    mean: float
    spread: float
    num_seeds: int


@dataclass(frozen=True)
class Table:
    """Rows of entries, as many as there are columns."""

    number: str
    title: str
    label: str  # of the first column
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[Entry, ...]]


class Curve(NamedTuple):
    """Entries against the measure `against` of the same cells."""

    label: str
    entries: tuple[Entry, ...]
    against: str


class Panel(NamedTuple):
    title: str
    curves: tuple[Curve, ...]


@dataclass(frozen=True)
class Figure:
    """Panels with the same axes."""

    number: str
    title: str
    x: str
    y: str
    panels: tuple[Panel, ...]
    x_scale: str = "log"
    y_scale: str = "log"


@dataclass(frozen=True)
class Row:
    """One entry of one table, measured."""

    table: str
    row: str
    column: str
    mean: float
    spread: float
    num_seeds: int
    published: float | None
    published_spread: float | None


def find(entry: Entry, ledger: Finished[Cell]) -> Found | None:
    """What is known of an entry so far; None while none of its cells is done."""
    return summary(entry.cells, entry.measure, ledger)


def summary(cells: Iterable[Cell], measure: str, ledger: Finished[Cell]) -> Found | None:
    results = [result for result in map(ledger.get, cells) if result is not None]
    values = [result[measure] for result in results]
    if not values:
        return None
    spread = pstdev(values) if all(map(math.isfinite, values)) else math.inf  # a condition number may be infinite
    return Found(fmean(values), spread, len(values))


def cells_of(entries: Iterable[Entry]) -> list[Cell]:
    """Every cell once, in order."""
    return list(dict.fromkeys(cell for entry in entries for cell in entry.cells))


def entries_of(tables: Sequence[Table], figures: Sequence[Figure]) -> list[Entry]:
    in_tables = [entry for table in tables for row in table.rows.values() for entry in row]
    curves = [curve for figure in figures for panel in figure.panels for curve in panel.curves]
    return in_tables + [entry for curve in curves for entry in curve.entries]


def rows_of(table: Table, ledger: Finished[Cell]) -> list[Row]:
    """Every entry of a table of which some cell is done."""
    rows = []
    for label, entries in table.rows.items():
        for column, entry in zip(table.columns, entries, strict=True):
            found = find(entry, ledger)
            if found is not None:
                rows.append(Row(table.number, label, column, *found, entry.published, entry.published_spread))
    return rows
