"""Arrays in files: .npy, .npz, and directories of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from bochner.data.sources.names import read_names
from bochner.data.sources.parts import PartsSource
from bochner.data.sources.row_arrays import Part
from bochner.data.sources.stored import StoredArray, members

FilePath = str | os.PathLike[str]


class NpySource(PartsSource):
    """X [N, d], y and weight in one .npy file each, of any size: a shard is read from disk when it is asked for.

    O(shard_rows d) time and memory a shard. Without `y_path` the targets are int64 [n, 0]; those of NumPy's dtype U
    become places in `labels`, which are found in one pass over y unless they are given.

    >>> import numpy as np, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(folder + "/X.npy", np.eye(3))
    ...     np.save(folder + "/y.npy", np.arange(3))
    ...     NpySource(folder + "/X.npy", folder + "/y.npy", shard_rows=2).read(1).y
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

    A member is decompressed from its beginning for each shard: for large archives write .npy files, or `spool` once.
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
    What `spool` wrote keeps the labels of its targets and the names of its inputs.
    """

    def __init__(
        self, directory: FilePath, *, shard_rows: int | None = None, labels: Sequence[str] | None = None
    ) -> None:
        self.directory = Path(directory)
        if not self.directory.is_dir():
            raise ValueError(f"{directory} must be a directory of .npz or .X.npy files; there is none.")
        found = [*self.directory.glob("*.npz"), *self.directory.glob("*.X.npy")]
        if not found:
            raise ValueError(f"{directory} must hold .npz or .X.npy files, found none.")
        for orphan in self.directory.glob("*.y.npy"):
            if not _beside(orphan, "y", "X").exists():
                raise ValueError(f"{orphan} has no {_beside(orphan, 'y', 'X').name} beside it.")
        names = read_names(self.directory)
        parts = [_part(path) for path in sorted(found)]
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
