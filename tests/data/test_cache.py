"""Streams of blocks on disk: the same rows, bounded memory, all or nothing."""

from __future__ import annotations

import errno
import gc
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bochner.data import ArraySource, ShardedSource, cache_to_disk
from bochner.data.batches import in_order
from bochner.data.blocks import Block
from tests.data.cases import rows
from tests.data.test_conformance import assert_same, whole


def blocks(sizes: list[int]):
    first = 0
    for n in sizes:
        y = torch.arange(first, first + n)
        yield Block(y[:, None].float(), y)
        first += n


@settings(max_examples=30)
@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=8), shard_rows=st.integers(1, 12))
def test_the_rows_in_full_shards(sizes: list[int], shard_rows: int) -> None:
    with cache_to_disk(blocks(sizes), shard_rows=shard_rows) as source:
        assert whole(source).y.tolist() == list(range(sum(sizes)))
        assert set(source.shard_sizes[:-1]) <= {shard_rows}


def test_a_source_is_cached(tmp_path: Path) -> None:
    data = rows(weighted=True)
    cache_to_disk(in_order(ArraySource(*data, shard_rows=3), 7), tmp_path / "kept", shard_rows=4)
    assert_same(whole(ShardedSource(tmp_path / "kept")), data)


def test_blocks_without_targets() -> None:
    with cache_to_disk([(np.ones((3, 2)), None)]) as source:
        assert source.read(0).y.shape == (3, 0)


def test_temporary_files_are_removed_with_the_source() -> None:
    with cache_to_disk(blocks([3])) as source:
        directory = source.directory
        assert directory.exists()
    assert not directory.exists()
    source = cache_to_disk(blocks([3]))
    directory = source.directory
    del source
    gc.collect()
    assert not directory.exists()


def test_a_failed_stream_leaves_nothing(tmp_path: Path) -> None:
    def broken():
        yield from blocks([5, 5])
        raise OSError("the line went dead")

    with pytest.raises(OSError, match="the line went dead"):
        cache_to_disk(broken(), tmp_path / "kept", shard_rows=2)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(OSError, match="No space left"):
        cache_to_disk(blocks([5]), tmp_path / "kept")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("chapter 1")
    with pytest.raises(ValueError, match="directory must be new or empty"):
        cache_to_disk(blocks([3]), tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "chapter 1"
    (tmp_path / "empty").mkdir()
    assert sum(cache_to_disk(blocks([3]), tmp_path / "empty").shard_sizes) == 3


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ((np.ones((2, 4)), np.ones(2)), "block 1: X must have 3 inputs as block 0 has, got 4"),
        ((np.ones((2, 3)), np.ones(3)), "block 1: y must have as many rows as X, 2, got 3"),
        ((np.ones((2, 3)), np.ones((2, 2))), r"block 1: y must have rows of shape \(\) as block 0 has, got \(2,\)"),
        ((np.ones((2, 3)), np.ones(2), np.ones(2)), "block 1: weight must be given with all blocks or none"),
        ((np.full((2, 3), np.nan), np.ones(2)), "block 1: X must be finite, but row 0, column 0 is nan"),
    ],
)
def test_blocks_that_do_not_fit(second, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cache_to_disk([(np.ones((2, 3)), np.ones(2)), second])


def test_blocks_of_mixed_types_become_the_widest() -> None:
    with cache_to_disk([(np.ones((2, 3), "float32"), np.ones(2, int)), (np.ones((2, 3)), np.full(2, 0.5))]) as source:
        got = whole(source)
    assert (got.X.dtype, got.y.tolist()) == (np.float64, [1, 1, 0.5, 0.5])


def test_no_blocks() -> None:
    with pytest.raises(ValueError, match="blocks must hold at least one row"):
        cache_to_disk([])


@pytest.mark.parametrize("num_rows", [300, 3000])
def test_a_file_that_cannot_be_written_whole_is_an_error_with_its_name(num_rows: int, tmp_path: Path) -> None:
    """NumPy truncates small files without an error."""
    resource = pytest.importorskip("resource", reason="limits of file sizes need Unix")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match=r"00000000.X.npy") as raised:
            cache_to_disk(blocks([num_rows]), tmp_path / "kept")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert raised.value.errno == errno.EFBIG
