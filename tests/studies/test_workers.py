"""Workers: the results of one process, despite failures."""

from __future__ import annotations

import os
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from bochner.studies.registry import study_named
from bochner.studies.results_file import ResultsFile
from bochner.studies.study import run_study
from bochner.studies.workers import (
    Context,
    DaskWorkers,
    LocalWorkers,
    StudyMeasure,
    WorkerOptions,
    WorkerPool,
    measure_by,
    measure_cells,
    one_at_a_time,
)
from tests.studies.worker_cells import Cell, attempts, measure, some_cells

Log = pytest.LogCaptureFixture


def measure_all(pool: WorkerPool, cells: list[Cell], results: ResultsFile[Cell]) -> int:
    with pool:
        return measure_cells(cells, partial(measure_by, pool, retries=1), results)


def squares(cells: list[Cell], results: ResultsFile[Cell]) -> list[int | None]:
    return [result["square"] if (result := results.get(cell)) else None for cell in cells]


@pytest.fixture
def results(tmp_path: Path) -> ResultsFile[Cell]:
    return ResultsFile(tmp_path / "cells.jsonl", Cell)


def test_two_workers_share_the_cells_that_are_not_measured(tmp_path: Path, results: ResultsFile[Cell]) -> None:
    cells = some_cells(tmp_path / "tried", *["none"] * 6)
    results.add(cells[5], {"square": 0})
    assert measure_all(LocalWorkers(measure, count=2), cells, results) == 5
    assert squares(cells, results) == [0, 1, 4, 9, 16, 0]
    assert attempts(cells[5]) == 0
    stored = ResultsFile(results.path, Cell)
    assert squares(cells, stored) == squares(cells, results)
    pids = {result["pid"] for cell in cells[:5] if (result := stored.get(cell))}
    assert os.getpid() not in pids
    assert measure_all(LocalWorkers(measure, count=2), cells, stored) == 0


def test_workers_of_this_machine_share_intermediate_files(tmp_path: Path) -> None:
    """Otherwise each of them would prepare the same corpus."""
    pool = WorkerOptions(workers=2).pool("map-error", Context(tmp_path, cache_dir=tmp_path / "cache"))
    assert isinstance(pool, LocalWorkers)
    with pool:
        assert {worker._measure.context.cache_dir for worker in pool._workers} == {tmp_path / "cache"}


def test_a_stage_waits_for_the_process_that_makes_it(tmp_path: Path) -> None:
    order: list[str] = []

    def second() -> None:
        with one_at_a_time(tmp_path, "corpus"):
            order.append("second")

    with one_at_a_time(tmp_path, "corpus"):
        waiting = threading.Thread(target=second)
        waiting.start()
        with one_at_a_time(tmp_path, "another corpus"):
            order.append("another")
        waiting.join(timeout=0.2)
        order.append("first")
    waiting.join()
    assert order == ["another", "first", "second"]


def test_failed_and_killed_cells_are_repeated_and_logged(
    tmp_path: Path, results: ResultsFile[Cell], caplog: Log
) -> None:
    cells = some_cells(tmp_path / "tried", "none", "once", "killed", "none", "always", "none")
    with pytest.raises(RuntimeError, match="1 of 6 cells failed"):
        measure_all(LocalWorkers(measure, count=2), cells, results)
    assert squares(cells, results) == [0, 1, 4, 9, None, 25]
    assert [attempts(cell) for cell in cells] == [1, 2, 2, 1, 2, 1]
    log = caplog.text
    assert f"{cells[1]} failed, attempt 1, repeated: ValueError: number 1 is too large" in log
    assert f"{cells[2]} failed, attempt 1, repeated: its process died, exit code -9" in log
    assert f"{cells[4]} failed, attempt 2: ValueError: number 4 is too large" in log


def test_a_full_disk_is_raised_and_not_repeated(tmp_path: Path, results: ResultsFile[Cell]) -> None:
    cells = some_cells(tmp_path / "tried", "full")
    with pytest.raises(OSError, match="No space left"):
        measure_all(LocalWorkers(measure, count=1), cells, results)
    assert attempts(cells[0]) == 1


def test_a_worker_that_is_killed_from_outside_is_replaced(tmp_path: Path, results: ResultsFile[Cell]) -> None:
    first, second = some_cells(tmp_path / "tried", "none", "none")
    with LocalWorkers(measure, count=1) as pool:
        pid = pool.submit(first).result()["pid"]
        os.kill(pid, 9)
        assert measure_cells([second], partial(measure_by, pool, retries=1), results) == 1
    assert squares([second], results) == [1]


def test_a_study_by_workers_has_the_rows_of_one_process(tmp_path: Path) -> None:
    study, threads = study_named("map-error"), torch.get_num_threads()
    torch.set_num_threads(1)  # as each of the workers has
    try:
        alone = run_study(study, tmp_path, tmp_path / "alone", size="smoke")
    finally:
        torch.set_num_threads(threads)
    shared = run_study(study, tmp_path, tmp_path / "shared", size="smoke", workers=WorkerOptions(workers=2))
    assert alone.rows == shared.rows  # bit by bit, in the order of the cells
    assert ("workers" in alone.runs[0], shared.runs[0]["workers"]) == (False, 2)


def test_a_worker_of_another_version_refuses() -> None:
    with pytest.raises(RuntimeError, match=r"bochner 0\.0\.0 called a worker"):
        StudyMeasure("map-error", Context(Path("data")), version="0.0.0")(None)


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"retries": -1}, {"workers": 2, "cluster": "tcp://x:1"}])
def test_mistakes_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
        WorkerOptions(**wrong)


def test_a_dask_cluster(tmp_path: Path, results: ResultsFile[Cell], caplog: Log) -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install bochner[cluster]")
    cells = some_cells(tmp_path / "tried", "none", "once", "always")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=None, local_directory=str(tmp_path)
    ) as cluster:
        with pytest.raises(RuntimeError, match="1 of 3 cells failed"):
            measure_all(DaskWorkers(measure, address=cluster.scheduler_address), cells, results)
        assert squares(cells, results) == [0, 1, None]
        assert [attempts(cell) for cell in cells] == [1, 2, 2]
        assert "attempt 2: number 2 is too large" in caplog.text
        workers = WorkerOptions(cluster=cluster.scheduler_address)
        saved = run_study(study_named("kernel-spectra"), tmp_path, tmp_path / "out", size="smoke", workers=workers)
        assert len(saved.rows) == 1
