"""Recordings on disk as the fields of an utterance."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from bochner.speech.audio import read_samples, recording_length


def recording_fields(path: Path, directory: str | os.PathLike[str], *, rate: int | None = None) -> dict[str, Any]:
    """`audio`, `rate` and `duration` of a whole recording, read to its end; AudioError where it cannot be used.

    With `rate` a recording at another is refused. The path is relative to the corpus directory.
    """
    rate = recording_length(path)[1] if rate is None else rate
    samples = read_samples(path, rate=rate)
    return {"audio": relative(path, directory), "rate": rate, "duration": len(samples) / rate}


def relative(path: Path, directory: str | os.PathLike[str]) -> str:
    return Path(os.path.relpath(path.resolve(), Path(directory).resolve())).as_posix()
