"""Streams of blocks written to disk, so that they can be read repeatedly and in any order."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import numpy as np

from bochner.data.arrays import ArraySource, resolve_shard_rows
from bochner.data.blocks import Block, Source, read_shard, rebatch
from bochner.data.labels import StoredNames, checked_labels, column_names_of, labels_of, write_names
from bochner.data.npy import FilePath, ShardedSource
from bochner.temporary import PREFIX, TemporaryDirectory


def cache_to_disk(
    blocks: Source | Iterable[Block | tuple[Any, ...]],
    directory: FilePath | None = None,
    *,
    shard_rows: int | None = None,
    labels: Sequence[str] | None = None,
) -> CachedSource:
    """Write blocks (X, y) or (X, y, weight) of arrays or tensors to disk, and return a source of them; y may be None.

    A source that is expensive to read may be given as well. The blocks are read once and written as .npy files of
    `shard_rows` rows. Memory: one block and one shard. With `directory` (new or empty) the files are kept there, or
    none after an error; otherwise they are in a temporary directory until the source is closed or collected.

    Text in y needs `labels`, since a stream is read once; integers in y together with `labels` are indices into them.
    Labels, by default those of `blocks`, and its column names are stored with the files.

    >>> import torch
    >>> with cache_to_disk((torch.full((4, 2), float(i)), torch.arange(4)) for i in range(3)) as source:
    ...     source.shard_sizes
    [12]
    """
    names = StoredNames(labels_of(blocks) if labels is None else checked_labels(labels), column_names_of(blocks))
    final = None if directory is None else Path(directory)
    if final is not None:
        if final.exists() and (not final.is_dir() or any(final.iterdir())):
            raise ValueError(f"directory must be new or empty, got {final}, which contains files.")
        final.parent.mkdir(parents=True, exist_ok=True)
    # Next to the final directory, so that the last step is a rename: a killed run leaves no incomplete `directory`.
    temporary = None
    if final is None:
        temporary = TemporaryDirectory()
        written = temporary.path
    else:
        written = Path(tempfile.mkdtemp(prefix=PREFIX, dir=final.parent))
    try:
        source: Any = blocks
        shards = [shard for shard, size in enumerate(getattr(source, "shard_sizes", [])) if size]
        stream = (read_shard(source, shard) for shard in shards) if hasattr(source, "shard_sizes") else source
        rows = _write(_converted(stream, names.labels), written, shard_rows)
        write_names(written, names)
        if final is None:
            return CachedSource(written, shard_rows=rows, temporary=temporary)
        written.chmod(0o755)
        return CachedSource(written.replace(final), shard_rows=rows)
    except BaseException:
        shutil.rmtree(written, ignore_errors=True)
        if temporary is not None:
            temporary.remove()
        raise


class CachedSource(ShardedSource):
    """The files of `cache_to_disk`; a `temporary` directory is removed on `close`, on exit and with the object."""

    def __init__(
        self, directory: FilePath, *, shard_rows: int | None = None, temporary: TemporaryDirectory | None = None
    ) -> None:
        super().__init__(directory, shard_rows=shard_rows)
        self._temporary = temporary

    def close(self) -> None:
        if self._temporary is not None:
            self._temporary.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _converted(blocks: Iterable[Block | tuple[Any, ...]], labels: tuple[str, ...] | None) -> Iterator[Block]:
    """Checked blocks of tensors, with text targets as indices into `labels`."""
    first: Block | None = None
    for number, arrays in enumerate(blocks):
        try:
            rows = max(1, len(arrays[0]))
            source = ArraySource(*arrays, shard_rows=rows)
            if source.labels is not None:
                if labels is None:
                    raise ValueError(f"y holds text such as {source.labels[0]!r}; pass all of them as labels=[...].")
                source = ArraySource(*arrays, shard_rows=rows, labels=labels)
            block = source.read(0)
            if first is None:
                first = Block(*(None if part is None else part[:0].clone() for part in block))  # type: ignore[arg-type]
            _check_alike(first, block)
        except (ValueError, TypeError) as error:
            raise ValueError(f"block {number}: {error}") from error
        yield block


def _check_alike(first: Block, block: Block) -> None:
    if block.X.shape[1] != first.X.shape[1]:
        raise ValueError(f"X must have {first.X.shape[1]} inputs as block 0 has, got {block.X.shape[1]}.")
    if block.y.shape[1:] != first.y.shape[1:]:
        raise ValueError(
            f"y must have rows of shape {tuple(first.y.shape[1:])} as block 0 has, got {tuple(block.y.shape[1:])}."
        )
    if (block.weight is None) != (first.weight is None):
        raise ValueError("weight must be given with all blocks or none.")


def _write(blocks: Iterator[Block], directory: Path, shard_rows: int | None) -> int:
    """Write one .npy file for each part of each shard, and return the number of rows of a shard."""
    first = next(blocks, None)
    if first is None:
        raise ValueError("blocks must hold at least one row, got none.")
    rows = resolve_shard_rows(shard_rows, row_bytes=first.X.shape[1] * first.X.itemsize)
    # An iterator forgets its list once it is exhausted: the first block does not stay in memory to the end.
    stream = chain(iter([first]), blocks)
    del first
    for number, block in enumerate(rebatch(stream, rows)):
        for name, part in zip(Block._fields, block, strict=True):
            if part is not None and part.shape[1:] != (0,):  # y of rows without targets
                _save(directory / f"{number:08d}.{name}.npy", part.cpu().numpy())
    return rows


def _save(path: Path, array: np.ndarray[Any, Any]) -> None:
    """`np.save` through a Python file: NumPy's own writes lose data on a full disk, or report no cause."""
    try:
        with path.open("wb") as file:
            np.save(SimpleNamespace(write=file.write), array, allow_pickle=False)  # not a file: written by Python
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
