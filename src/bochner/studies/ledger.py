"""Finished cells, kept in a file: what is measured once is never measured again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

Cell = TypeVar("Cell")
AnyCell = TypeVar("AnyCell", contravariant=True)
Result = dict[str, Any]


class Finished(Protocol[AnyCell]):
    """Results by cell: a ledger, or a dictionary."""

    def get(self, cell: AnyCell, /) -> Result | None: ...


class Ledger(Generic[Cell]):
    """A JSONL file with a line a cell, written as soon as the cell is finished; lines of other files may be appended.

    A cell is a frozen dataclass of plain values and of tuples of them.

    >>> import tempfile
    >>> from bochner.studies.adapted_bases.cells import Cell
    >>> cell = Cell("mnist", "gaussian", "random", num_features=10, effort="smoke", seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Ledger(Path(folder, "cells.jsonl"), Cell).add(cell, {"accuracy": 0.5})
    ...     Ledger(Path(folder, "cells.jsonl"), Cell).get(cell)
    {'accuracy': 0.5}
    """

    def __init__(self, path: Path, make: Callable[..., Cell]) -> None:
        self.path = path
        self._results: dict[Cell, Result] = dict(_lines(path, make)) if path.exists() else {}

    def get(self, cell: Cell) -> Result | None:
        return self._results.get(cell)

    def add(self, cell: Cell, result: Result) -> None:
        stored: Any = cell
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps({"cell": asdict(stored), "result": result}) + "\n")
        self._results[cell] = result


def _lines(path: Path, make: Callable[..., Cell]) -> Iterator[tuple[Cell, Result]]:
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        try:
            found = json.loads(line)
            yield make(**{name: _frozen(value) for name, value in found["cell"].items()}), found["result"]
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path}, line {number} must be a finished cell; remove that line: {error}") from error


def _frozen(value: Any) -> Any:
    """JSON has no tuples."""
    return tuple(value) if isinstance(value, list) else value
