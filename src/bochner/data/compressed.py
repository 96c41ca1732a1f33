"""Text that may be compressed: .gz, .bz2, .xz."""

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
from typing import IO, Any

OPENERS: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
DAMAGE = (EOFError, zlib.error, lzma.LZMAError)  # and OSError, which other things raise too


def is_compressed(path: Path) -> bool:
    return path.suffix.lower() in OPENERS


def inner_suffix(path: Path) -> str:
    """What the suffix is once the file is decompressed.

    >>> inner_suffix(Path("a.csv.gz")), inner_suffix(Path("a.csv"))
    ('.csv', '.csv')
    """
    return (path.with_suffix("") if is_compressed(path) else path).suffix.lower()


def open_bytes(path: Path) -> IO[bytes]:
    """The file's bytes, decompressed."""
    opener = OPENERS.get(path.suffix.lower())
    return path.open("rb") if opener is None else opener(path)


def decompressed(path: Path) -> Path:
    """A new temporary file with the bytes of the compressed `path`; the caller removes it."""
    with tempfile.NamedTemporaryFile(prefix="bochner-text-", delete=False) as file:
        try:
            with _naming(path), open_bytes(path) as packed:
                shutil.copyfileobj(packed, file, 2**20)
        except BaseException:
            Path(file.name).unlink()
            raise
    return Path(file.name)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except (*DAMAGE, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # the disk, not the archive
            raise
        raise ValueError(f"{path} cannot be decompressed: {error}; it is damaged or cut short.") from error
