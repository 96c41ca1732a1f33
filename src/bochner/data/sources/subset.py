"""A fixed part of the rows, held out from the rest."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from numbers import Real

import torch
from torch import Tensor

from bochner.data.blocks import Block, Source
from bochner.data.sources.labels import column_names_of, labels_of
from bochner.data.sources.rows import num_rows, read_shard, read_targets, take
from bochner.data.sources.seeds import seeded


def split(source: Source, heldout_fraction: float, seed: int) -> tuple[SubsetSource, SubsetSource]:
    """The rows in two: (train, heldout), the same for the same seed, chosen without reading any of them.

    Of N rows round(heldout_fraction N) are held out (at least 1, at most N - 1), spread evenly over the shards; within
    a shard every choice of rows is equally likely. Both parts keep the shards, and reading one of theirs reads the
    whole shard below it: `spool(heldout)` a small heldout part that is to be read often. No memory beyond one shard.

    >>> from bochner.data.sources import ArraySource
    >>> train, heldout = split(ArraySource(torch.arange(10.0)[:, None], shard_rows=5), 0.2, seed=0)
    >>> train.shard_sizes, heldout.shard_sizes
    ([4, 4], [1, 1])
    """
    N = num_rows(source)
    if not isinstance(heldout_fraction, Real) or not 0 < heldout_fraction < 1:
        raise ValueError(f"heldout_fraction must lie between 0 and 1, got {heldout_fraction!r}.")
    if N < 2:
        raise ValueError(f"source must have at least 2 rows to be split, got {N}.")
    total = min(max(round(heldout_fraction * N), 1), N - 1)
    offset = int(torch.randint(N, (), generator=seeded(seed, "heldout-counts")))
    ends = accumulate(source.shard_sizes, initial=0)
    # Rounding the running sum gives each shard its share and all of them together exactly `total`.
    counts = [b - a for a, b in pairwise((total * end + offset) // N for end in ends)]
    return SubsetSource(source, counts, seed, heldout=False), SubsetSource(source, counts, seed, heldout=True)


class SubsetSource:
    """Of each shard the `counts[shard]` rows that are held out, or the others; made by `split`."""

    def __init__(self, source: Source, counts: Sequence[int], seed: int, *, heldout: bool) -> None:
        self._source, self._counts, self._seed, self._heldout = source, counts, seed, heldout
        self.num_inputs, self.labels, self.column_names = source.num_inputs, labels_of(source), column_names_of(source)
        self.shard_sizes = [
            count if heldout else size - count for size, count in zip(source.shard_sizes, counts, strict=True)
        ]

    def read(self, shard: int) -> Block:
        return take(read_shard(self._source, shard), self._rows(shard))

    def read_targets(self, shard: int) -> Tensor:
        return read_targets(self._source, shard)[self._rows(shard)]

    def _rows(self, shard: int) -> Tensor:
        size, count = self._source.shard_sizes[shard], self._counts[shard]
        order = torch.randperm(size, generator=seeded(self._seed, "heldout-rows", shard))
        return (order[:count] if self._heldout else order[count:]).sort().values
