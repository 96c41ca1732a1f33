"""Cells measured by several processes, here or on a cluster; this process alone writes down what is finished."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from functools import lru_cache
from types import TracebackType
from typing import Any, Protocol, TypeVar

from tqdm import tqdm

from bochner import __version__
from bochner.studies.failures import FailedCellsError, told
from bochner.studies.ledger import Ledger, Result
from bochner.studies.study import Measure, Where

Cell = TypeVar("Cell")


class Crew(Protocol):
    """Whoever measures cells. A future fails when its cell does, and when the process that has it dies."""

    def submit(self, cell: Any) -> Future[Result]: ...

    def __enter__(self) -> Crew: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@dataclass(frozen=True)
class NamedMeasure:
    """A registered study's measuring of a cell, as data: what travels is a name and a place, never code.

    Other processes may have other versions of this package; they refuse.

    >>> from pathlib import Path
    >>> from bochner.studies.map_error_cells import Cell
    >>> sorted(NamedMeasure("map-error", Where(Path("data")))(Cell("orthogonal", num_features=64, seed=0)))
    ['error', 'family', 'kernel']
    """

    study: str
    where: Where
    version: str = field(default=__version__)

    def __call__(self, cell: Any) -> Result:
        if self.version != __version__:
            raise RuntimeError(f"bochner {self.version} asks a worker that has {__version__}; install the same.")
        return _opened(self.study, self.where)(cell)


@lru_cache(maxsize=1)
def _opened(study: str, where: Where) -> Measure:
    """Kept between cells: many studies read their data here."""
    from bochner.studies.registry import study_named  # every study: only where cells are measured

    return study_named(study).measuring(where)


def measure_by(
    crew: Crew,
    cells: Sequence[Cell],
    ledger: Ledger[Cell],
    *,
    retries: int,
    describe: Callable[[Cell], str] = str,
    progress: bool | None = None,
) -> int:
    """Let `crew` measure the cells that `ledger` does not have; how many those were.

    A cell that fails is told at once and tried up to `retries` times more, the others go on; at the end it is an error.
    """
    left = [cell for cell in dict.fromkeys(cells) if ledger.get(cell) is None]
    running = {crew.submit(cell): (cell, 1) for cell in left}
    failed: dict[object, str] = {}
    with tqdm(total=len(left), unit="cell", disable=None if progress is None else not progress) as bar:
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                cell, attempt = running.pop(future)
                error = future.exception()
                again = error is not None and attempt <= retries
                if error is None:
                    ledger.add(cell, future.result())
                    bar.set_description(describe(cell))
                else:
                    _tell(cell, error, attempt, again=again)
                if again:
                    running[crew.submit(cell)] = cell, attempt + 1
                    continue
                if error is not None:
                    failed[cell] = told(error)
                bar.update()
    if failed:
        raise FailedCellsError(failed, num_cells=len(left), ledger=ledger.path)
    return len(left)


def _tell(cell: object, error: BaseException, attempt: int, *, again: bool) -> None:
    tqdm.write(f"{cell} failed, attempt {attempt}{', tried again' if again else ''}: {error}", file=sys.stderr)
