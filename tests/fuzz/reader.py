"""A valid file and its reader."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Reader(NamedTuple):
    """`make` writes valid files into a directory and returns the one that is then damaged; `read` reads all of it."""

    make: Callable[[Path], Path]
    read: Callable[[Path], object]
    words: tuple[bytes, ...] = ()


def written(name: str, content: bytes | str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return make
