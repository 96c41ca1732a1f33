"""Minibatches of a source: shuffled for training, in order for evaluation."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import accumulate

import torch
from torch import Tensor

from bochner import checks
from bochner.data.blocks import Block, Source, num_rows, read_shard, rebatch, seeded


def batches(
    source: Source, *, batch_size: int, seed: int, epoch: int, start: int = 0, buffer: int = 8, prefetch: bool = False
) -> Iterator[Block]:
    """One epoch of shuffled batches, from batch `start` on: each row once, all batches full except the last.

    The shards are permuted and read in groups of `buffer` shards; the rows of a group are permuted together. Both
    permutations depend on (seed, epoch) and the group only, so that `start=k` gives the batches k, k + 1, ... of the
    whole epoch without reading the groups before them. A batch inside one group is a view of it.

    Cost: each shard is read once. Memory: one group and one shard; two groups with `prefetch`, which reads the next
    group in a thread while this one is used.

    >>> from bochner.data import ArraySource
    >>> source = ArraySource(torch.arange(5.0)[:, None], torch.arange(5), shard_rows=2)
    >>> whole = [batch.y.tolist() for batch in batches(source, batch_size=2, seed=0, epoch=0)]
    >>> sorted(sum(whole, []))
    [0, 1, 2, 3, 4]
    >>> [batch.y.tolist() for batch in batches(source, batch_size=2, seed=0, epoch=0, start=1)] == whole[1:]
    True
    """
    checks.positive_int("buffer", buffer)
    checks.nonnegative_int("epoch", epoch)
    total = num_batches(source, batch_size)
    if checks.nonnegative_int("start", start) > total:
        raise ValueError(f"start must be at most the number of batches, {total}, got {start}.")
    order = torch.randperm(len(source.shard_sizes), generator=seeded(seed, "shards", epoch)).tolist()
    groups = [order[i : i + buffer] for i in range(0, len(order), buffer)]
    ends = list(accumulate(sum(source.shard_sizes[shard] for shard in group) for group in groups))
    first_row = start * batch_size
    first = bisect_right(ends, first_row)  # the group that holds it
    skip = first_row - (ends[first - 1] if first else 0)
    reads = [
        partial(_read_group, source, group, seeded(seed, "rows", epoch, number), skip if number == first else 0)
        for number, group in enumerate(groups[first:], first)
    ]
    return rebatch(_prefetched(reads) if prefetch else (read() for read in reads), batch_size)


def in_order(source: Source, batch_rows: int) -> Iterator[Block]:
    """All rows in the order of the source, `batch_rows` at a time. Memory: one shard and one batch.

    >>> from bochner.data import ArraySource
    >>> source = ArraySource(torch.zeros(5, 1), torch.arange(5), shard_rows=2)
    >>> [batch.y.tolist() for batch in in_order(source, 3)]
    [[0, 1, 2], [3, 4]]
    """
    checks.positive_int("batch_rows", batch_rows)
    return rebatch((read_shard(source, shard) for shard, size in enumerate(source.shard_sizes) if size), batch_rows)


def num_batches(source: Source, batch_size: int) -> int:
    """Batches in an epoch: ceil(N / batch_size)."""
    return -(-num_rows(source) // checks.positive_int("batch_size", batch_size))


def _read_group(source: Source, shards: Sequence[int], generator: torch.Generator, skip: int) -> Block:
    """The rows of `shards` in random order, without the first `skip`.

    The rows of each shard are written to their final places, so that the group exists in memory once.
    """
    sizes = [source.shard_sizes[shard] for shard in shards]
    places = torch.randperm(sum(sizes), generator=generator).split(sizes)
    group: list[Tensor | None] = []
    for shard, rows in zip(shards, places, strict=True):
        block = read_shard(source, shard)
        if not group:
            group = [None if part is None else part.new_empty(sum(sizes), *part.shape[1:]) for part in block]
        for name, whole, part in zip(Block._fields, group, block, strict=True):
            if (whole is None) != (part is None):
                raise ValueError(f"shard {shard} must have {name} when the other shards have it.")
            if whole is None or part is None:
                continue
            if whole.dtype != part.dtype or whole.shape[1:] != part.shape[1:]:
                raise ValueError(
                    f"shard {shard} must have {name} of dtype {whole.dtype} and rows of shape {tuple(whole.shape[1:])} "
                    f"as the other shards, got {part.dtype} and {tuple(part.shape[1:])}."
                )
            whole[rows.to(whole.device)] = part
    return Block(*(None if part is None else part[skip:] for part in group))  # type: ignore[arg-type]


def _prefetched(reads: Iterable[Callable[[], Block]]) -> Iterator[Block]:
    """The results of `reads` in order, the next one computed in a thread while this one is used.

    An exception in a read is raised where its result would be yielded; closing the iterator waits for a running read.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="bochner-prefetch") as pool:
        pending: Future[Block] | None = None
        for read in reads:
            following = pool.submit(read)
            if pending is not None:
                yield pending.result()
            pending = following
        if pending is not None:
            yield pending.result()
