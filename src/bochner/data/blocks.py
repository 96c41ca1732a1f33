"""Blocks of rows, the protocol of their sources, and random samples of rows."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Generator, Tensor

from bochner import checks


class Block(NamedTuple):
    """Some rows: inputs X [n, d], targets y ([n] class indices, or floats [n] or [n, t]), weights [n] or None."""

    X: Tensor
    y: Tensor
    weight: Tensor | None = None


class Shards(Protocol):
    """The shape of a source, also defined for rows of tables before they are encoded."""

    @property
    def num_inputs(self) -> int: ...

    @property
    def shard_sizes(self) -> Sequence[int]: ...


@runtime_checkable
class Source(Protocol):
    """Rows in shards, which can be read repeatedly and in any order.

    A shard, usually a few thousand rows, is read at once: it bounds the memory, whatever the number of rows. A source
    may also define `read_targets(shard)`, which reads y without X.
    """

    @property
    def num_inputs(self) -> int: ...

    @property
    def shard_sizes(self) -> Sequence[int]:
        """Rows in each shard."""
        ...

    def read(self, shard: int) -> Block: ...


class BlockSource:
    """A block as a source of one shard, without checks: for rows of another source, such as `sample_rows`."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.num_inputs, self.shard_sizes = block.X.shape[1], [len(block.X)]

    def read(self, shard: int) -> Block:
        return self.block


class MappedSource:
    """`source` with `transform` applied to every block that is read; rows and the meaning of y stay the same.

    `num_inputs` is the width of the transformed inputs, unless it stays the same.

    >>> from bochner.data import ArraySource, EncodeLabels, Standardize, statistics
    >>> source = ArraySource(torch.tensor([[1.0], [3.0]]), torch.tensor([7, 4]))
    >>> _, mean, std, classes = statistics(source)
    >>> MappedSource(MappedSource(source, Standardize(mean, std)), EncodeLabels(classes)).read(0)
    Block(X=tensor([[-1.], [ 1.]]), y=tensor([1, 0]), weight=None)
    """

    def __init__(self, source: Source, transform: Callable[[Block], Block], *, num_inputs: int | None = None) -> None:
        self._source, self._transform = source, transform
        self.num_inputs, self.shard_sizes = num_inputs or source.num_inputs, source.shard_sizes
        self.labels, self.column_names = getattr(source, "labels", None), getattr(source, "column_names", None)
        if self.labels is not None and hasattr(transform, "encode_labels"):
            self.labels = transform.encode_labels(self.labels)

    def read(self, shard: int) -> Block:
        return self._transform(read_shard(self._source, shard))


def read_shard(source: Source, shard: int) -> Block:
    """`source.read(shard)`, with a check that it has the shape that the source declares."""
    block = source.read(shard)
    declared = (source.shard_sizes[shard], source.num_inputs)
    if tuple(block.X.shape) != declared:
        raise ValueError(f"shard {shard} must have shape {declared} as its source says, got {tuple(block.X.shape)}.")
    return block


def read_targets(source: Shards, shard: int) -> Tensor:
    """y of a shard, without reading X where the source can do so."""
    if hasattr(source, "read_targets"):
        return source.read_targets(shard)
    assert isinstance(source, Source)
    return read_shard(source, shard).y


def num_rows(source: Shards) -> int:
    return sum(source.shard_sizes)


def take(block: Block, rows: slice | Tensor) -> Block:
    """Some rows of a block: views for a slice, copies for indices."""
    return Block(block.X[rows], block.y[rows], None if block.weight is None else block.weight[rows])


def concatenate(blocks: Sequence[Block]) -> Block:
    """The rows of all blocks in order; a single block is returned as is."""
    if len(blocks) == 1:
        return blocks[0]
    weights = [block.weight for block in blocks if block.weight is not None]
    if len(weights) not in (0, len(blocks)):
        raise ValueError(f"weights must be given with all blocks or none, got {len(weights)} of {len(blocks)}.")
    return Block(
        torch.cat([block.X for block in blocks]),
        torch.cat([block.y for block in blocks]),
        torch.cat(weights) if weights else None,
    )


def rebatch(blocks: Iterable[Block], rows: int) -> Iterator[Block]:
    """The same rows in the same order, `rows` at a time; only the last block may be shorter.

    Rows inside one block are views of it, except for the last ones, which are copied: a caller that still holds them
    does not keep the whole block alive while the next one is read. Memory: one block and `rows` rows.

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
            if is_last and not carried:
                piece = take(block, torch.arange(start, start + missing))  # a copy
            yield concatenate([*carried, piece])
            start, missing, carried = start + missing, rows, []
            del piece
        if start < size:
            carried.append(take(block, torch.arange(start, size)))
            missing -= size - start
        del block
    if carried:
        yield concatenate(carried)


def seeded(seed: int, purpose: str, *key: int) -> Generator:
    """A generator that depends on (seed, purpose, key) only; different keys give independent streams.

    >>> a, b = seeded(0, "rows", 3), seeded(0, "rows", 3)
    >>> a.initial_seed() == b.initial_seed() != seeded(0, "rows", 4).initial_seed()
    True
    """
    sequence = np.random.SeedSequence(
        checks.nonnegative_int("seed", seed), spawn_key=(zlib.crc32(purpose.encode()), *key)
    )
    return Generator().manual_seed(int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1)))


def sample_rows(source: Source, count: int, *, generator: Generator) -> Block:
    """`count` distinct rows of `source` (all of them if it has fewer), drawn uniformly, in the order of the source.

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
