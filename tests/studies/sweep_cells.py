"""Cells that go wrong in known ways, in a module that worker processes can import."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Cell:
    """`fault` is what happens the first time, or always; `folder` is where attempts leave a file each."""

    number: int
    fault: str
    folder: str


def attempts(cell: Cell) -> int:
    return len(list(Path(cell.folder).glob(f"{cell.number}-*")))


def measure(cell: Cell) -> dict[str, Any]:
    first = attempts(cell) == 0
    Path(cell.folder, f"{cell.number}-{attempts(cell)}").touch()
    if cell.fault == "always" or (cell.fault == "once" and first):
        raise ValueError(f"number {cell.number} is too large")
    if cell.fault == "killed" and first:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"square": cell.number**2, "pid": os.getpid()}


def some_cells(folder: Path, *faults: str) -> list[Cell]:
    folder.mkdir()
    return [Cell(number, fault, str(folder)) for number, fault in enumerate(faults)]
