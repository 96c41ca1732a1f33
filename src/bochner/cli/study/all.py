"""`bochner study all`: every study, then the report."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Literal


def run_all(
    *,
    data_dir: Path = Path("data"),
    size: Literal["smoke", "small", "paper"] = "small",
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

    It may be stopped and given again. A study that fails is told, the others go on, and at the end it is an error.

    Args:
        data_dir: Folder of the data files; cells whose file is not there are left out.
        size: "smoke" takes a few minutes for all, "small" one or two hours on two cores, "paper" is for a GPU.
        output_dir: Folder of finished cells, rows and the report.
        seeds: Other seeds than those of the size.
        workers: Processes of this machine that measure cells at the same time; they share its cores.
        cluster: Address of a Dask scheduler, whose workers measure the cells; needs `bochner[cluster]`.
        retries: How often workers try a cell again that fails; this process alone (1 worker) does not.
        device: Where cells are measured, such as "cpu" or "cuda"; "auto" is the GPU when there is one.
    """
    from bochner.cli.errors import USER_ERRORS
    from bochner.cli.study.report import report
    from bochner.studies.registry import STUDIES
    from bochner.studies.running import run_study
    from bochner.studies.workers_sweep import Sweep

    sweep, failed = Sweep(workers, cluster, retries), []
    for study in STUDIES:
        start = time.perf_counter()
        try:
            saved = run_study(study, data_dir, output_dir, size=size, seeds=seeds, sweep=sweep, device=device)
            seconds = time.perf_counter() - start
            print(f"{study.name}: {len(saved.rows):,} of {saved.num_cells:,} cells, {seconds:.0f} s", flush=True)
        except USER_ERRORS as error:
            print(f"{study.name} failed: {error}", file=sys.stderr, flush=True)
            failed.append(study.name)
    report(size=size, output_dir=output_dir)
    if failed:
        raise ValueError(
            f"{len(failed)} of {len(STUDIES)} studies failed, as told above: {', '.join(failed)}; mend the cause and "
            "give the same command again, which measures what is missing."
        )
