"""Finished cells, kept in a file: what is measured once is never measured again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from bochner.studies.lowrank.cells import Cell, Result


class Ledger:
    """A JSONL file with a line a cell, written as soon as the cell is finished; lines of other files may be appended.

    >>> import tempfile
    >>> cell = Cell("stable rank", "german", bandwidth=1.0, seed=100)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Ledger(Path(folder, "cells.jsonl")).add(cell, {"stable_rank": 2.5})
    ...     Ledger(Path(folder, "cells.jsonl")).get(cell)
    {'stable_rank': 2.5}
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._results = dict(_lines(path)) if path.exists() else {}

    def get(self, cell: Cell) -> Result | None:
        return self._results.get(cell)

    def add(self, cell: Cell, result: Result) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps({"cell": asdict(cell), "result": result}) + "\n")
        self._results[cell] = result


def _lines(path: Path) -> Iterator[tuple[Cell, Result]]:
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        try:
            found = json.loads(line)
            yield Cell(**found["cell"]), found["result"]
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path}, line {number} must be a finished cell; remove that line: {error}") from error
