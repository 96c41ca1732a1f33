"""Sparse matrices: dense rows in shards of bounded size."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from bochner.data import ArraySource, SparseSource
from bochner.data.arrays import SHARD_BYTES
from tests.data.test_conformance import whole

FORMATS = [sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.coo_array, sp.lil_matrix, sp.dok_array, sp.dia_array]


@pytest.mark.parametrize("kind", FORMATS, ids=lambda kind: kind.__name__)
def test_every_format(kind) -> None:
    X = np.random.default_rng(0).integers(-1, 2, (7, 5)).astype("float32")
    source = SparseSource(kind(X), np.arange(7), shard_rows=3)
    np.testing.assert_array_equal(whole(source).X, X)
    assert source.shard_sizes == [3, 3, 1]


@pytest.mark.parametrize(
    ("dtype", "kept"), [("float64", "float64"), ("float32", "float32"), ("int8", "float32"), ("bool", "float32")]
)
def test_types(dtype: str, kept: str) -> None:
    assert whole(SparseSource(sp.csr_array(np.eye(3, dtype=dtype)))).X.dtype == kept


def test_entries_that_come_twice_are_added() -> None:
    X = sp.coo_matrix(([1.0, 2.0, 5.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 3))
    assert whole(SparseSource(X)).X.tolist() == [[0, 3, 0], [5, 0, 0]]


def test_the_matrix_is_left_as_it_was() -> None:
    X = sp.csr_matrix(np.arange(12.0).reshape(4, 3))
    before = X.copy()
    source = SparseSource(X, shard_rows=3)
    source.read(0).X.fill_(-1)
    whole(source)
    assert X.shape == before.shape
    assert (before != X).nnz == 0


def test_wide_rows_come_a_few_at_a_time() -> None:
    X = sp.csr_matrix(([1.0], ([999], [49_999])), shape=(1000, 50_000), dtype="float32")
    source = SparseSource(X)
    assert max(source.shard_sizes) == SHARD_BYTES // 200_000 == 167
    assert source.read(len(source.shard_sizes) - 1).X[-1, -1] == 1
    assert SparseSource(X, shard_rows=500).shard_sizes == [500, 500]


def test_the_bound_holds_for_every_source_of_rows() -> None:
    wide = torch.zeros(1, 50_000).expand(1000, -1)
    assert max(ArraySource(wide).shard_sizes) == 167
    assert max(ArraySource(wide.double()).shard_sizes) == 83
    assert ArraySource(torch.zeros(1, 1).expand(20_000, -1)).shard_sizes == [8192, 8192, 3616]
    assert ArraySource(torch.zeros(1, 1).expand(3, 10**8)).shard_sizes == [1, 1, 1]


def test_what_is_not_finite_is_named() -> None:
    X = sp.csr_matrix(([1.0, np.inf], ([0, 4], [1, 2])), shape=(6, 3))
    with pytest.raises(ValueError, match="X must be finite, but row 4, column 2 is inf"):
        whole(SparseSource(X, shard_rows=3))


def test_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match=r"X must be a scipy\.sparse matrix, got ndarray; use ArraySource"):
        SparseSource(np.eye(2))
    with pytest.raises(ValueError, match="X must be dense, got a sparse csr_matrix; use SparseSource"):
        ArraySource(sp.csr_matrix(np.eye(2)))
    with pytest.raises(ValueError, match="y must have as many rows as X, 2, got 3"):
        SparseSource(sp.csr_matrix(np.eye(2)), np.zeros(3))
    if (row := sp.coo_array(np.ones(3))).ndim == 1:  # since scipy 1.13
        with pytest.raises(ValueError, match=r"X must have shape \[rows, inputs\], got \(3,\)"):
            SparseSource(row)
    with pytest.raises(ValueError, match="X must hold real numbers, got dtype complex128"):
        SparseSource(sp.csr_matrix(np.eye(2) * 1j))
