"""`bochner study`: the papers' tables and figures. Modules are imported when a command runs."""

from __future__ import annotations

import logging
import shlex
import time
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bochner.cli.parser import options_of

if TYPE_CHECKING:
    from bochner.studies.study import SavedRows, Study

logger = logging.getLogger(__name__)
Size = Literal["smoke", "small", "paper"]


@dataclass(frozen=True)
class Measurement:
    """How cells are measured.

    Args:
        data_dir: Directory of the data files; cells whose file is missing are skipped.
        size: "smoke" takes seconds for a study, "small" minutes on two cores, "paper" the published sizes, for a GPU.
        output_dir: Directory of measured cells and rows; one process at a time may use it.
        seeds: Other seeds than those of the size.
        workers: Processes of this machine that measure cells at the same time; they share its cores.
        cluster: Address of a Dask scheduler, whose workers measure the cells; needs `bochner[cluster]`.
        retries: How often workers repeat a cell that fails; this process alone (1 worker) does not.
        device: Where cells are measured, such as "cpu" or "cuda"; "auto" is the GPU if there is one.
    """

    data_dir: Path = Path("data")
    size: Size = "small"
    output_dir: Path = Path("out/studies")
    seeds: list[int] | None = None
    workers: int = 1
    cluster: str | None = None
    retries: int = 2
    device: str = "auto"

    def run(self, study: Study, **options: Any) -> SavedRows:
        from bochner.studies.study import run_study
        from bochner.studies.workers import WorkerOptions

        workers = WorkerOptions(self.workers, self.cluster, self.retries)
        common: dict[str, Any] = {"size": self.size, "seeds": self.seeds, "device": self.device, "workers": workers}
        common["on_cost"] = lambda cost: print(f"{study.name}: {cost}.", flush=True)
        return run_study(study, self.data_dir, self.output_dir, options=options, **common)


def list_() -> None:
    """Print the name, the content and the source of every study.

    Example:

        bochner study list
    """
    from bochner.studies.registry import STUDIES

    for study in STUDIES:
        print(f"{study.name:<27} {study.title}\n{'':<27} {study.source}")


@options_of(Measurement)
def run(
    name: str,
    *,
    sets: list[str] | None = None,
    num_features: list[int] | None = None,
    parts: list[str] | None = None,
    effort: Size | None = None,
    protocols: list[str] | None = None,
    **options: Any,
) -> None:
    """Measure the cells of one study that are not measured yet, and save its rows with their provenance.

    Examples:

        bochner study run kernel-spectra --size smoke --seeds '[0, 1]'
        bochner study run lowrank-sampling --parts '[table 5.3]' --sets '[german]'
        bochner study run adapted-bases --size paper --effort small --num_features '[10, 30000]'
        bochner study run nystrom-rff-performance --workers 4

    The estimated time is printed first. The same command continues an interrupted run: measured cells are stored, and
    shared by the studies that show them. The rows are in OUTPUT_DIR/rows/SIZE/NAME.json.

    Args:
        name: One of `bochner study list`.
        sets: Only these data sets; lowrank-* and adapted-* also accept sets that the size does not have.
        num_features: Other numbers of features than those of the size, of adapted-* only.
        parts: Some of the tables and figures of a lowrank-* study, such as "table 5.3".
        effort: Training of another size, of adapted-* only.
        protocols: "modern" or "papers" alone, of speech-tasks only.
    """
    from bochner.studies.registry import study_named

    measurement = Measurement(**options)
    chosen = {"sets": sets, "num_features": num_features, "parts": parts, "effort": effort, "protocols": protocols}
    saved = measurement.run(study_named(name), **chosen)
    path = saved.path(measurement.output_dir, name, measurement.size)
    print(f"{len(saved.rows):,} of {saved.num_cells:,} cells: {path}")


@options_of(Measurement)
def all_(**options: Any) -> None:
    """Run every study and write the report.

    Examples:

        bochner study all --size smoke --data_dir data
        bochner study all --workers 4

    Size "smoke" takes a few minutes for all studies, "small" about three hours on two cores. The same command continues
    an interrupted run. A study that fails is an error, after the others have been run.
    """
    from bochner.cli.errors import USER_ERRORS
    from bochner.stages import locked
    from bochner.studies.registry import STUDIES

    measurement, failed = Measurement(**options), []
    with locked(measurement.output_dir):
        for study in STUDIES:
            start = time.perf_counter()
            try:
                saved = measurement.run(study)
                seconds = time.perf_counter() - start
                print(f"{study.name}: {len(saved.rows):,} of {saved.num_cells:,} cells, {seconds:.0f} s", flush=True)
            except USER_ERRORS as error:
                logger.error("%s failed: %s", study.name, error)
                failed.append(study.name)
        report(size=measurement.size, output_dir=measurement.output_dir)
    if failed:
        raise ValueError(
            f"{len(failed)} of {len(STUDIES)} studies failed: {', '.join(failed)}; after the causes above are fixed, "
            "the same command measures what is missing."
        )


def report(
    *,
    size: Size = "small",
    output_dir: Path = Path("out/studies"),
    page: Path | None = None,
    results: Path | None = None,
) -> None:
    """Write one HTML page with every finding, plot, command and protocol, and its overview in Markdown.

    Examples:

        bochner study report --size small
        bochner study report --size small --page report.html --results docs/findings.md

    Nothing is measured: the page shows the rows that `bochner study run` saved, and names what is missing.

    Args:
        size: Of the rows.
        output_dir: Directory of the rows.
        page: The HTML page. Default: OUTPUT_DIR/report_SIZE.html.
        results: The overview in Markdown: a new file, or one with the lines `<!-- bochner study report: begin -->` and
            `<!-- bochner study report: end -->`, between which it is written. Default: OUTPUT_DIR/findings_SIZE.md.
    """
    from bochner.studies.registry import FINDINGS, STUDIES
    from bochner.studies.report import make_page, read_all, results_part, write_results

    saved = read_all(STUDIES, output_dir, size)
    page, results = page or output_dir / f"report_{size}.html", results or output_dir / f"findings_{size}.md"
    make_page(STUDIES, FINDINGS, saved, size=size).write(page)
    write_results(results, results_part(FINDINGS, saved, size=size))
    print(f"Report: {page}   Overview: {results}")


def tables(
    name: Literal["lowrank", "adapted-bases"],
    *,
    size: Size = "small",
    output_dir: Path = Path("out/studies"),
    page: Path | None = None,
    sets: list[str] | None = None,
    parts: list[str] | None = None,
    effort: Size | None = None,
) -> None:
    """Write the tables of the lowrank-* or of the adapted-* studies as a Markdown page with figures.

    Examples:

        bochner study tables lowrank --size paper --page docs/findings.md
        bochner study tables adapted-bases --size paper --effort small --page docs/findings.md

    Nothing is measured: the page shows the cells that `bochner study run` stored. A page with the lines
    `<!-- bochner study tables NAME: begin -->` and `<!-- bochner study tables NAME: end -->` is changed between them.

    Args:
        name: The family of studies.
        size: Of the cells.
        output_dir: Directory of measured cells.
        page: The page, with its figures in assets/ next to it. Default: OUTPUT_DIR/NAME_tables_SIZE.md.
        sets: Other data sets than those of the size.
        parts: Some tables and figures, such as "table 5.10", of lowrank only.
        effort: Training of another size, of adapted-bases only.
    """
    from bochner.studies.registry import PAGES, study_named

    study, write_page = PAGES[name]
    page = page or output_dir / f"{name}_tables_{size}.md"
    command = ["bochner", "study", "tables", name, "--size", size, *(["--effort", effort] if effort else [])]
    options = {key: value for key, value in (("effort", effort), ("parts", parts)) if value is not None}
    for option in options.keys() - signature(write_page).parameters.keys():
        raise ValueError(f"{option} must be left out for {name}, got {options[option]!r}.")
    if parts is not None:
        command += ["--parts", f"[{', '.join(parts)}]"]
    results = study_named(study).results_file(output_dir)
    write_page(results, page, size=size, sets=sets, command=shlex.join([*command, "--page", str(page)]), **options)
    print(f"Page: {page}   Cells: {results.path}")


STUDY: dict[str, Any] = {
    "_help": "The papers' tables and figures on your data, and a report of which findings hold.",
    "list": list_,
    "run": run,
    "all": all_,
    "report": report,
    "tables": tables,
}
