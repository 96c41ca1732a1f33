"""A few rows of a source, drawn uniformly."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Generator, Tensor

from bochner import checks


class Block(NamedTuple):
    """Some rows: inputs X [n, d], targets y ([n] class indices, or floats [n] or [n, t]), weights [n] or None."""

    X: Tensor
    y: Tensor
    weight: Tensor | None = None


class Source(Protocol):
    """Rows in shards that can be read in any order, as often as wanted, each the same every time.

    A shard is what is read at once, a few thousand rows: memory is bounded by it, not by the number of rows.
    """

    @property
    def num_inputs(self) -> int: ...

    @property
    def shard_sizes(self) -> Sequence[int]:
        """Rows in each shard."""
        ...

    def read(self, shard: int) -> Block: ...


class BlockSource:
    """Rows in memory that were checked before, such as a sample of another source: one shard, the block itself."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.num_inputs, self.shard_sizes = block.X.shape[1], [len(block.X)]

    def read(self, shard: int) -> Block:
        return self.block


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


def rebatch(blocks: Iterable[Block], rows: int) -> Iterator[Block]:
    """The same rows in the same order, `rows` at a time; only the last block may be shorter.

    What lies inside one block is a view of it, but for the end of the block, which is a copy: whoever still holds the
    last rows does not keep the whole block alive while the next one is read. Memory: one block and `rows` rows.

    >>> blocks = [Block(torch.zeros(n, 1), torch.zeros(n)) for n in (3, 4, 1)]
    >>> [len(block.X) for block in rebatch(blocks, 5)]
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


def seeded(seed: int, purpose: str, *key: int) -> Generator:
    """A generator that is a function of (seed, purpose, key) alone; different keys give independent streams.

    >>> a, b = seeded(0, "rows", 3), seeded(0, "rows", 3)
    >>> a.initial_seed() == b.initial_seed() != seeded(0, "rows", 4).initial_seed()
    True
    """
    sequence = np.random.SeedSequence(
        checks.nonnegative_int("seed", seed), spawn_key=(zlib.crc32(purpose.encode()), *key)
    )
    return Generator().manual_seed(int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1)))


def sample_rows(source: Source, count: int, *, generator: Generator) -> Block:
    """`count` different rows of `source` (all of them if it has fewer), every choice equally likely, in its order.

    Only shards that hold a chosen row are read. Memory: one shard and the chosen rows.

    >>> from bochner.data import ArraySource
    >>> source = ArraySource(torch.arange(9.0)[:, None], shard_rows=2)
    >>> sample_rows(source, 3, generator=Generator().manual_seed(0)).X.shape
    torch.Size([3, 1])
    """
    N = num_rows(source)
    if N == 0:
        raise ValueError("source must hold at least one row, got none.")
    chosen = torch.randperm(N, generator=generator)[: checks.positive_int("count", count)].sort().values
    starts = list(accumulate(source.shard_sizes, initial=0))
    parts = []
    for shard, size in enumerate(source.shard_sizes):
        inside = chosen[(chosen >= starts[shard]) & (chosen < starts[shard] + size)] - starts[shard]
        if len(inside):
            parts.append(take(read_shard(source, shard), inside))
    return concatenate(parts)
