"""Sparse matrices in memory, made dense a shard at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse

from bochner.data.sources.arrays import MemoryArray, target_array
from bochner.data.sources.convert import Array, DType
from bochner.data.sources.parts import PartsSource
from bochner.data.sources.row_arrays import Part


class SparseSource(PartsSource):
    """X [N, d] of scipy.sparse with y and weight as for `ArraySource`; rows are made dense when they are read.

    CSR is used as it lies, other formats are copied into it once. O(shard_rows d) time and memory a shard: by default
    a shard has as many rows as 32 MiB hold dense, 8192 at most.

    >>> from scipy.sparse import csr_array
    >>> source = SparseSource(csr_array(([2.0, 3.0], ([0, 1], [1, 0])), shape=(2, 3)), ["no", "yes"])
    >>> source.read(0)
    Block(X=tensor([[0., 2., 0.], [3., 0., 0.]], dtype=torch.float64), y=tensor([0, 1]), weight=None)
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        weight: Any = None,
        *,
        shard_rows: int | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        part = Part(
            SparseArray("X", X),
            None if y is None else target_array(y),
            None if weight is None else MemoryArray("weight", weight),
        )
        super().__init__([part], shard_rows=shard_rows, labels=labels)


class SparseArray:
    """A sparse matrix whose rows are read dense."""

    def __init__(self, name: str, values: Any) -> None:
        if not issparse(values):
            raise ValueError(f"{name} must be a scipy.sparse matrix, got {type(values).__name__}; use ArraySource.")
        self.name, self.shape = name, tuple(values.shape)
        self._values = values.tocsr() if len(self.shape) == 2 else values
        self.dtype: DType = values.dtype

    def read(self, rows: slice) -> Array:
        return dense(self._values[rows], self.shape[1])


def dense(rows: csr_matrix, num_inputs: int) -> np.ndarray[Any, Any]:
    """CSR rows of at most `num_inputs` columns as an array of so many, without a second dense copy."""
    whole = np.zeros((rows.shape[0], num_inputs), rows.dtype)
    rows.resize(whole.shape)
    rows.toarray(out=whole)
    return whole
