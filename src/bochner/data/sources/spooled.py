"""Any stream of blocks, written to disk once so that it can be read in any order."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from bochner import checks
from bochner.data.blocks import Block
from bochner.data.sources.arrays import ArraySource
from bochner.data.sources.npy import FilePath, ShardedSource
from bochner.data.sources.rows import recut


def spool(
    blocks: Iterable[Block | tuple[Any, ...]], directory: FilePath | None = None, *, shard_rows: int = 8192
) -> SpooledSource:
    """A source of the rows of `blocks`: (X, y) or (X, y, weight) each, as arrays or tensors; y may be None.

    The blocks are consumed once and written as .npy files of `shard_rows` rows. Memory: one block and one shard.
    With `directory` (new or empty) the files stay there, all of them or, after an error, none; else they live in a
    temporary directory until the source is closed or collected.

    >>> import torch
    >>> with spool((torch.full((4, 2), float(i)), torch.arange(4)) for i in range(3)) as source:
    ...     source.shard_sizes
    [12]
    """
    checks.positive_int("shard_rows", shard_rows)
    final = None if directory is None else Path(directory)
    if final is not None and final.exists() and (not final.is_dir() or any(final.iterdir())):
        raise ValueError(f"directory must be new or empty, got {final}, which holds something.")
    if final is not None:
        final.parent.mkdir(parents=True, exist_ok=True)
    # Beside its final place, so that the last step is a rename: a killed run leaves no half-filled `directory`.
    written = Path(tempfile.mkdtemp(prefix="bochner-spool-", dir=None if final is None else final.parent))
    try:
        for number, block in enumerate(recut(_converted(blocks), shard_rows)):
            for word, part in zip(("X", "y", "weight"), block, strict=True):
                if part is not None:
                    np.save(written / f"{number:08d}.{word}.npy", part.cpu().numpy(), allow_pickle=False)
        if not any(written.iterdir()):
            raise ValueError("blocks must hold at least one row, got none.")
        if final is None:
            return SpooledSource(written, shard_rows=shard_rows, temporary=True)
        written.chmod(0o755)
        return SpooledSource(written.replace(final), shard_rows=shard_rows)
    except BaseException:
        shutil.rmtree(written, ignore_errors=True)
        raise


class SpooledSource(ShardedSource):
    """What `spool` wrote; when `temporary`, its directory is removed on `close`, on exit and with the object."""

    def __init__(self, directory: FilePath, *, shard_rows: int = 8192, temporary: bool = False) -> None:
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


def _converted(blocks: Iterable[Block | tuple[Any, ...]]) -> Iterator[Block]:
    first: Block | None = None
    for number, given in enumerate(blocks):
        try:
            source = ArraySource(*given, shard_rows=max(1, len(given[0])))
            block = source.read(0)
            if first is not None:
                _check_alike(first, block)
        except (ValueError, TypeError) as error:
            raise ValueError(f"block {number}: {error}") from error
        if first is None:
            first = Block(*(None if part is None else part[:0].clone() for part in block))  # type: ignore[arg-type]
        yield block


def _check_alike(first: Block, block: Block) -> None:
    if block.X.shape[1] != first.X.shape[1]:
        raise ValueError(f"X must have {first.X.shape[1]} inputs as block 0 has, got {block.X.shape[1]}.")
    if block.y.shape[1:] != first.y.shape[1:]:
        raise ValueError(
            f"y must have rows of shape {tuple(first.y.shape[1:])} as block 0 has, got {tuple(block.y.shape[1:])}."
        )
    if (block.weight is None) != (first.weight is None):
        raise ValueError("weight must come with all blocks or none.")
