"""Pools of processes: only for work that is worth their start."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from bochner.speech.runtime import process_pool


@pytest.mark.parametrize(("workers", "seconds", "processes"), [(1, 1e3, 0), (4, 15.0, 0), (4, 25.0, 2), (4, 1e3, 4)])
def test_processes_are_started_for_enough_work_only(workers: int, seconds: float, processes: int) -> None:
    with process_pool(workers, seconds=seconds) as pool:  # processes start with the first task
        if processes:
            assert isinstance(pool, ProcessPoolExecutor)
            assert pool._max_workers == processes
        else:
            assert pool is None


def test_a_worker_of_a_study_starts_no_processes() -> None:
    """Daemonic processes may not have children."""
    context = get_context("fork")
    results = context.SimpleQueue()
    worker = context.Process(target=_put_sum, args=(results,), daemon=True)
    worker.start()
    worker.join()
    assert worker.exitcode == 0
    assert results.get() == 3


def _put_sum(results) -> None:
    with process_pool(2, seconds=1e3) as pool:
        results.put(sum((map if pool is None else pool.map)(int, "12")))
