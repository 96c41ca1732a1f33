"""Cells that fail in known ways, in a module that worker processes can import."""

from __future__ import annotations

import errno
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Cell:
    """`fault` happens at the first attempt, or always; each attempt leaves a file in `directory`."""

    number: int
    fault: str
    directory: str


def attempts(cell: Cell) -> int:
    return len(list(Path(cell.directory).glob(f"{cell.number}-*")))


def measure(cell: Cell) -> dict[str, Any]:
    first = attempts(cell) == 0
    Path(cell.directory, f"{cell.number}-{attempts(cell)}").touch()
    if cell.fault == "always" or (cell.fault == "once" and first):
        raise ValueError(f"number {cell.number} is too large")
    if cell.fault == "full":
        raise OSError(errno.ENOSPC, "No space left on device")
    if cell.fault == "killed" and first:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"square": cell.number**2, "pid": os.getpid()}


def some_cells(directory: Path, *faults: str) -> list[Cell]:
    directory.mkdir()
    return [Cell(number, fault, str(directory)) for number, fault in enumerate(faults)]
