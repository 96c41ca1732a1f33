"""Any stream of blocks, written to disk once so that it can be read in any order."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from bochner.data.arrays import ArraySource, rows_per_shard
from bochner.data.blocks import Block, Source, read_shard, rebatch
from bochner.data.labels import StoredNames, checked_labels, column_names_of, labels_of, write_names
from bochner.data.npy import FilePath, ShardedSource


def cache_to_disk(
    blocks: Source | Iterable[Block | tuple[Any, ...]],
    directory: FilePath | None = None,
    *,
    shard_rows: int | None = None,
    labels: Sequence[str] | None = None,
    column_names: Sequence[str] | None = None,
) -> CachedSource:
    """A source of the rows of `blocks`: (X, y) or (X, y, weight) each, as arrays or tensors; y may be None.

    A source may be given too, where reading it is expensive. The blocks are read once and written as .npy files of
    `shard_rows` rows. Memory: one block and one shard. With `directory` (new or empty) the files stay there, all of
    them or, after an error, none; else they live in a temporary directory until the source is closed or collected.

    Text in y needs `labels`, since a stream is read once; integers in y beside `labels` are places in them already.
    `labels` and `column_names` are by default those of `blocks`, where it has them, and are kept with the files.

    >>> import torch
    >>> with cache_to_disk((torch.full((4, 2), float(i)), torch.arange(4)) for i in range(3)) as source:
    ...     source.shard_sizes
    [12]
    """
    names = _names(blocks, labels, column_names)
    final = _new_directory(directory)
    # Beside its final place, so that the last step is a rename: a killed run leaves no half-filled `directory`.
    written = Path(tempfile.mkdtemp(prefix="bochner-cache-", dir=None if final is None else final.parent))
    try:
        rows = _write(_converted(_stream(blocks), names.labels), written, shard_rows)
        write_names(written, names)
        if final is None:
            return CachedSource(written, shard_rows=rows, temporary=True)
        written.chmod(0o755)
        return CachedSource(written.replace(final), shard_rows=rows)
    except BaseException:
        shutil.rmtree(written, ignore_errors=True)
        raise


class CachedSource(ShardedSource):
    """The files of `cache_to_disk`; a `temporary` directory is removed on `close`, on exit and with the object."""

    def __init__(
        self,
        directory: FilePath,
        *,
        shard_rows: int | None = None,
        temporary: bool = False,
    ) -> None:
        super().__init__(directory, shard_rows=shard_rows)
        self._remove = weakref.finalize(self, shutil.rmtree, os.fspath(directory), True) if temporary else None

    def close(self) -> None:
        if self._remove is not None:
            self._remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _names(blocks: object, labels: Sequence[str] | None, column_names: Sequence[str] | None) -> StoredNames:
    words = labels_of(blocks) if labels is None else checked_labels(labels)
    columns = column_names_of(blocks) if column_names is None else tuple(column_names)
    return StoredNames(words, columns)


def _new_directory(directory: FilePath | None) -> Path | None:
    if directory is None:
        return None
    final = Path(directory)
    if final.exists() and (not final.is_dir() or any(final.iterdir())):
        raise ValueError(f"directory must be new or empty, got {final}, which holds something.")
    final.parent.mkdir(parents=True, exist_ok=True)
    return final


def _stream(blocks: Any) -> Iterable[Block | tuple[Any, ...]]:
    if not hasattr(blocks, "shard_sizes"):
        return blocks
    return (read_shard(blocks, shard) for shard, size in enumerate(blocks.shard_sizes) if size)


def _write(blocks: Iterator[Block], directory: Path, shard_rows: int | None) -> int:
    """One .npy file of each part and shard; the rows of a shard."""
    first = next(blocks, None)
    rows = rows_per_shard(shard_rows, row_bytes=1 if first is None else first.X.shape[1] * first.X.itemsize)
    if first is None:
        raise ValueError("blocks must hold at least one row, got none.")
    held = [first]
    del first
    for number, block in enumerate(rebatch(_with_first(held, blocks), rows)):
        for word, part in zip(("X", "y", "weight"), block, strict=True):
            if part is not None and part.shape[1:] != (0,):  # y of rows without targets
                np.save(directory / f"{number:08d}.{word}.npy", part.cpu().numpy(), allow_pickle=False)
    return rows


def _with_first(held: list[Block], others: Iterator[Block]) -> Iterator[Block]:
    yield held.pop()  # it must not stay in memory to the end
    yield from others


def _converted(blocks: Iterable[Block | tuple[Any, ...]], labels: tuple[str, ...] | None) -> Iterator[Block]:
    first: Block | None = None
    for number, given in enumerate(blocks):
        try:
            block = _block(given, labels)
            if first is not None:
                _check_alike(first, block)
        except (ValueError, TypeError) as error:
            raise ValueError(f"block {number}: {error}") from error
        if first is None:
            first = Block(*(None if part is None else part[:0].clone() for part in block))  # type: ignore[arg-type]
        yield block


def _block(given: Block | tuple[Any, ...], labels: tuple[str, ...] | None) -> Block:
    rows = max(1, len(given[0]))
    source = ArraySource(*given, shard_rows=rows)
    if source.labels is None:
        return source.read(0)
    if labels is None:
        raise ValueError(f"y holds text such as {source.labels[0]!r}; pass all of them as labels=[...].")
    return ArraySource(*given, shard_rows=rows, labels=labels).read(0)


def _check_alike(first: Block, block: Block) -> None:
    if block.X.shape[1] != first.X.shape[1]:
        raise ValueError(f"X must have {first.X.shape[1]} inputs as block 0 has, got {block.X.shape[1]}.")
    if block.y.shape[1:] != first.y.shape[1:]:
        raise ValueError(
            f"y must have rows of shape {tuple(first.y.shape[1:])} as block 0 has, got {tuple(block.y.shape[1:])}."
        )
    if (block.weight is None) != (first.weight is None):
        raise ValueError("weight must come with all blocks or none.")
