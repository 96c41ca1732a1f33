"""Cells measured one after the other, each kept as soon as it is done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from tqdm import tqdm

from bochner.studies.failures import FailedCellsError, told
from bochner.studies.ledger import Ledger, Result

Cell = TypeVar("Cell")


def measure_cells(
    cells: Sequence[Cell],
    measure: Callable[[Cell], Result],
    ledger: Ledger[Cell],
    *,
    describe: Callable[[Cell], str] = str,
    progress: bool | None = None,
) -> int:
    """Measure the cells that `ledger` does not have; how many those were.

    A cell that fails is told at once and the others go on; at the end it is an error. `progress` None shows a bar on a
    terminal only.
    """
    left = [cell for cell in dict.fromkeys(cells) if ledger.get(cell) is None]
    failed: dict[object, str] = {}
    for cell in (bar := tqdm(left, unit="cell", disable=None if progress is None else not progress)):
        bar.set_description(describe(cell))
        try:
            ledger.add(cell, measure(cell))
        except Exception as error:  # whatever it is, the others go on
            failed[cell] = told(error)
            tqdm.write(f"{cell} failed: {failed[cell]}", file=sys.stderr)
    if failed:
        raise FailedCellsError(failed, num_cells=len(left), ledger=ledger.path)
    return len(left)
