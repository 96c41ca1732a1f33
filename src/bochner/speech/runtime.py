"""Optional packages and pools of processes."""

from __future__ import annotations

from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from multiprocessing import get_context
from typing import Any

from bochner.checks import positive_int


def imported(package: str, *, extra: str = "speech") -> Any:
    """Import an optional package, or raise an error that names its extra.

    >>> imported("no_such_package")
    Traceback (most recent call last):
    ...
    ImportError: no_such_package is missing: pip install 'bochner[speech]'.
    """
    try:
        return import_module(package)
    except ImportError as error:
        raise ImportError(f"{package} is missing: pip install 'bochner[{extra}]'.") from error


def process_pool(workers: int) -> AbstractContextManager[Executor | None]:
    """A pool of `workers` processes, or None for one worker; their number never changes a result."""
    if positive_int("workers", workers) == 1:
        return nullcontext()
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"))  # torch's threads do not survive a fork
