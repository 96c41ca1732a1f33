"""`bochner study run`: one study."""

from __future__ import annotations

from pathlib import Path
from typing import Literal


def run(
    name: str,
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
    """Measure the cells of one study that are not measured yet, and save its rows with where they come from.

    Examples:

        bochner study run kernel-spectra --size smoke
        bochner study run nystrom-rff-kernel-error --data_dir data --seeds '[0, 1]'
        bochner study run nystrom-rff-performance --workers 4
        bochner study run nystrom-rff-performance --cluster tcp://10.0.0.1:8786

    It may be stopped and given again: each finished cell is kept in OUTPUT_DIR, and studies of the same cells share
    them. The rows are in OUTPUT_DIR/rows/SIZE/NAME.json. Cells whose data file is not there are left out.

    Args:
        name: One of `bochner study list`.
        data_dir: Folder of the data files.
        size: "smoke" takes seconds, "small" minutes on two cores, "paper" the published sizes, for a GPU.
        output_dir: Folder of finished cells and rows.
        seeds: Other seeds than those of the size.
        workers: Processes of this machine that measure cells at the same time; they share its cores.
        cluster: Address of a Dask scheduler, whose workers measure the cells; needs `bochner[cluster]`.
        retries: How often workers try a cell again that fails; this process alone (1 worker) does not.
        device: Where cells are measured, such as "cpu" or "cuda"; "auto" is the GPU when there is one.
    """
    from bochner.studies.registry import study_named
    from bochner.studies.running import run_study
    from bochner.studies.saved import place
    from bochner.studies.workers_sweep import Sweep

    sweep = Sweep(workers, cluster, retries)
    saved = run_study(study_named(name), data_dir, output_dir, size=size, seeds=seeds, sweep=sweep, device=device)
    print(f"{len(saved.rows):,} of {saved.num_cells:,} cells: {place(output_dir, name, size)}")
