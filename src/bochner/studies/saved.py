"""Rows on disk, with all that is needed to judge and to repeat them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bochner.storage import write_atomically
from bochner.studies.study import Row


@dataclass(frozen=True)
class Saved:
    """The rows of one study at one size; `missing` names files that were not there, `runs` who measured the cells."""

    study: str
    size: str
    command: str
    num_cells: int
    rows: Sequence[Row]
    missing: Sequence[str] = ()
    runs: Sequence[Mapping[str, Any]] = field(default_factory=tuple)

    def write(self, folder: Path) -> Path:
        path = place(folder, self.study, self.size)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, (json.dumps(asdict(self), indent=1) + "\n").encode())
        return path


def place(folder: Path, study: str, size: str) -> Path:
    return folder / "rows" / size / f"{study}.json"


def read_saved(folder: Path, study: str, size: str) -> Saved | None:
    """What `Saved.write` wrote; None where the study was not run at that size."""
    path = place(folder, study, size)
    return Saved(**json.loads(path.read_text())) if path.exists() else None
