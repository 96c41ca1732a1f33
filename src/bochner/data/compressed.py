"""Compressed text files, .gz, .bz2 and .xz, and the errors of damaged files."""

from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bochner.remote import AnyPath

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
# Raised for damaged archives, besides OSError, which has other causes too.
DAMAGE = (EOFError, zlib.error, lzma.LZMAError)


def is_compressed(path: AnyPath) -> bool:
    return path.suffix.lower() in OPENERS


def inner_suffix(path: AnyPath) -> str:
    """The suffix of the file after decompression.

    >>> inner_suffix(Path("a.csv.gz")), inner_suffix(Path("a.csv"))
    ('.csv', '.csv')
    """
    return (path.with_suffix("") if is_compressed(path) else path).suffix.lower()


def decompressed(path: AnyPath) -> Path:
    """A new temporary file with the bytes of the compressed `path`; the caller removes it."""
    with tempfile.NamedTemporaryFile(prefix="bochner-text-", delete=False) as file:
        try:
            opener = OPENERS[path.suffix.lower()]
            with (
                reading_errors(f"{path} cannot be decompressed, it is damaged"),
                path.open("rb") as raw,
                opener(raw) as packed,
            ):
                shutil.copyfileobj(packed, file, 2**20)
        except BaseException:
            Path(file.name).unlink()
            raise
    return Path(file.name)


@contextmanager
def reading_errors(failure: str, damage: tuple[type[Exception], ...] = DAMAGE) -> Iterator[None]:
    """Raise the exceptions of a damaged file as a ValueError that begins with `failure`; those of the disk pass."""
    try:
        yield
    except OSError as error:
        if error.errno not in (None, errno.EINVAL):  # those two come from the content of archives
            raise
        raise ValueError(f"{failure}: {error}") from error
    except damage as error:
        raise ValueError(f"{failure}: {error}") from error
