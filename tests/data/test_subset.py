"""The validation part: fixed, disjoint from the rest, complete with it, and fair."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bochner.data import ArraySource, split
from tests.data.test_conformance import whole


def numbered(n: int, shard_rows: int) -> ArraySource:
    return ArraySource(torch.arange(float(n))[:, None], torch.arange(n), shard_rows=shard_rows)


@given(n=st.integers(2, 60), shard_rows=st.integers(1, 70), fraction=st.floats(0.001, 0.999), seed=st.integers(0, 9))
def test_a_partition(n: int, shard_rows: int, fraction: float, seed: int) -> None:
    source = numbered(n, shard_rows)
    train, validation = (whole(part).y.tolist() for part in split(source, fraction, seed))
    assert sorted(train + validation) == list(range(n))
    assert len(validation) == min(max(round(fraction * n), 1), n - 1)
    assert validation == whole(split(source, fraction, seed)[1]).y.tolist()


def test_nothing_is_read() -> None:
    source = numbered(100, 10)
    source.read = None
    train, validation = split(source, 0.2, seed=0)
    assert (sum(train.shard_sizes), sum(validation.shard_sizes)) == (80, 20)


def test_every_row_is_held_out_equally_often() -> None:
    seeds, n = 2000, 30
    counts = np.zeros(n)
    for seed in range(seeds):
        counts[whole(split(numbered(n, 7), 0.2, seed)[1]).y] += 1
    assert np.abs(counts / seeds - 0.2).max() < 5 * np.sqrt(0.2 * 0.8 / seeds)


def test_seeds_differ() -> None:
    parts = {tuple(whole(split(numbered(50, 10), 0.2, seed)[1]).y) for seed in range(20)}
    assert len(parts) == 20


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 1.5, float("nan"), "half", None])
def test_fractions_that_are_none(fraction: object) -> None:
    with pytest.raises(ValueError, match=r"validation_fraction.*0.*1"):
        split(numbered(10, 5), fraction, 0)


def test_one_row() -> None:
    with pytest.raises(ValueError, match="source must have at least 2 rows to be split, got 1"):
        split(numbered(1, 5), 0.5, 0)


@pytest.mark.parametrize("seed", [-1, 0.5, None, True])
def test_seeds_that_are_none(seed: object) -> None:
    with pytest.raises(ValueError, match="seed must be an integer of at least 0"):
        split(numbered(10, 5), 0.5, seed)
