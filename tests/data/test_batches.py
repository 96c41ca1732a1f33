"""Shuffled batches: each row once, in random order, exactly resumable, in bounded memory."""

from __future__ import annotations

import threading
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bochner.data import ArraySource, split
from bochner.data.batches import batches, in_order, num_batches
from bochner.data.blocks import Block

shapes = {
    "n": st.integers(1, 80),
    "shard_rows": st.integers(1, 12),
    "batch_size": st.integers(1, 7) | st.integers(1, 100),
    "buffer": st.integers(1, 4),
}


class Counted(ArraySource):
    """Rows numbered in X, y and weight, and the shards that were read."""

    def __init__(self, n: int, shard_rows: int) -> None:
        super().__init__(np.arange(float(n))[:, None], np.arange(n), np.arange(n), shard_rows=shard_rows)
        self.reads: list[int] = []

    def read(self, shard: int) -> Block:
        self.reads.append(shard)
        return super().read(shard)


def order(source, **options) -> list[int]:
    options = {"batch_size": 4, "seed": 0, "epoch": 0} | options
    return [row for batch in batches(source, **options) for row in batch.y.tolist()]


@given(**shapes, seed=st.integers(0, 2**40), epoch=st.integers(0, 1000))
def test_each_row_once_in_full_batches(n, shard_rows, batch_size, buffer, seed, epoch) -> None:
    source = Counted(n, shard_rows)
    got = list(batches(source, batch_size=batch_size, seed=seed, epoch=epoch, buffer=buffer))
    assert sorted(row for batch in got for row in batch.y.tolist()) == list(range(n))
    assert all(len(batch.X) == batch_size for batch in got[:-1])
    assert len(got) == num_batches(source, batch_size)
    assert sorted(source.reads) == list(range(len(source.shard_sizes)))
    for X, y, weight in got:
        assert X[:, 0].tolist() == y.tolist() == weight.tolist()


@given(**shapes, data=st.data(), prefetch=st.booleans())
def test_resumed_anywhere(n, shard_rows, batch_size, buffer, data, prefetch) -> None:
    source = Counted(n, shard_rows)
    options = {"batch_size": batch_size, "seed": 3, "epoch": 5, "buffer": buffer, "prefetch": prefetch}
    whole = list(batches(source, **options))
    start = data.draw(st.integers(0, len(whole)))
    source.reads.clear()
    resumed = list(batches(source, start=start, **options))
    assert len(resumed) == len(whole) - start
    for got, wanted in zip(resumed, whole[start:], strict=True):
        assert all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))
    # no more groups are read than those that hold the rows from `start` on
    rows_left = n - start * batch_size
    assert len(source.reads) <= -(-max(rows_left, 0) // shard_rows) + 2 * buffer


def test_resumed_at_every_batch() -> None:
    source = Counted(100, 7)
    whole = order(source, buffer=2)
    for start in range(26):
        assert order(source, buffer=2, start=start) == whole[4 * start :]


def test_groups_before_the_start_are_not_read() -> None:
    source = Counted(400, 10)  # 40 shards, 10 groups of 40 rows
    list(batches(source, batch_size=16, seed=0, epoch=0, start=20, buffer=4))  # row 320: group 8 begins
    assert len(source.reads) == 8
    source.reads.clear()
    list(batches(source, batch_size=16, seed=0, epoch=0, start=19, buffer=4))  # row 304: inside group 7
    assert len(source.reads) == 12
    source.reads.clear()
    assert list(batches(source, batch_size=16, seed=0, epoch=0, start=25, buffer=4)) == []
    assert source.reads == []


def test_epochs_and_seeds_differ() -> None:
    source = Counted(60, 7)
    orders = {tuple(order(source, seed=seed, epoch=epoch)) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25


def test_the_order_does_not_change_between_versions() -> None:
    """A resumed run may use a later version: these numbers must not change."""
    assert order(Counted(12, 3), seed=1, epoch=2, buffer=2) == FIXED


FIXED = [6, 7, 3, 5, 4, 8, 0, 11, 2, 1, 10, 9]


def test_global_randomness_is_left_alone() -> None:
    torch.manual_seed(0)
    np.random.seed(0)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    list(batches(Counted(50, 7), batch_size=4, seed=0, epoch=0))
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])


def test_each_row_may_come_anywhere() -> None:
    """Positions over epochs are uniform: mean (n - 1) / 2 within 4.5 standard errors, for each row and each decile."""
    n, epochs = 40, 1500
    source = ArraySource(np.zeros((n, 1)), np.arange(n), shard_rows=4)
    position = np.empty((epochs, n))
    for epoch in range(epochs):
        position[epoch, order(source, epoch=epoch, buffer=3)] = np.arange(n)
    error = np.sqrt((n**2 - 1) / 12 / epochs)
    assert np.abs(position.mean(0) - (n - 1) / 2).max() < 4.5 * error
    for decile in range(10):
        share = (position // (n / 10) == decile).mean(0)
        assert np.abs(share - 0.1).max() < 4.5 * np.sqrt(0.09 / epochs)


def test_neighbours_are_separated() -> None:
    """Few neighbouring rows of the source are neighbours in a batch, as in a full shuffle."""
    n, together = 2000, []
    source = ArraySource(np.zeros((n, 1)), np.arange(n), shard_rows=50)
    for epoch in range(20):
        together.append((np.abs(np.diff(order(source, epoch=epoch, buffer=8))) == 1).mean())
    # Within a group of 8 shards the chance is about 2 / 400, in a full shuffle 2 / 2000.
    assert np.mean(together) < 0.0075


def test_empty_shards() -> None:
    train, validation = split(Counted(30, 1), 0.2, seed=0)
    assert 0 in validation.shard_sizes
    for part in (train, validation):
        rows = order(part, buffer=3)
        assert len(rows) == len(set(rows)) == sum(part.shard_sizes)
        assert len(list(in_order(part, 100))) == 1


@given(n=st.integers(1, 60), shard_rows=st.integers(1, 20), batch_rows=st.integers(1, 70))
def test_in_order(n: int, shard_rows: int, batch_rows: int) -> None:
    got = list(in_order(Counted(n, shard_rows), batch_rows))
    assert [row for batch in got for row in batch.y.tolist()] == list(range(n))
    assert all(len(batch.X) == batch_rows for batch in got[:-1])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"batch_size": 0}, "batch_size must be an integer of at least 1, got 0"),
        ({"buffer": 0}, "buffer must be an integer of at least 1, got 0"),
        ({"seed": -1}, "seed must be an integer of at least 0, got -1"),
        ({"epoch": -1}, "epoch must be an integer of at least 0, got -1"),
        ({"start": -1}, "start must be an integer of at least 0, got -1"),
        ({"start": 4}, "start must be at most the number of batches, 3, got 4"),
    ],
)
def test_arguments_are_checked_at_once(wrong: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        batches(Counted(10, 3), **{"batch_size": 4, "seed": 0, "epoch": 0} | wrong)


class Broken(Counted):
    def __init__(self, change) -> None:
        super().__init__(40, 5)
        self.change = change

    def read(self, shard: int) -> Block:
        block = super().read(shard)
        return self.change(block) if shard == 3 else block


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda block: block._replace(X=block.X[:, :0]), r"shard 3 must have shape \(5, 1\) .* got \(5, 0\)"),
        (lambda block: Block(*(part[:4] for part in block)), r"shard 3 must have shape \(5, 1\) .* got \(4, 1\)"),
        (lambda block: block._replace(weight=None), "shard . must have weight when the other shards have it"),
        (lambda block: block._replace(y=block.y.float()), "shard . must have y of dtype"),
    ],
)
@pytest.mark.parametrize("prefetch", [False, True])
def test_a_source_that_differs_from_its_declaration(change, message: str, prefetch: bool) -> None:
    with pytest.raises(ValueError, match=message):
        order(Broken(change), prefetch=prefetch)


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("bochner")]


def test_prefetch_changes_nothing_and_leaves_no_thread() -> None:
    source = Counted(100, 7)
    assert order(source, buffer=2, prefetch=True) == order(source, buffer=2)
    iterator = batches(source, batch_size=3, seed=0, epoch=0, buffer=2, prefetch=True)
    assert len(list(islice(iterator, 2))) == 2
    assert len(threads()) == 1
    iterator.close()
    assert threads() == []


def test_prefetch_reads_one_group_ahead_and_no_more() -> None:
    source = Counted(100, 10)
    iterator = batches(source, batch_size=10, seed=0, epoch=0, buffer=2, prefetch=True)
    next(iterator)
    iterator.close()
    assert len(source.reads) <= 4


def test_an_error_while_prefetching_comes_out() -> None:
    def fail(block: Block) -> Block:
        raise OSError("disk on fire")

    got = []
    with pytest.raises(OSError, match="disk on fire"):
        got.extend(batches(Broken(fail), batch_size=5, seed=0, epoch=0, buffer=1, prefetch=True))
    assert threads() == []
    shards = torch.cat([batch.y for batch in got]).div(5, rounding_mode="floor").unique() if got else []
    assert 3 not in shards
    assert len(got) == len(shards)  # all groups before the broken one came out
