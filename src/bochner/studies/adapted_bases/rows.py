"""Finished cells as means over trials."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, pstdev

from bochner.studies.adapted_bases.cells import Cell
from bochner.studies.ledger import Finished


@dataclass(frozen=True)
class Row:
    """One point of a figure: means over the trials that are finished, and their standard deviation."""

    cell: Cell  # of the first trial
    trials: int
    mean: dict[str, float]
    spread: dict[str, float]


def rows_of(cells: Iterable[Cell], ledger: Finished[Cell]) -> list[Row]:
    """One row for all trials of a cell, where there are any."""
    groups: dict[Cell, list[dict[str, float]]] = {}
    for cell in cells:
        if (result := ledger.get(cell)) is not None:
            groups.setdefault(replace(cell, seed=0), []).append(result)
    return [_row(cell, results) for cell, results in groups.items()]


def _row(cell: Cell, results: Sequence[dict[str, float]]) -> Row:
    values = {name: [result[name] for result in results] for name in results[0]}
    mean = {name: fmean(found) for name, found in values.items()}
    return Row(cell, len(results), mean, {name: pstdev(found) for name, found in values.items()})


def best_of(rows: Iterable[Row]) -> Row | None:
    """The row of best heldout accuracy: the test part chooses nothing."""
    return max(rows, key=lambda row: row.mean["heldout_accuracy"], default=None)
