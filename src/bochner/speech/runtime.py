"""Optional packages and pools of processes."""

from __future__ import annotations

from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from multiprocessing import get_context

from bochner import checks

imported = partial(checks.imported, extra="speech")
"""Import a package that the extra `speech` installs."""


def process_pool(workers: int) -> AbstractContextManager[Executor | None]:
    """A pool of `workers` processes, or None for one worker; their number never changes a result."""
    if checks.positive_int("workers", workers) == 1:
        return nullcontext()
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"))  # torch's threads do not survive a fork
