"""Conformance of every source: the rows of the NumPy oracle, in any order of shards, repeatedly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from bochner.data import labels_of
from bochner.data.blocks import concatenate, read_targets
from tests.data.cases import CASES, Case, Rows, labelled, rows

cases = pytest.mark.parametrize("case", CASES, ids=str)


def whole(source) -> Rows:
    block = concatenate([source.read(shard) for shard in range(len(source.shard_sizes))])
    return Rows(*(None if part is None else part.numpy() for part in block))


def assert_same(got: Rows, wanted: Rows) -> None:
    np.testing.assert_array_equal(got.X, wanted.X)
    np.testing.assert_array_equal(got.y, wanted.y)
    assert (got.weight is None) == (wanted.weight is None)
    if wanted.weight is not None:
        np.testing.assert_array_equal(got.weight, wanted.weight)


@cases
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_rows_and_their_types(case: Case, dtype: str, tmp_path: Path) -> None:
    data = rows(dtype=dtype)
    source = case.make(tmp_path, data, 5)
    got = whole(source)
    kept = {case.float32_only: "float32", case.float64_only: "float64"}.get(True, dtype)
    assert (got.X.dtype, got.y.dtype) == (kept, np.int64)
    assert source.num_inputs == 3
    if kept == dtype:
        assert_same(got, data)
    else:
        np.testing.assert_allclose(got.X, data.X, rtol=1e-6)


@cases
@pytest.mark.parametrize("shard_rows", [1, 4, 23, 1000])
def test_shards(case: Case, shard_rows: int, tmp_path: Path) -> None:
    source = case.make(tmp_path, rows(), shard_rows)
    assert sum(source.shard_sizes) == 23
    assert max(source.shard_sizes) <= shard_rows
    assert [len(source.read(i).X) for i in range(len(source.shard_sizes))] == list(source.shard_sizes)
    if not case.float64_only:
        assert_same(whole(source), rows())


@cases
def test_shards_in_any_order_and_again(case: Case, tmp_path: Path) -> None:
    source = case.make(tmp_path, rows(), 4)
    count = len(source.shard_sizes)
    first = [source.read(shard) for shard in range(count)]
    for shard in torch.randperm(count, generator=torch.Generator().manual_seed(0)).tolist():
        again = source.read(shard)
        assert torch.equal(first[shard].X, again.X)
        assert torch.equal(first[shard].y, again.y)


@cases
def test_float_targets(case: Case, tmp_path: Path) -> None:
    data = rows(target="float64")
    got = whole(case.make(tmp_path, data, 5))
    assert got.y.dtype == np.float64
    np.testing.assert_allclose(got.y, data.y, rtol=1e-15)


text_cases = pytest.mark.parametrize("case", [case for case in CASES if case.text], ids=str)


@text_cases
def test_text_targets_are_places_in_the_labels(case: Case, tmp_path: Path) -> None:
    data = labelled()
    source = case.make(tmp_path, data, 5)
    assert source.labels == tuple(sorted(set(data.y.tolist())))
    got = whole(source)
    assert got.y.dtype == np.int64
    np.testing.assert_array_equal(np.array(source.labels)[got.y], data.y)


@cases
def test_numbers_have_no_labels(case: Case, tmp_path: Path) -> None:
    assert labels_of(case.make(tmp_path, rows(), 5)) is None


@cases
@pytest.mark.parametrize("target", ["int64", "float64"])
def test_targets_alone(case: Case, target: str, tmp_path: Path) -> None:
    source = case.make(tmp_path, rows(target=target), 5)
    for shard in range(len(source.shard_sizes)):
        assert torch.equal(read_targets(source, shard), source.read(shard).y)


@pytest.mark.parametrize("case", [case for case in CASES if case.weights], ids=str)
def test_weights(case: Case, tmp_path: Path) -> None:
    data = rows(weighted=True)
    got = whole(case.make(tmp_path, data, 5))
    np.testing.assert_allclose(got.weight, data.weight, rtol=1e-7)


@cases
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused_by_row(case: Case, value: float, tmp_path: Path) -> None:
    data = rows()
    data.X[17, 1] = value
    refusal = rf"must be finite, but row (17|8|1), column ('x1'|1) is {value}"  # counted in its file or block
    null = r"column 'x1' must have a value in every row, but row 17 has none"  # which is what a NaN in a CSV file is
    with pytest.raises(ValueError, match=f"{refusal}|{null}"):
        whole(case.make(tmp_path, data, 5))


@cases
def test_targets_that_are_not_finite(case: Case, tmp_path: Path) -> None:
    data = rows(target="float64")
    data.y[3] = np.nan
    with pytest.raises(
        ValueError, match=r"must be finite, but row 3 is nan|'y' must have a value in every row, but row 3"
    ):
        whole(case.make(tmp_path, data, 5))


@pytest.mark.parametrize("case", [case for case in CASES if case.weights], ids=str)
def test_negative_weights(case: Case, tmp_path: Path) -> None:
    data = rows(weighted=True)
    data.weight[2] = -1
    with pytest.raises(ValueError, match=r"must not be negative, but row 2 is -1.0"):
        whole(case.make(tmp_path, data, 5))


@cases
def test_no_rows(case: Case, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"at least one row|files, found none|got type null"):
        case.make(tmp_path, rows(1)._replace(X=np.zeros((0, 3), "float32"), y=np.zeros(0, "int64")), 5)
