"""A few rows of a source, drawn uniformly."""

from __future__ import annotations

from itertools import accumulate

import torch
from torch import Generator

from bochner import checks
from bochner.data.blocks import Block, Source
from bochner.data.sources.rows import concatenate, num_rows, read_shard, take


def sample_rows(source: Source, count: int, *, generator: Generator) -> Block:
    """`count` different rows of `source` (all of them if it has fewer), every choice equally likely, in its order.

    Only shards that hold a chosen row are read. Memory: one shard and the chosen rows.

    >>> from bochner.data.sources import ArraySource
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
