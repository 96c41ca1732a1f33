"""Shuffled batches in several processes, each of which reads a part of the shards."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import torch
from torch import Tensor
from torch import distributed as dist

from bochner.data.batches import num_batches
from bochner.data.blocks import Block, Source, concatenate, num_rows, read_shard, seeded, take
from bochner.solvers.parallel.workers import Workers, share


def shared_batches(
    source: Source,
    group: Workers,
    sizes: deque[int],
    *,
    batch_size: int,
    seed: int,
    epoch: int,
    start: int = 0,
    buffer: int = 8,
) -> Iterator[Block]:
    """This process's share of each batch of `bochner.data.batches`; the size of the whole batch is appended to `sizes`.

    Of each group of `buffer` shards, process r of R reads the shards r, r + R, ... and sends each of their rows to the
    process whose share it belongs to. The order of the rows is that of `batches`, a function of (seed, epoch), so that
    all processes know what they receive. Memory and reading: 1 / R of those of one process. Messages: each row once.
    """
    N, first_row = num_rows(source), start * batch_size
    held: list[Block] = []  # own rows of batches that are not complete yet, in order
    like: Block | None = None
    position, batch = 0, start
    shuffled = torch.randperm(len(source.shard_sizes), generator=seeded(seed, "shards", epoch)).tolist()
    for number, first in enumerate(range(0, len(shuffled), buffer)):
        shards = shuffled[first : first + buffer]
        counts = [source.shard_sizes[shard] for shard in shards]
        places = torch.randperm(sum(counts), generator=seeded(seed, "rows", epoch, number)).split(counts)
        begin, position = position, position + sum(map(len, places))
        if position <= first_row:
            continue
        # the position in the epoch of every row of every shard, and the process that it belongs to
        positions = [begin + rows for rows in places]
        owners = [_owners(rows, batch_size, N, group.num_shares, first_row) for rows in positions]
        own = [read_shard(source, shard) for shard in shards[group.share_number :: group.num_shares]]
        if like is None:  # a process without a shard needs the dtypes of the others
            like = take(own[0] if own else read_shard(source, shards[0]), slice(0, 0))
        rows, order = _exchange(own, positions, owners, like, group)
        del own
        held.append(take(rows, order))
        while batch < num_batches(source, batch_size) and min((batch + 1) * batch_size, N) <= position:
            size = min(batch_size, N - batch * batch_size)
            part = share(size, group.share_number, group.num_shares)
            joined = concatenate(held)
            count = part.stop - part.start
            sizes.append(size)
            yield take(joined, slice(0, count))
            held, batch = [take(joined, slice(count, len(joined.y)))], batch + 1


def _owners(positions: Tensor, batch_size: int, num_rows: int, num_shares: int, first_row: int) -> Tensor:
    """The share of its batch that each row belongs to; -1 for rows before `first_row`.

    Share q of n rows is [n q // S, n (q + 1) // S), so that row o belongs to share (S (o + 1) - 1) // n.
    """
    sizes = (num_rows - positions // batch_size * batch_size).clamp_max(batch_size)
    owners = (num_shares * (positions % batch_size + 1) - 1) // sizes
    return torch.where(positions < first_row, -1, owners)


def _exchange(
    own: list[Block], positions: list[Tensor], owners: list[Tensor], like: Block, group: Workers
) -> tuple[Block, Tensor]:
    """The rows that belong to this process, from all processes, and their order by position."""
    S, me = group.num_shares, group.share_number
    numbers = range(len(owners))
    # rows [p, q] that process p sends to process q
    counts = [[sum(int((owners[i] == q).sum()) for i in numbers if i % S == p) for q in range(S)] for p in range(S)]
    received = [counts[p][me] for p in range(S)]
    places = torch.cat([positions[i][owners[i] == me] for p in range(S) for i in numbers if i % S == p])
    parts: list[Tensor | None] = []
    for name, sample in zip(Block._fields, like, strict=True):
        if sample is None:
            parts.append(None)
            continue
        pieces = [
            getattr(block, name)[owners[i] == q] for q in range(S) for i, block in zip(numbers[me::S], own, strict=True)
        ]
        sent = torch.cat(pieces) if pieces else sample
        target = sample.new_empty(sum(received), *sample.shape[1:])
        dist.all_to_all_single(target, sent.contiguous(), received, counts[me], group=group.grid.get_group("data"))
        parts.append(target)
    return Block(*parts), places.argsort()  # type: ignore[arg-type]
