"""Rows that are already in memory, or mapped into it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse
from torch import Tensor

from bochner.data.sources.convert import Array, DType
from bochner.data.sources.parts import PartsSource
from bochner.data.sources.row_arrays import Part


class ArraySource(PartsSource):
    """X [N, d], y [N] or [N, t] and weight [N] in shards of `shard_rows` rows.

    NumPy arrays (`np.memmap` too), tensors, or anything NumPy makes an array of. Floats stay float32 or float64,
    integer inputs become float32 and integer targets int64; text targets become places in `labels`, which are all of
    them sorted or those that are given; without y the targets are int64 [n, 0]. Rows of a NumPy array are copied when
    they are read, those of a tensor are views: O(shard_rows d) a shard, nothing for the whole.

    The pages of an `np.memmap` that were read count as this process's memory until the system wants them back;
    `NpySource` reads such a file without mapping it.

    >>> source = ArraySource(np.arange(6).reshape(3, 2), np.array([1, 0, 1]), shard_rows=2)
    >>> source.num_inputs, source.shard_sizes
    (2, [2, 1])
    >>> source.read(1)
    Block(X=tensor([[4., 5.]]), y=tensor([1]), weight=None)
    >>> text = ArraySource(np.eye(3), ["yes", "no", "yes"])
    >>> text.labels, text.read(0).y
    (('no', 'yes'), tensor([1, 0, 1]))
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
            MemoryArray("X", X),
            None if y is None else target_array(y),
            None if weight is None else MemoryArray("weight", weight),
        )
        super().__init__([part], shard_rows=shard_rows, labels=labels)


class MemoryArray:
    """An array or tensor under the name that errors give it."""

    def __init__(self, name: str, values: Any) -> None:
        if issparse(values):
            raise ValueError(f"{name} must be dense, got a sparse {type(values).__name__}; use SparseSource.")
        self.name = name
        self._values: Array = values if isinstance(values, np.ndarray | Tensor) else np.asarray(values)
        self.shape = tuple(self._values.shape)
        self.dtype: DType = self._values.dtype

    def read(self, rows: slice) -> Array:
        part = self._values[rows]
        return part if isinstance(part, Tensor) else np.array(part)


def target_array(y: Any) -> MemoryArray:
    """Targets in memory; Python objects, as tables in memory hold text, are taken when all of them are strings."""
    values = y if isinstance(y, np.ndarray | Tensor) else np.asarray(y)
    if isinstance(values, np.ndarray) and values.dtype.kind in "OT":
        kinds = sorted(kind.__name__ for kind in set(map(type, values.ravel().tolist())))
        if kinds != ["str"]:
            raise ValueError(f"y must hold numbers or text, all of one kind and none missing, got {kinds}.")
        values = values.astype(str)
    return MemoryArray("y", values)
