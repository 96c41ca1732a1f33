"""Optional packages and pools of processes."""

from __future__ import annotations

from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from multiprocessing import current_process, get_context

from bochner import checks

imported = partial(checks.imported, extra="speech")
"""Import a package that the extra `speech` installs."""


MIN_SECONDS = 10.0  # of work for each process; to start one takes 3, most of them to import torch


def process_pool(workers: int, *, seconds: float) -> AbstractContextManager[Executor | None]:
    """A pool of at most `workers` processes for about `seconds` of CPU time, or None where one process is enough.

    None also in a daemonic process, such as a worker of a study, which may not start others. The number of processes
    never changes a result.
    """
    workers = min(checks.positive_int("workers", workers), int(seconds / MIN_SECONDS))
    if workers <= 1 or current_process().daemon:
        return nullcontext()
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"))  # torch's threads do not survive a fork
