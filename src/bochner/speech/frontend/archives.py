"""Matrices and vectors of integers in Kaldi's archives."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, Any]


def frames_of(frames: Array) -> Array:
    """`frames` once they are seen to be [T, d] with at least one of each."""
    frames = np.asarray(frames)
    if frames.ndim != 2 or 0 in frames.shape:
        raise ValueError(f"frames must have shape [T, d] with T and d at least 1, got {list(frames.shape)}.")
    return frames


BINARY = b"\0B"
TEXT = re.compile(rb"\s*\[")
PART_BYTES = 2**20
LONGEST_KEY = 4096


class Bytes(Protocol):
    """An open file, zipped or not."""

    def read(self, size: int, /) -> bytes: ...

    def readline(self) -> bytes: ...


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


def read_integer_vectors(file: Bytes) -> Iterator[tuple[str, Array]]:
    """(key, int32 [T]) of an archive of integer vectors, binary or text, such as Kaldi's alignments.

    >>> import io
    >>> [(name, ids.tolist()) for name, ids in read_integer_vectors(io.BytesIO(b"ann-1 3 4 4\\nann-2 5\\n"))]
    [('ann-1', [3, 4, 4]), ('ann-2', [5])]
    """
    while (key := _key(file)) is not None:
        first = file.read(1)
        yield key, _binary_integers(file, key) if first == BINARY[:1] else _text_integers(first, file, key)


def _key(file: Bytes) -> str | None:
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


def _binary_integers(file: Bytes, key: str) -> Array:
    mark, size, count = struct.unpack("<cbi", _exactly(file, 6, key))
    if mark != BINARY[1:] or size != 4 or count < 0:
        raise ValueError(f"{key} is not a vector of 32-bit integers.")
    rows = np.frombuffer(_exactly(file, 5 * count, key), dtype=[("size", "i1"), ("value", "<i4")])
    if (rows["size"] != 4).any():
        raise ValueError(f"{key} is not a vector of 32-bit integers.")
    return rows["value"].astype(np.int32)


def _text_integers(first: bytes, file: Bytes, key: str) -> Array:
    line = first if first == b"\n" else first + file.readline()
    try:
        return np.array([int(number) for number in line.split()], dtype=np.int32)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{key} is not a vector of integers: {line[:20]!r}.") from error


def _exactly(file: Bytes, size: int, key: str) -> bytes:
    """The next `size` bytes, a part at a time: the size may be a lie, and no memory is taken on its word."""
    content = bytearray()
    while len(content) < size:
        part = file.read(min(size - len(content), PART_BYTES))
        if not part:
            raise ValueError(f"the archive ends within {key}.")
        content += part
    return bytes(content)
