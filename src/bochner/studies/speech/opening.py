"""Measuring with the speech kept: each task is made once, when its first cell is measured."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from bochner.studies.ledger import Result
from bochner.studies.speech.cells import BestCell, Cell

if TYPE_CHECKING:
    from bochner.acoustic.contest import Contest
    from bochner.studies.study import Size, Where


def measuring(where: Where) -> Callable[[Cell], Result]:
    """A cell's model trained, measured and decoded on a task that lies among what is made."""
    opened = _opening(where)

    def measure_cell(cell: Cell) -> Result:
        from bochner.studies.speech.measuring import measure  # needs the extra

        return measure(cell, opened(cell.data, cell.effort))

    return measure_cell


def measuring_best(where: Where) -> Callable[[BestCell], Result]:
    """The same of the best model of a kind; models that are there are not trained again."""
    opened = _opening(where)

    def measure_cell(cell: BestCell) -> Result:
        from bochner.studies.speech.measuring import measure_best  # needs the extra

        return measure_best(cell, opened(cell.data, cell.effort))

    return measure_cell


def _opening(where: Where) -> Callable[[str, Size], Contest]:
    passing = TemporaryDirectory() if where.made is None else None  # lives as long as `opened`

    @cache
    def opened(data: str, effort: Size) -> Contest:
        from bochner.studies.speech.tasks import open_task  # needs the extra

        folder = Path(passing.name) if passing else where.made
        assert folder is not None
        return open_task(data, effort, folder, device=where.device)

    return opened
