"""`bochner study`: the papers' tables and figures. What they need is imported when they run."""

from __future__ import annotations

import logging
import shlex
import time
from pathlib import Path
from typing import Any, Literal

logger = logging.getLogger(__name__)
Size = Literal["smoke", "small", "paper"]


def list_() -> None:
    """Print the name, the content and the source of every study.

    Example:

        bochner study list
    """
    from bochner.studies.registry import STUDIES

    for study in STUDIES:
        print(f"{study.name:<27} {study.title}\n{'':<27} {study.source}")


def run(
    name: str,
    *,
    data_dir: Path = Path("data"),
    size: Size = "small",
    output_dir: Path = Path("out/studies"),
    seeds: list[int] | None = None,
    sets: list[str] | None = None,
    num_features: list[int] | None = None,
    parts: list[str] | None = None,
    effort: Size | None = None,
    workers: int = 1,
    cluster: str | None = None,
    retries: int = 2,
    device: str = "auto",
) -> None:
    """Measure the cells of one study that are not measured yet, and save its rows with their provenance.

    Examples:

        bochner study run kernel-spectra --size smoke --seeds '[0, 1]'
        bochner study run lowrank-sampling --parts '[table 5.3]' --sets '[german]'
        bochner study run adapted-bases --size paper --effort small --num_features '[10, 30000]'
        bochner study run nystrom-rff-performance --workers 4

    The same command continues an interrupted run: measured cells are stored, and shared by the studies that show them.
    The rows are in OUTPUT_DIR/rows/SIZE/NAME.json. Cells whose data file is missing are skipped.

    Args:
        name: One of `bochner study list`.
        data_dir: Directory of the data files.
        size: "smoke" takes seconds, "small" minutes on two cores, "paper" the published sizes, for a GPU.
        output_dir: Directory of measured cells and rows; one process at a time may use it.
        seeds: Other seeds than those of the size.
        sets: Only these data sets; lowrank-* and adapted-* also accept sets that the size does not have.
        num_features: Other numbers of features than those of the size, of adapted-* only.
        parts: Some of the tables and figures of a lowrank-* study, such as "table 5.3".
        effort: Training of another size, of adapted-* only.
        workers: Processes of this machine that measure cells at the same time; they share its cores.
        cluster: Address of a Dask scheduler, whose workers measure the cells; needs `bochner[cluster]`.
        retries: How often workers repeat a cell that fails; this process alone (1 worker) does not.
        device: Where cells are measured, such as "cpu" or "cuda"; "auto" is the GPU if there is one.
    """
    from bochner.studies.registry import study_named
    from bochner.studies.study import SavedRows, run_study
    from bochner.studies.workers import WorkerOptions

    saved = run_study(
        study_named(name), data_dir, output_dir, size=size, seeds=seeds, device=device,
        options={"sets": sets, "num_features": num_features, "parts": parts, "effort": effort},
        workers=WorkerOptions(workers, cluster, retries),
    )  # fmt: skip
    print(f"{len(saved.rows):,} of {saved.num_cells:,} cells: {SavedRows.path(output_dir, name, size)}")


def all_(
    *,
    data_dir: Path = Path("data"),
    size: Size = "small",
    output_dir: Path = Path("out/studies"),
    seeds: list[int] | None = None,
    workers: int = 1,
    cluster: str | None = None,
    retries: int = 2,
    device: str = "auto",
) -> None:
    """Run every study and write the report.

    Examples:

        bochner study all --size smoke --data_dir data
        bochner study all --workers 4

    The same command continues an interrupted run. A study that fails is an error, after the others have been run.

    Args:
        data_dir: Directory of the data files; cells whose file is missing are skipped.
        size: "smoke" takes a few minutes for all, "small" one or two hours on two cores, "paper" is for a GPU.
        output_dir: Directory of measured cells, rows and the report; one process at a time may use it.
        seeds: Other seeds than those of the size.
        workers: Processes of this machine, see `bochner study run`.
        cluster: Address of a Dask scheduler.
        retries: How often workers repeat a cell that fails.
        device: Where cells are measured.
    """
    from bochner.cli.errors import USER_ERRORS
    from bochner.stages import locked
    from bochner.studies.registry import STUDIES
    from bochner.studies.study import run_study
    from bochner.studies.workers import WorkerOptions

    options, failed = WorkerOptions(workers, cluster, retries), []
    with locked(output_dir):
        for study in STUDIES:
            start = time.perf_counter()
            try:
                saved = run_study(study, data_dir, output_dir, size=size, seeds=seeds, workers=options, device=device)
                seconds = time.perf_counter() - start
                print(f"{study.name}: {len(saved.rows):,} of {saved.num_cells:,} cells, {seconds:.0f} s", flush=True)
            except USER_ERRORS as error:
                logger.error("%s failed: %s", study.name, error)
                failed.append(study.name)
        report(size=size, output_dir=output_dir)
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
        bochner study report --size smoke --page report.html --results RESULTS.md

    Nothing is measured: the page shows the rows that `bochner study run` saved, and names what is missing.

    Args:
        size: Of the rows.
        output_dir: Directory of the rows.
        page: The HTML page. Default: OUTPUT_DIR/report_SIZE.html.
        results: The overview in Markdown: a new file, or one with the lines `<!-- bochner study report: begin -->` and
            `<!-- bochner study report: end -->`, between which it goes. Default: OUTPUT_DIR/findings_SIZE.md.
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
    effort: Size | None = None,
) -> None:
    """Write all tables of the lowrank-* or of the adapted-* studies as a Markdown page with figures.

    Examples:

        bochner study tables lowrank --size paper --page docs/lowrank_tables.md
        bochner study tables adapted-bases --size paper --effort small --page docs/adapted_tables.md

    Nothing is measured: the page shows the cells that `bochner study run` stored.

    Args:
        name: The family of studies.
        size: Of the cells.
        output_dir: Directory of measured cells.
        page: The page, with its figures in assets/ beside it. Default: OUTPUT_DIR/NAME_tables_SIZE.md.
        sets: Other data sets than those of the size.
        effort: Training of another size, of adapted-bases only.
    """
    from bochner.studies.registry import PAGES, study_named

    study, write_page = PAGES[name]
    page = page or output_dir / f"{name}_tables_{size}.md"
    command = ["bochner", "study", "tables", name, "--size", size, *(["--effort", effort] if effort else [])]
    options: dict[str, Any] = {} if effort is None else {"effort": effort}
    results = study_named(study).results_file(output_dir)
    write_page(results, page, size=size, sets=sets, command=shlex.join([*command, "--page", str(page)]), **options)
    print(f"Page: {page}   Cells: {results.path}")


STUDY: dict[str, Any] = {
    "_help": "The papers' tables and figures on data at hand, and a report of which findings hold.",
    "list": list_,
    "run": run,
    "all": all_,
    "report": report,
    "tables": tables,
}
