"""Workers: the results of one process, whatever fails on the way."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from bochner.studies.ledger import Ledger
from bochner.studies.registry import study_named
from bochner.studies.running import run_study
from bochner.studies.study import Where
from bochner.studies.workers import Crew, NamedMeasure, measure_by
from bochner.studies.workers_local import LocalCrew
from bochner.studies.workers_sweep import Sweep
from tests.studies.sweep_cells import Cell, attempts, measure, some_cells

Capture = pytest.CaptureFixture[str]


def by(crew: Crew, cells: list[Cell], ledger: Ledger[Cell], **how: Any) -> int:
    with crew:
        return measure_by(crew, cells, ledger, **{"retries": 1, **how})


def squares(cells: list[Cell], ledger: Ledger[Cell]) -> list[int | None]:
    return [found["square"] if (found := ledger.get(cell)) else None for cell in cells]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger[Cell]:
    return Ledger(tmp_path / "cells.jsonl", Cell)


def test_two_workers_share_the_cells_and_finished_ones_are_left_alone(tmp_path: Path, ledger: Ledger[Cell]) -> None:
    cells = some_cells(tmp_path / "tried", *["none"] * 6)
    ledger.add(cells[5], {"square": 0})
    assert by(LocalCrew(measure, count=2), cells, ledger) == 5
    assert squares(cells, ledger) == [0, 1, 4, 9, 16, 0]
    assert attempts(cells[5]) == 0
    found = Ledger(ledger.path, Cell)  # as it is on disk
    assert squares(cells, found) == squares(cells, ledger)
    pids = {result["pid"] for cell in cells[:5] if (result := found.get(cell))}
    assert os.getpid() not in pids
    assert by(LocalCrew(measure, count=2), cells, found) == 0


def test_failed_and_killed_cells_are_tried_again_and_told(
    tmp_path: Path, ledger: Ledger[Cell], capsys: Capture
) -> None:
    cells = some_cells(tmp_path / "tried", "none", "once", "killed", "none", "always", "none")
    with pytest.raises(RuntimeError, match="1 of 6 cells failed"):
        by(LocalCrew(measure, count=2), cells, ledger)
    assert squares(cells, ledger) == [0, 1, 4, 9, None, 25]
    assert [attempts(cell) for cell in cells] == [1, 2, 2, 1, 2, 1]
    told = capsys.readouterr().err
    assert f"{cells[1]} failed, attempt 1, tried again: ValueError: number 1 is too large" in told
    assert f"{cells[2]} failed, attempt 1, tried again: its process died, exit code -9" in told
    assert f"{cells[4]} failed, attempt 2: ValueError: number 4 is too large" in told


def test_a_worker_that_is_killed_from_outside_is_replaced(tmp_path: Path, ledger: Ledger[Cell]) -> None:
    first, second = some_cells(tmp_path / "tried", "none", "none")
    with LocalCrew(measure, count=1) as crew:
        pid = crew.submit(first).result()["pid"]
        os.kill(pid, 9)
        assert measure_by(crew, [second], ledger, retries=1) == 1
    assert squares([second], ledger) == [1]


def test_a_study_by_workers_has_the_rows_of_one_process(tmp_path: Path) -> None:
    study, threads = study_named("map-error"), torch.get_num_threads()
    torch.set_num_threads(1)  # as each of the workers has
    try:
        alone = run_study(study, tmp_path, tmp_path / "alone", size="smoke")
    finally:
        torch.set_num_threads(threads)
    shared = run_study(study, tmp_path, tmp_path / "shared", size="smoke", sweep=Sweep(workers=2))
    assert alone.rows == shared.rows  # bit by bit, in the order of the cells
    assert ("workers" in alone.runs[0], shared.runs[0]["workers"]) == (False, 2)


def test_a_worker_of_another_version_refuses() -> None:
    with pytest.raises(RuntimeError, match=r"bochner 0\.0\.0 asks a worker"):
        NamedMeasure("map-error", Where(Path("data")), version="0.0.0")(None)


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"retries": -1}, {"workers": 2, "cluster": "tcp://x:1"}])
def test_mistakes_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
        Sweep(**wrong)


def test_a_dask_cluster(tmp_path: Path, ledger: Ledger[Cell], capsys: Capture) -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install bochner[cluster]")
    from bochner.studies.workers_dask import DaskCrew

    cells = some_cells(tmp_path / "tried", "none", "once", "always")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=None, local_directory=str(tmp_path)
    ) as cluster:
        with pytest.raises(RuntimeError, match="1 of 3 cells failed"):
            by(DaskCrew(measure, address=cluster.scheduler_address), cells, ledger)
        assert squares(cells, ledger) == [0, 1, None]
        assert [attempts(cell) for cell in cells] == [1, 2, 2]
        assert "attempt 2: number 2 is too large" in capsys.readouterr().err
        sweep = Sweep(cluster=cluster.scheduler_address)
        saved = run_study(study_named("kernel-spectra"), tmp_path, tmp_path / "out", size="smoke", sweep=sweep)
        assert len(saved.rows) == 1
