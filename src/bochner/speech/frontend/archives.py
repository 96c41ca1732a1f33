"""Matrices and vectors of integers in Kaldi's archives."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from bochner.speech.frontend.arrays import Array

BINARY = b"\0B"
TEXT = re.compile(rb"\s*\[")
LONGEST_KEY = 4096


def read_matrix(place: str | Path) -> Array:
    """The matrix at "file.ark:offset", binary, compressed or text: float32 [T, d].

    Only Kaldi's own formats: kaldiio alone would also run a path that ends in | as a command, and unpickle.
    """
    path, colon, offset = str(place).rpartition(":")
    if not colon or not offset.isdecimal():
        raise ValueError(f"frames must lie at file.ark:offset, got {place}.")
    with Path(path).open("rb") as file:
        file.seek(int(offset))
        head = file.read(16)
        file.seek(int(offset))
        if not (head.startswith(BINARY) or TEXT.match(head)):
            raise ValueError(f"{place} does not hold a matrix: it begins with {head[:8]!r}.")
        try:
            matrix: Array = np.asarray(_reader(head)(file), np.float32)
        except Exception as error:  # kaldiio asserts and unpacks what it reads
            raise ValueError(f"{place} cannot be read as a matrix: {error!r}.") from error
    if matrix.ndim != 2:
        raise ValueError(f"{place} must hold a matrix [T, d], got shape {list(matrix.shape)}.")
    return matrix


def _reader(head: bytes) -> Any:
    try:
        from kaldiio import matio
    except ImportError as error:
        raise ImportError("Kaldi archives need kaldiio: pip install bochner[speech].") from error
    return matio.read_matrix_or_vector if head.startswith(BINARY) else matio.read_ascii_mat


def read_integer_vectors(file: IO[bytes]) -> Iterator[tuple[str, Array]]:
    """(key, int32 [T]) of an archive of integer vectors, binary or text, such as Kaldi's alignments.

    >>> import io
    >>> [(name, ids.tolist()) for name, ids in read_integer_vectors(io.BytesIO(b"ann-1 3 4 4\\nann-2 5\\n"))]
    [('ann-1', [3, 4, 4]), ('ann-2', [5])]
    """
    while (key := _key(file)) is not None:
        head = file.read(len(BINARY))
        yield key, _binary_integers(file, key) if head == BINARY else _text_integers(head, file, key)


def _key(file: IO[bytes]) -> str | None:
    """What stands before the next space, or None at the end."""
    key = b""
    while (byte := file.read(1)) not in (b" ", b""):
        key += byte
        if len(key) > LONGEST_KEY:
            raise ValueError(f"no archive: {key[:20]!r} goes on without a space.")
    if not key.strip():
        return None
    if not byte:
        raise ValueError(f"the archive ends after {key[:20]!r}.")
    return key.decode("utf-8").strip()


def _binary_integers(file: IO[bytes], key: str) -> Array:
    size, count = struct.unpack("<bi", _exactly(file, 5, key))
    if size != 4 or count < 0:
        raise ValueError(f"{key} is not a vector of 32-bit integers.")
    return np.frombuffer(_exactly(file, 4 * count, key), dtype="<i4").astype(np.int32)


def _text_integers(head: bytes, file: IO[bytes], key: str) -> Array:
    line = head if b"\n" in head else head + file.readline()
    try:
        return np.array(line.split(), dtype=np.int32)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{key} is not a vector of integers: {line[:20]!r}.") from error


def _exactly(file: IO[bytes], size: int, key: str) -> bytes:
    content = file.read(size)
    if len(content) < size:
        raise ValueError(f"the archive ends within {key}.")
    return content
