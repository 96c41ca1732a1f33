"""Rows that are already in memory, or mapped into it."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from bochner.data.sources.convert import Array, DType
from bochner.data.sources.parts import Part, PartsSource


class ArraySource(PartsSource):
    """X [N, d], y [N] or [N, t] and weight [N] in shards of `shard_rows` rows.

    NumPy arrays (`np.memmap` too), tensors, or anything NumPy makes an array of. Floats stay float32 or float64,
    integer inputs become float32 and integer targets int64; without y the targets are int64 [n, 0]. Rows of a NumPy
    array are copied when they are read, those of a tensor are views: O(shard_rows d) a shard, nothing for the whole.

    The pages of an `np.memmap` that were read count as this process's memory until the system wants them back;
    `NpySource` reads such a file without mapping it.

    >>> source = ArraySource(np.arange(6).reshape(3, 2), np.array([1, 0, 1]), shard_rows=2)
    >>> source.num_inputs, source.shard_sizes
    (2, [2, 1])
    >>> source.read(1)
    Block(X=tensor([[4., 5.]]), y=tensor([1]), weight=None)
    """

    def __init__(self, X: Any, y: Any = None, weight: Any = None, *, shard_rows: int = 8192) -> None:
        part = Part(
            MemoryArray("X", X),
            None if y is None else MemoryArray("y", y),
            None if weight is None else MemoryArray("weight", weight),
        )
        super().__init__([part], shard_rows=shard_rows)


class MemoryArray:
    """An array or tensor under the name that errors give it."""

    def __init__(self, name: str, values: Any) -> None:
        self.name = name
        self._values: Array = values if isinstance(values, np.ndarray | Tensor) else np.asarray(values)
        self.shape = tuple(self._values.shape)
        self.dtype: DType = self._values.dtype

    def read(self, rows: slice) -> Array:
        part = self._values[rows]
        return part if isinstance(part, Tensor) else np.array(part)
