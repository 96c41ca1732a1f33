"""Studies: their definition, how they are run, and the rows they save."""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from bochner import checks
from bochner.report import Page
from bochner.search.plan import resolve_device
from bochner.stages import locked, write_json
from bochner.studies.costs import Cost, Operations, estimate
from bochner.studies.provenance import provenance
from bochner.studies.results_file import Results, ResultsFile
from bochner.studies.workers import Context, Measure, WorkerOptions, measure_by, measure_cells, measure_here

logger = logging.getLogger(__name__)

Size = Literal["smoke", "small", "paper"]
Row = dict[str, Any]


@dataclass(frozen=True)
class Study:
    """One table or figure.

    Parameters
    ----------
    results : str
        The name of the results file; studies with the same one share measured cells.
    cell : dataclass
        The type of the cells. A row is the fields of a cell together with its result.
    cells : function of a size and of `options`
        The cells that are measured, each a frozen dataclass.
    prepare : function of a `Context`
        Returns the function that measures a cell; data are usually read here.
    show : function of a page and rows
        Adds the plots and tables of the study to the page.
    files : mapping
        The data file of a cell by its field `data`, for sets stored in a file.
    options : tuple of str
        Keyword arguments that `cells` accepts besides the size.
    repeats : tuple of str
        The fields in which repetitions of a measurement differ; intervals are over rows that differ only in them.
    operations : function of a cell, optional
        The floating-point operations of a cell, roughly, from which the time of a run is estimated before it starts.
    """

    name: str
    title: str
    source: str
    protocol: str
    results: str
    cell: Callable[..., Any]
    cells: Callable[..., Sequence[Any]]
    prepare: Callable[[Context], Measure]
    show: Callable[[Page, Sequence[Row]], object]
    files: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    repeats: tuple[str, ...] = ("seed",)
    operations: Operations | None = None

    def file_of(self, cell: Any) -> str | None:
        return self.files.get(getattr(cell, "data", ""))

    def rows(self, cells: Iterable[Any], results: Results[Any]) -> list[Row]:
        """The rows of the measured cells."""
        return [{**asdict(cell), **result} for cell in cells if (result := results.get(cell)) is not None]

    def results_file(self, output_dir: Path) -> ResultsFile[Any]:
        return ResultsFile(output_dir / "cells" / f"{self.results}.jsonl", self.cell)

    def select(self, size: Size, *, seeds: Sequence[int] | None = None, **options: Any) -> list[Any]:
        """The cells of a size, for other seeds or with options of the study; None is the size's own value.

        Every study whose cells have a field `data` accepts `sets`, which keeps the cells of those data sets.
        """
        chosen = {name: value for name, value in options.items() if value is not None}
        sets = chosen.pop("sets", None) if "sets" not in self.options else None
        for name in chosen:
            if name not in self.options:
                raise ValueError(f"{name} must be omitted for study {self.name!r}, whose cells do not depend on it.")
        cells = with_seeds(self.cells(size, **chosen), seeds)
        if sets is not None:
            for name in sets:
                checks.one_of("sets", name, dict.fromkeys(getattr(cell, "data", None) for cell in cells))
            cells = [cell for cell in cells if cell.data in sets]
        return cells


def with_seeds(cells: Sequence[Any], seeds: Sequence[int] | None) -> list[Any]:
    """The same cells for other seeds: each cell once per seed, or once with all of them if it holds several.

    >>> from bochner.studies.lowrank_cells import Cell
    >>> [cell.seed for cell in with_seeds([Cell("optimum", "german", 1.0, seed=7)], [0, 1])]
    [0, 1]
    >>> from bochner.studies.speech_cells import BestCell
    >>> [cell.seeds for cell in with_seeds([BestCell("synthetic timit-like", "kernel", "small", (7,))], [0, 1])]
    [(0, 1)]
    """
    if seeds is None:
        return list(dict.fromkeys(cells))
    seeded: list[Any] = []
    for cell in cells:
        if hasattr(cell, "seeds"):
            seeded.append(replace(cell, seeds=tuple(seeds)))
        else:
            seeded += [replace(cell, seed=seed) for seed in seeds]
    return list(dict.fromkeys(seeded))


@dataclass(frozen=True)
class SavedRows:
    """The rows of one study at one size; `missing` names absent data files, `runs` the runs that measured cells."""

    study: str
    size: str
    command: str
    num_cells: int
    rows: Sequence[Row]
    missing: Sequence[str] = ()
    runs: Sequence[Mapping[str, Any]] = field(default_factory=tuple)

    @staticmethod
    def path(output_dir: Path, study: str, size: str) -> Path:
        return output_dir / "rows" / size / f"{study}.json"

    @classmethod
    def read(cls, output_dir: Path, study: str, size: str) -> SavedRows | None:
        """The rows saved by a run; None if the study was not run at that size."""
        path = cls.path(output_dir, study, size)
        return cls(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def run_study(
    study: Study,
    data_dir: Path,
    output_dir: Path,
    *,
    size: Size,
    seeds: Sequence[int] | None = None,
    options: Mapping[str, Any] | None = None,
    verbose: bool | None = None,
    workers: WorkerOptions | None = None,
    device: str = "cpu",
    on_cost: Callable[[Cost], object] | None = None,
) -> SavedRows:
    """Measure the cells that `output_dir` does not contain yet, and save the rows of all cells in it.

    Cells whose file is not in `data_dir` are skipped, which is logged and saved. If cells fail, this is logged, the
    others are measured and saved, and an error is raised at the end. `output_dir` is locked during the run. `device`
    "auto" is the GPU if there is one. `on_cost` is called with the estimated cost before anything is measured.
    """
    options = {name: value for name, value in (options or {}).items() if value is not None}
    cells = study.select(size, seeds=seeds, **options)
    missing = sorted({name for cell in cells if (name := study.file_of(cell)) and not (data_dir / name).exists()})
    context = Context(data_dir, str(resolve_device(device)), output_dir / "cache")
    with locked(output_dir):
        results = study.results_file(output_dir)
        for name in missing:
            logger.warning("%s: %s does not exist; its cells are skipped.", study.name, data_dir / name)
        try:
            present = [cell for cell in cells if study.file_of(cell) not in missing]
            if on_cost is not None:
                on_cost(estimate(present, results, study.operations, device=context.device))
            _measure(study, context, present, results, verbose, workers or WorkerOptions())
        finally:
            command = _command(study.name, size, {"seeds": seeds, **options})
            rows = study.rows(cells, results)
            saved = SavedRows(study.name, size, command, len(cells), rows, missing, results.runs())
            write_json(SavedRows.path(output_dir, study.name, size), asdict(saved))
    return saved


def _measure(
    study: Study,
    context: Context,
    cells: Sequence[Any],
    results: ResultsFile[Any],
    verbose: bool | None,
    workers: WorkerOptions,
) -> None:
    cells = [cell for cell in cells if results.get(cell) is None]
    if not cells:
        return
    pool = workers.pool(study.name, context)
    # Recorded before the cells are measured, so that cells of a killed run have a provenance, too.
    origin = provenance(context.data_dir, {name for cell in cells if (name := study.file_of(cell))})
    run = {"study": study.name, "cells": len(cells), "device": context.device, **origin, **workers.provenance()}
    results.add_run(run)

    def describe(cell: Any) -> str:
        return f"{study.name}: {getattr(cell, 'data', '')}"

    shown: dict[str, Any] = {"describe": describe, "verbose": verbose, "device": context.device}
    if pool is None:
        measure_cells(cells, partial(measure_here, measure=study.prepare(context)), results, **shown)
    else:
        with pool:
            measure_cells(cells, partial(measure_by, pool, retries=workers.retries), results, **shown)


def _command(name: str, size: str, options: Mapping[str, Any]) -> str:
    words = ["bochner", "study", "run", name, "--size", size]
    for option, value in options.items():
        if value is not None:
            words += [f"--{option}", value if isinstance(value, str) else json.dumps(list(value))]
    return shlex.join(words)
