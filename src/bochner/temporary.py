"""Temporary directories that are removed even if their process was killed."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import weakref
from pathlib import Path

from filelock import FileLock, Timeout

PREFIX = "bochner-cache-"
LOCK_NAME = ".lock"


class TemporaryDirectory:
    """A new directory, locked by this process as long as it exists; removed with this object and at exit.

    The first one of a process also removes those that killed processes have left.

    >>> directory = TemporaryDirectory()
    >>> directory.path.exists()
    True
    >>> directory.remove()
    >>> directory.path.exists()
    False
    """

    def __init__(self) -> None:
        remove_abandoned()
        # Locked under a name that `remove_abandoned` does not consider, then renamed; the lock stays.
        made = Path(tempfile.mkdtemp(prefix="new-"))
        lock = FileLock(made / LOCK_NAME)
        lock.acquire()
        self.path = made.replace(made.with_name(f"{PREFIX}{made.name.removeprefix('new-')}"))
        self.remove = weakref.finalize(self, _remove, self.path, lock)


def remove_abandoned() -> None:
    """Remove the temporary directories of processes that ended without removing them."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        # a directory of another user or one that is being removed by another process
        with contextlib.suppress(Timeout, OSError):
            if (path / LOCK_NAME).exists():
                with FileLock(path / LOCK_NAME, timeout=0):
                    shutil.rmtree(path, ignore_errors=True)


def _remove(path: Path, lock: FileLock) -> None:
    shutil.rmtree(path, ignore_errors=True)
    lock.release(force=True)
