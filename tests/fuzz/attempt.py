"""One damaged file, and the outcome of reading it."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as with_seed

from tests.fuzz.edits import edited
from tests.fuzz.reader import Reader

SECONDS = 10
Outcome = Literal["read", "refused"]


def attempt(reader: Reader, path: Path, data: bytes) -> Outcome:
    """ "read", or "refused" by an error that says which file it is about; anything else is raised."""
    path.write_bytes(data)
    try:
        with limited(SECONDS):
            reader.read(path)
    except ValueError as error:
        if not any(name in str(error) for name in (str(path), str(path.parent), path.name)):
            raise AssertionError(f"the error does not name the file: {error}") from error
        return "refused"
    return "read"


def attempts(reader: Reader, folder: Path, *, count: int, seed: int | None = None) -> Counter[str]:
    """The outcomes of `count` damaged files; the first with any other outcome is shrunk and raised.

    The files are the same every time, unless a `seed` is given.
    """
    path, ended = reader.make(folder), Counter[str]()
    rules = settings(
        max_examples=count, deadline=None, database=None, derandomize=seed is None,
        phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck),
    )  # fmt: skip

    @rules
    @given(edited(path.read_bytes(), words=reader.words))
    def damaged(data: bytes) -> None:
        ended[attempt(reader, path, data)] += 1

    (damaged if seed is None else with_seed(seed)(damaged))()
    return ended


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise a TimeoutError if a reader hangs."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"a reader hangs for more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
