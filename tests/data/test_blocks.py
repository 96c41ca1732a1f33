"""Samples of a source: uniform, distinct, in order, read only from their shards; and a block as a source."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Generator

from bochner.data import ArraySource, BlockSource, in_order
from bochner.data.blocks import Block, concatenate, read_targets, sample_rows


def generator(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def numbered(count: int = 40, **options) -> ArraySource:
    X = torch.arange(count, dtype=torch.float32)[:, None]
    return ArraySource(X, torch.arange(count), X[:, 0] / 10, shard_rows=7, **options)


def test_rows_are_different_in_order_and_whole() -> None:
    block = sample_rows(numbered(), 15, generator=generator())
    rows = block.y.tolist()
    assert len(set(rows)) == 15
    assert rows == sorted(rows)
    np.testing.assert_array_equal(block.X[:, 0], rows)
    np.testing.assert_allclose(block.weight, np.array(rows) / 10, rtol=1e-6)


@pytest.mark.parametrize("count", [40, 41, 10**6])
def test_all_rows_when_there_are_no_more(count: int) -> None:
    assert sample_rows(numbered(), count, generator=generator()).y.tolist() == list(range(40))


def test_every_row_and_every_pair_is_equally_likely() -> None:
    source, G = numbered(12), generator()
    rows, pairs = np.zeros(12), np.zeros((12, 12))
    for _ in range(2000):
        chosen = sample_rows(source, 3, generator=G).y.numpy()
        rows[chosen] += 1
        pairs[np.ix_(chosen, chosen)] += 1
    assert chisquare(rows).pvalue > 1e-3
    assert chisquare(pairs[np.triu_indices(12, 1)]).pvalue > 1e-3


def test_the_generator_decides() -> None:
    first, again, other = (sample_rows(numbered(), 10, generator=generator(seed)).y.tolist() for seed in (0, 0, 1))
    assert first == again != other


class CountedSource(ArraySource):
    reads: list[int]

    def read(self, shard: int) -> Block:
        self.reads.append(shard)
        return super().read(shard)


def test_only_shards_with_a_chosen_row_are_read_and_once() -> None:
    source = CountedSource(torch.zeros(1000, 1), torch.arange(1000), shard_rows=10)
    source.reads = []
    chosen = sample_rows(source, 5, generator=generator()).y
    assert source.reads == sorted({int(row) // 10 for row in chosen})


class Gaps:
    """Some shards are empty, as after a split into training and validation rows."""

    num_inputs, shard_sizes = 1, (0, 2, 0, 3, 0)

    def read(self, shard: int) -> Block:
        rows = torch.full((self.shard_sizes[shard], 1), float(shard))
        return Block(rows, rows[:, 0].long())


def test_empty_shards() -> None:
    assert sample_rows(Gaps(), 9, generator=generator()).y.tolist() == [1, 1, 3, 3, 3]


def test_bad_arguments() -> None:
    for count in (0, -1, 2.5, True):
        with pytest.raises(ValueError, match="count must be an integer of at least 1"):
            sample_rows(numbered(), count, generator=generator())

    X = torch.zeros(2, 1)
    with pytest.raises(ValueError, match="weights must be given with all blocks or none, got 1 of 3"):
        concatenate([Block(X, X[:, 0], None), Block(X, X[:, 0], X[:, 0]), Block(X, X[:, 0], None)])

    class Empty(Gaps):
        shard_sizes = (0,)

    with pytest.raises(ValueError, match="source must hold at least one row, got none"):
        sample_rows(Empty(), 3, generator=generator())


def test_a_block_is_a_source_of_one_shard() -> None:
    block = sample_rows(numbered(), 15, generator=generator())
    source = BlockSource(block)
    assert (source.num_inputs, source.shard_sizes) == (1, [15])
    assert source.read(0) is block
    assert torch.equal(read_targets(source, 0), block.y)
    assert [len(batch.X) for batch in in_order(source, 10)] == [10, 5]
