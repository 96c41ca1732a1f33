"""A study from its cells to its rows on disk."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bochner.search.plan import resolve_device
from bochner.studies.ledger import Ledger
from bochner.studies.measuring import measure_cells
from bochner.studies.provenance import provenance
from bochner.studies.saved import Saved
from bochner.studies.study import Size, Study, Where, with_seeds
from bochner.studies.workers import measure_by
from bochner.studies.workers_sweep import Sweep


def run_study(
    study: Study,
    data_dir: Path,
    folder: Path,
    *,
    size: Size,
    seeds: Sequence[int] | None = None,
    progress: bool | None = None,
    sweep: Sweep | None = None,
    device: str = "cpu",
) -> Saved:
    """Measure what `folder` does not hold yet, and save the rows of all that it holds.

    Cells whose file is not in `data_dir` are left out, which is told and saved. Cells that fail are told, the others
    are saved all the same, and then it is an error. `sweep` says who measures; None is this process, cell by cell.
    `device` "auto" is the GPU where there is one.
    """
    cells = with_seeds(study.cells(size), seeds)
    finished = Ledger(folder / "cells" / f"{study.ledger}.jsonl", study.cell)
    missing = sorted({name for cell in cells if (name := study.file_of(cell)) and not (data_dir / name).exists()})
    for name in missing:
        print(f"{study.name}: {data_dir / name} is not there; its cells are left out.", file=sys.stderr)
    there = [cell for cell in cells if study.file_of(cell) not in missing]
    try:
        where = Where(data_dir, str(resolve_device(device)), folder / "made")
        _measure(study, where, there, finished, progress, sweep or Sweep())
    finally:
        command = shlex.join(["bochner", "study", "run", study.name, "--size", size])
        saved = Saved(
            study.name, size, command, len(cells), study.rows(cells, finished), missing, _read_runs(finished.path)
        )
        saved.write(folder)
    return saved


def _measure(
    study: Study, where: Where, cells: Sequence[Any], finished: Ledger[Any], progress: bool | None, sweep: Sweep
) -> None:
    left = [cell for cell in cells if finished.get(cell) is None]
    if not left:
        return
    crew = sweep.crew(study.name, where)
    # noted before they are measured: cells of a run that is killed have an origin, too
    about = provenance(where.data_dir, {name for cell in left if (name := study.file_of(cell))})
    run = {"study": study.name, "cells": len(left), "device": where.device, **about, **sweep.about()}
    _add_run(finished.path, run)
    if crew is None:
        measure_cells(left, study.measuring(where), finished, describe=_label(study), progress=progress)
    else:
        with crew:
            measure_by(crew, left, finished, retries=sweep.retries, describe=_label(study), progress=progress)


def _label(study: Study) -> Any:
    return lambda cell: f"{study.name}: {getattr(cell, 'data', '')}"


def _runs(ledger: Path) -> Path:
    return ledger.with_suffix(".runs.jsonl")


def _add_run(ledger: Path, run: dict[str, Any]) -> None:
    path = _runs(ledger)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(run) + "\n")


def _read_runs(ledger: Path) -> list[dict[str, Any]]:
    path = _runs(ledger)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
