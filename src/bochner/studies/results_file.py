"""The results file of a study: one JSON line per measured cell, appended as soon as the cell is measured."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

logger = logging.getLogger(__name__)

Cell = TypeVar("Cell")
AnyCell = TypeVar("AnyCell", contravariant=True)
Result = dict[str, Any]


class Results(Protocol[AnyCell]):
    """Results by cell: a `ResultsFile` or a dictionary."""

    def get(self, cell: AnyCell, /) -> Result | None: ...


class ResultsFile(Generic[Cell]):
    """Results by cell, stored in an append-only file; lines of other files may be added.

    A cell is a frozen dataclass of plain values and of tuples of them. `NAME.runs.jsonl` next to `NAME.jsonl` records
    the provenance of each run that added lines.

    >>> import tempfile
    >>> from bochner.studies.adapted_bases import Cell
    >>> cell = Cell("mnist", "gaussian", "random", num_features=10, effort="smoke", seed=0)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     file = ResultsFile(Path(directory, "cells.jsonl"), Cell)
    ...     file.add(cell, {"accuracy": 0.5}, seconds=2.0, device="cpu")
    ...     ResultsFile(Path(directory, "cells.jsonl"), Cell).get(cell)
    {'accuracy': 0.5}
    """

    def __init__(self, path: Path, make: Callable[..., Cell]) -> None:
        self.path, self._runs_path = path, path.with_suffix(".runs.jsonl")
        self._results: dict[Cell, Result] = {}
        self._measured: dict[Cell, tuple[str, float]] = {}
        for line in read_lines(path):
            try:
                cell = make(**{name: _frozen(value) for name, value in line["cell"].items()})
                self._results[cell] = line["result"]
                if "seconds" in line:  # since 0.2
                    self._measured[cell] = line["device"], line["seconds"]
            except (TypeError, KeyError) as error:
                text = json.dumps(line)[:80]
                raise ValueError(f"{path} must contain measured cells; remove the line {text}: {error}") from error

    def get(self, cell: Cell) -> Result | None:
        return self._results.get(cell)

    def add(self, cell: Cell, result: Result, *, seconds: float | None = None, device: str = "cpu") -> None:
        """Store a result, with the seconds it took on a device, if known."""
        stored: Any = cell
        line: dict[str, Any] = {"cell": asdict(stored), "result": result}
        if seconds is not None:
            line |= {"seconds": round(seconds, 3), "device": device}
            self._measured[cell] = device, seconds
        append_line(self.path, line)
        self._results[cell] = result

    def durations(self, device: str) -> dict[Cell, float]:
        """The seconds of the cells that were measured on a kind of device, "cpu" or "cuda"."""
        measured = self._measured.items()
        return {cell: seconds for cell, (other, seconds) in measured if other.partition(":")[0] == device}

    def add_run(self, run: Mapping[str, Any]) -> None:
        append_line(self._runs_path, run)

    def runs(self) -> list[dict[str, Any]]:
        return read_lines(self._runs_path)


def read_lines(path: Path) -> list[Any]:
    """The values of a JSONL file, none if it does not exist.

    A killed process, a full disk or a power failure may leave an incomplete line. It is skipped with a warning, and its
    cell counts as not measured.
    """
    if not path.exists():
        return []
    values = []
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if _is_json(line):
            values.append(json.loads(line))
        elif line:
            logger.warning("%s, line %d is incomplete and is ignored; its cell is measured again.", path, number)
    return values


def append_line(path: Path, value: Mapping[str, Any]) -> None:
    """Append one value to a JSONL file, in place of an incomplete last line; on disk when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:  # writes are appended, whatever the position
        file.seek(max(0, file.seek(0, 2) - 1))
        if file.read(1) not in (b"", b"\n"):
            file.seek(0)
            content = file.read()
            last = content[content.rfind(b"\n") + 1 :]
            if _is_json(last):
                file.write(b"\n")
            else:
                file.truncate(len(content) - len(last))
        file.write(json.dumps(value).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _is_json(line: bytes) -> bool:
    """No proper prefix of a JSON object is valid JSON, so a truncated line is always detected."""
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _frozen(value: Any) -> Any:
    """JSON has no tuples."""
    return tuple(value) if isinstance(value, list) else value


class FailedCellsError(RuntimeError):
    """Some cells of a study could not be measured; the results of the others are stored.

    >>> print(FailedCellsError({"cell 7": "ValueError: too large"}, num_cells=9, path=Path("cells.jsonl")))
    1 of 9 cells failed, cell 7: ValueError: too large. The results of the others are in cells.jsonl; after the cause
    is fixed, the same command measures only the failed cells.
    """

    def __init__(self, errors: Mapping[object, str], *, num_cells: int, path: Path) -> None:
        cell, error = next(iter(errors.items()))
        first = "the first: " if len(errors) > 1 else ""
        super().__init__(
            f"{len(errors)} of {num_cells} cells failed, {first}{cell}: {error.rstrip('.')}. The results of the others "
            f"are in {path}; after the cause is fixed, the same command measures only the failed cells."
        )
