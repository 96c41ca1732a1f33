"""What a directory of spooled rows knows of them: the labels of its targets and the names of its inputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

FILE = "names.json"


class StoredNames(NamedTuple):
    labels: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None


def write_names(directory: Path, names: StoredNames) -> None:
    if names != StoredNames():
        (directory / FILE).write_text(json.dumps(names._asdict()), encoding="utf-8")


def read_names(directory: Path) -> StoredNames:
    """The names in `directory`, or none when it has no such file."""
    path = directory / FILE
    if not path.exists():
        return StoredNames()
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return StoredNames(*(_words(found[field]) for field in StoredNames._fields))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read as the names of spooled rows: {error!r}.") from error


def _words(value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise TypeError(f"a list of strings must stand there, not {value!r}")
    return tuple(value)
