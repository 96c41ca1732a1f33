"""Rows of blocks: taken, joined and cut anew, without a copy where a view will do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor

from bochner.data.blocks import Block, Source


def read_shard(source: Source, shard: int) -> Block:
    """`source.read(shard)`, held to what the source said of it: its rows and its inputs."""
    block = source.read(shard)
    promised = (source.shard_sizes[shard], source.num_inputs)
    if tuple(block.X.shape) != promised:
        raise ValueError(f"shard {shard} must have shape {promised} as its source says, got {tuple(block.X.shape)}.")
    return block


def read_targets(source: Source, shard: int) -> Tensor:
    """y of a shard; where the source can do it, the inputs are not read."""
    read: Callable[[int], Tensor] | None = getattr(source, "read_targets", None)
    return read_shard(source, shard).y if read is None else read(shard)


def num_rows(source: Source) -> int:
    return sum(source.shard_sizes)


def take(block: Block, rows: slice | Tensor) -> Block:
    """Those rows of a block: views for a slice, copies for indices."""
    return _each(lambda part: part[rows], block)


def concatenate(blocks: Sequence[Block]) -> Block:
    """The rows of all blocks, one after the other; a single block is given back as it is."""
    if len(blocks) == 1:
        return blocks[0]
    weights = [block.weight for block in blocks if block.weight is not None]
    if len(weights) not in (0, len(blocks)):
        raise ValueError(f"weights must come with all blocks or none, got them with {len(weights)} of {len(blocks)}.")
    return Block(
        torch.cat([block.X for block in blocks]),
        torch.cat([block.y for block in blocks]),
        torch.cat(weights) if weights else None,
    )


def recut(blocks: Iterable[Block], rows: int) -> Iterator[Block]:
    """The same rows in the same order, `rows` at a time; only the last block may be shorter.

    What lies inside one block is a view of it, but for the end of the block, which is a copy: whoever still holds the
    last rows does not keep the whole block alive while the next one is read. Memory: one block and `rows` rows.

    >>> blocks = [Block(torch.zeros(n, 1), torch.zeros(n)) for n in (3, 4, 1)]
    >>> [len(block.X) for block in recut(blocks, 5)]
    [5, 3]
    """
    carried: list[Block] = []
    missing = rows
    for block in blocks:
        start, size = 0, len(block.X)
        while size - start >= missing:
            piece = take(block, slice(start, start + missing))
            is_last = start > 0 and size - start - missing < rows
            yield concatenate([*carried, piece]) if carried or not is_last else _each(torch.clone, piece)
            start, missing, carried = start + missing, rows, []
            del piece
        if start < size:
            carried.append(_each(torch.clone, take(block, slice(start, size))))
            missing -= size - start
        del block
    if carried:
        yield concatenate(carried)


def _each(change: Callable[[Tensor], Tensor], block: Block) -> Block:
    return Block(change(block.X), change(block.y), None if block.weight is None else change(block.weight))
