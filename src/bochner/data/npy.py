"""Sources of arrays in files: .npy, .npz, and directories of them."""

from __future__ import annotations

import math
import os
import struct
import tokenize
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from bochner.data.arrays import Part, PartsSource
from bochner.data.compressed import DAMAGE as COMPRESSION_DAMAGE
from bochner.data.compressed import reading_errors
from bochner.data.labels import read_names

HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
# Raised by NumPy and zipfile for damaged files.
DAMAGE = (
    *COMPRESSION_DAMAGE, ValueError, SyntaxError, RecursionError, TypeError, KeyError, NotImplementedError,
    RuntimeError, struct.error, tokenize.TokenError, zipfile.BadZipFile,
)  # fmt: skip
FilePath = str | os.PathLike[str]


class StoredArray:
    """The array in a .npy file, or under the name `member` in a .npz archive.

    Rows are read, not mapped: after `read` only they are in memory. O(rows d) for a .npy file; a member of an archive
    is read from its beginning each time, so an archive should hold few shards. Pickled objects are refused; so is a
    file that is shorter than its header says, when it is opened.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     np.save(directory + "/X.npy", np.arange(6.0).reshape(3, 2))
    ...     StoredArray(directory + "/X.npy").read(slice(1, 3)).tolist()
    [[2.0, 3.0], [4.0, 5.0]]
    """

    def __init__(self, path: FilePath, member: str | None = None) -> None:
        self.path, self.member = Path(path), member
        self.name = str(path) if member is None else f"{path}[{member}]"
        with self._open() as (file, size):
            version = np.lib.format.read_magic(file)
            if version not in HEADERS:
                raise ValueError(f"version {version} of the .npy format is not supported")
            shape, fortran, dtype = HEADERS[version](file)
            self._offset = file.tell()
            if dtype.hasobject:
                raise ValueError("it holds Python objects, which are never unpickled")
            if any(length < 0 for length in shape):
                raise ValueError(f"its shape is {shape}")
            if (needed := self._offset + math.prod(shape) * dtype.itemsize) > size:
                raise ValueError(f"it is truncated: {size} bytes, its header promises {needed}")
        self.shape: tuple[int, ...] = shape
        self.dtype: np.dtype[Any] = dtype
        self._by_columns = fortran and len(shape) > 1

    def read(self, rows: slice) -> np.ndarray[Any, Any]:
        """Rows start <= i < stop as a new array."""
        N, *row_shape = self.shape
        n, width = rows.stop - rows.start, math.prod(row_shape)
        with self._open() as (file, _):
            if not self._by_columns:
                return self._read(file, rows.start * width, n * width).reshape(n, *row_shape)
            columns = [self._read(file, j * N + rows.start, n) for j in range(width)]
            return np.stack(columns, axis=1).reshape((n, *row_shape), order="F")

    def _read(self, file: IO[bytes], start: int, count: int) -> np.ndarray[Any, Any]:
        numbers = np.empty(count, self.dtype)
        unread = numbers.view(np.uint8).data
        file.seek(self._offset + start * self.dtype.itemsize)
        while unread:
            if not (num_bytes := file.readinto(unread)):  # type: ignore[attr-defined]
                raise ValueError("it ends early; was it changed while in use?")
            unread = unread[num_bytes:]
        return numbers

    @contextmanager
    def _open(self) -> Iterator[tuple[IO[bytes], int]]:
        with reading_errors(f"{self.name} cannot be read as a .npy array", DAMAGE):
            if self.member is None:
                with self.path.open("rb") as file:
                    yield file, os.fstat(file.fileno()).st_size
            else:
                with zipfile.ZipFile(self.path) as archive, archive.open(self.member + ".npy") as file:
                    yield file, archive.getinfo(self.member + ".npy").file_size


def members(path: FilePath) -> list[str]:
    """The names of the arrays in a .npz archive."""
    with reading_errors(f"{path} cannot be read as a .npz archive", DAMAGE), zipfile.ZipFile(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]


class NpySource(PartsSource):
    """X [N, d], y and weight in one .npy file each; `read` reads one shard from disk.

    O(shard_rows d) time and memory per shard. Without `y_path` the targets are int64 [n, 0]; text targets (dtype U)
    become indices into `labels`, which are collected in one pass over y unless they are given.

    >>> import numpy as np, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     np.save(directory + "/X.npy", np.eye(3))
    ...     np.save(directory + "/y.npy", np.arange(3))
    ...     NpySource(directory + "/X.npy", directory + "/y.npy", shard_rows=2).read(1).y
    tensor([2])
    """

    def __init__(
        self,
        X_path: FilePath,
        y_path: FilePath | None = None,
        weight_path: FilePath | None = None,
        *,
        shard_rows: int | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        X, y, weight = (None if path is None else StoredArray(path) for path in (X_path, y_path, weight_path))
        assert X is not None
        super().__init__([Part(X, y, weight)], shard_rows=shard_rows, labels=labels)


class NpzSource(PartsSource):
    """Arrays X [N, d], y and weight in one .npz archive, under these names or others.

    A member is decompressed from its beginning for each shard: for large archives write .npy files, or use
    `cache_to_disk`.
    """

    def __init__(
        self,
        path: FilePath,
        *,
        X: str = "X",
        y: str | None = "y",
        weight: str | None = None,
        shard_rows: int | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        super().__init__([_archive(path, X, y, weight)], shard_rows=shard_rows, labels=labels)


class ShardedSource(PartsSource):
    """A directory of parts in order of their names: `NAME.npz` holding X, y, weight, or `NAME.X.npy`, `NAME.y.npy`, ...

    Each part is cut into shards of at most `shard_rows` rows; all must be equally wide. y and weight may be absent.
    Files of `cache_to_disk` include the labels of their targets and the names of their inputs.
    """

    def __init__(
        self, directory: FilePath, *, shard_rows: int | None = None, labels: Sequence[str] | None = None
    ) -> None:
        self.directory = Path(directory)
        if not self.directory.is_dir():
            raise ValueError(f"{directory} must be a directory of .npz or .X.npy files; there is none.")
        paths = sorted([*self.directory.glob("*.npz"), *self.directory.glob("*.X.npy")])
        if not paths:
            raise ValueError(f"{directory} must hold .npz or .X.npy files, found none.")
        for orphan in self.directory.glob("*.y.npy"):
            if not _beside(orphan, "y", "X").exists():
                raise ValueError(f"{orphan} has no {_beside(orphan, 'y', 'X').name} beside it.")
        names = read_names(self.directory)
        parts = [_part(path) for path in paths]
        super().__init__(parts, shard_rows=shard_rows, labels=labels, stored_labels=names.labels)
        self.column_names = names.columns
        if names.columns is not None and len(names.columns) != self.num_inputs:
            raise ValueError(f"{directory} names {len(names.columns)} columns, but its rows have {self.num_inputs}.")


def _part(path: Path) -> Part:
    if path.suffix == ".npz":
        names = members(path)
        return _archive(path, "X", *(name if name in names else None for name in ("y", "weight")))
    y, weight = (_beside(path, "X", word) for word in ("y", "weight"))
    return Part(
        StoredArray(path), StoredArray(y) if y.exists() else None, StoredArray(weight) if weight.exists() else None
    )


def _archive(path: FilePath, X: str, y: str | None, weight: str | None) -> Part:
    known = members(path)
    for name in (X, y, weight):
        if name is not None and name not in known:
            raise ValueError(f"{path} has no array {name!r}; it has {known}.")
    return Part(
        StoredArray(path, X),
        None if y is None else StoredArray(path, y),
        None if weight is None else StoredArray(path, weight),
    )


def _beside(path: Path, word: str, other: str) -> Path:
    """`NAME.word.npy` -> `NAME.other.npy`."""
    return path.with_name(path.name.removesuffix(f"{word}.npy") + f"{other}.npy")
