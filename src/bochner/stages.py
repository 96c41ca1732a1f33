"""Stages that are computed once: each stores its result in a file, together with its inputs.

Every part of bochner that caches or resumes uses `Stage`: training runs, corpora, alignments, studies. A killed stage
runs again and may continue from the files in its directory; a finished one is only read.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from bochner.storage import write_atomically

LOCK_NAME, HOLDER_NAME = ".lock", ".lock-holder"


class Stage:
    """A piece of work, identified by `inputs`, whose result is recorded in the JSON file `record`.

    Parameters
    ----------
    record : path
        Written when the stage starts, with its inputs, and again when it has finished, with its result.
    inputs : mapping of plain values
        Everything the result depends on. Values that JSON has no type for are stored as text.

    Examples
    --------
    >>> import tempfile
    >>> directory = tempfile.TemporaryDirectory()
    >>> stage = Stage(Path(directory.name, "stage.json"), {"seed": 0})
    >>> stage.result() is None
    True
    >>> stage.run(lambda: {"utterances": 3})["utterances"]
    3
    >>> Stage(stage.record, {"seed": 1}).result()
    Traceback (most recent call last):
    ...
    ValueError: /.../stage.json was made from other inputs (seed: 0 there, 1 here); use another directory or delete it.
    """

    def __init__(self, record: Path, inputs: Mapping[str, Any]) -> None:
        self.record, self.inputs = record, _plain(inputs)

    def result(self) -> dict[str, Any] | None:
        """The result of a finished stage, or None; a record of other inputs is an error."""
        if not self.record.exists():
            return None
        stored = read_record(self.record)
        check_inputs(self.record, stored["inputs"], self.inputs)
        return stored["result"]

    def run(self, make: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """Return the stored result, or call `make` and store what it returns, with the seconds it took.

        The directory of the record is locked during the run: a second process that runs the same stage gets an error.
        """
        with locked(self.record.parent):
            result = self.result()
            if result is None:
                self._write(None)
                start = time.perf_counter()
                made = make()
                self._write({"seconds": round(time.perf_counter() - start, 2), **made})
                result = read_record(self.record)["result"]  # as JSON stores it, like every later read
        assert result is not None
        return result

    def _write(self, result: Mapping[str, Any] | None) -> None:
        write_json(self.record, {"inputs": self.inputs, "result": result})


def read_record(record: Path) -> dict[str, Any]:
    """The `inputs` and the `result` of a stage; the result is None until it has finished."""
    try:
        stored = json.loads(record.read_bytes())
        result = stored["result"]
        return {"inputs": dict(stored["inputs"]), "result": None if result is None else dict(result)}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{record} is not the record of a stage ({error!r}); delete it to start again.") from error


def check_inputs(record: str | Path, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Raise an error that names each input whose stored value differs from the present one."""
    if changes := changed_inputs(there, here):
        raise ValueError(f"{record} was made from other inputs ({changes}); use another directory or delete it.")


def changed_inputs(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Each input whose stored value differs from the present one, with both values; empty if none does."""
    return ", ".join(
        f"{name}: {there.get(name)!r} there, {here.get(name)!r} here"
        for name in sorted({*there, *here})
        if there.get(name) != here.get(name)
    )


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the lock of `directory`, which is created if necessary. The same process may acquire it more than once.

    The lock is advisory and is released when the process ends in any way. A file next to it names its holder.
    """
    directory.mkdir(parents=True, exist_ok=True)
    lock, holder = FileLock(directory / LOCK_NAME, timeout=0, is_singleton=True), directory / HOLDER_NAME
    try:
        lock.acquire()
    except Timeout:
        try:
            process = holder.read_text().strip()
        except OSError:
            process = "another process"
        raise ValueError(f"{directory} is in use by {process}; wait, or choose another directory.") from None
    try:
        if lock.lock_counter == 1:
            holder.write_text(f"process {os.getpid()} on {platform.node()}\n")
        yield
    finally:
        if lock.lock_counter == 1:
            holder.unlink(missing_ok=True)
        lock.release()


def fingerprint(inputs: Mapping[str, Any]) -> str:
    """The SHA-256 of plain values, whatever the order of their names.

    >>> fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1}) != fingerprint({"a": 1, "b": 3})
    True
    """
    return hashlib.sha256(json.dumps(_plain(inputs), sort_keys=True).encode()).hexdigest()


def write_json(path: Path, values: Any) -> None:
    """Write plain values as JSON, atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(values, indent=1, ensure_ascii=False, default=str) + "\n").encode())


def _plain(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON returns them: tuples become lists, keys become text."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(inputs), default=str))
    return plain
