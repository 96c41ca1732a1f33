"""The study: which cells it has, and running them one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from bochner import checks
from bochner.studies.ledger import Ledger
from bochner.studies.lowrank.cells import Cell, measure
from bochner.studies.lowrank.figures import figures
from bochner.studies.lowrank.grids import Figure, Row, Table, cells_of, entries_of, rows_of
from bochner.studies.lowrank.sets import SETS
from bochner.studies.lowrank.tables import MANY_POINTS, tables
from bochner.studies.measuring import measure_cells


@dataclass(frozen=True)
class Size:
    """Which sets, over which seeds; 0 and 1 tuned the defaults of `fit_als` and are not among them."""

    sets: tuple[str, ...]
    seeds: tuple[int, ...]
    figure_seeds: tuple[int, ...]


SIZES: Mapping[str, Size] = MappingProxyType(
    {
        "smoke": Size(("german",), (100,), (100,)),
        "small": Size(
            tuple(name for name, found in SETS.items() if found.num_points <= MANY_POINTS), (100, 101), (100,)
        ),
        "thesis": Size(tuple(SETS), tuple(range(100, 110)), (100, 101, 102)),
    }
)


@dataclass(frozen=True)
class Study:
    """Tables and figures to be filled."""

    tables: tuple[Table, ...]
    figures: tuple[Figure, ...]

    def cells(self) -> list[Cell]:
        return cells_of(entries_of(self.tables, self.figures))

    def rows(self, ledger: Ledger[Cell]) -> list[Row]:
        return [row for table in self.tables for row in rows_of(table, ledger)]


def plan(size: Size, *, parts: Sequence[str] | None = None) -> Study:
    """All of the study, or some parts of it, such as "table 5.10" and "figure 5.2".

    >>> study = plan(SIZES["smoke"], parts=["table 5.10"])
    >>> len(study.cells()), study.cells()[0].method
    (9, 'standard nystrom')
    """
    for name in size.sets:
        checks.one_of("sets", name, SETS)
    in_tables = {f"table {table.number}": table for table in tables(size.sets, size.seeds)}
    in_figures = {f"figure {figure.number}": figure for figure in figures(size.sets, size.figure_seeds)}
    for part in parts or ():
        checks.one_of("parts", part, [*in_tables, *in_figures])
    return Study(
        tuple(table for name, table in in_tables.items() if parts is None or name in parts),
        tuple(figure for name, figure in in_figures.items() if parts is None or name in parts),
    )


def run(study: Study, data_dir: Path, ledger: Ledger[Cell], *, progress: bool = True) -> list[Row]:
    """Measure the cells that `ledger` does not have, and keep each as soon as it is done; then the rows of the tables.

    A cell that fails is told at once and the others go on; at the end it is an error.
    """

    def describe(cell: Cell) -> str:
        return f"{cell.data}, {cell.method or cell.kind}, rank {cell.rank}"

    measure_cells(study.cells(), lambda cell: measure(cell, data_dir), ledger, describe=describe, progress=progress)
    return study.rows(ledger)
