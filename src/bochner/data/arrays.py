"""Sources of arrays in memory, dense or scipy.sparse; and the base class of all sources of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix, issparse
from torch import Tensor

from bochner import checks
from bochner.data.blocks import Block
from bochner.data.convert import (
    Array,
    DType,
    Part,
    RowArray,
    check_alike,
    check_finite,
    check_shapes,
    checked,
    input_type,
    no_targets,
    number_type,
    target_type,
    to_tensor,
)
from bochner.data.labels import encode_targets
from bochner.ops import row_tiles

# Rows of a shard by default, and its bytes at most: large enough that the cost of a read is that of its numbers, small
# enough that a shuffle buffer of eight shards is a fraction of the memory of any machine.
SHARD_ROWS = 8192
SHARD_BYTES = 32 * 2**20


def resolve_shard_rows(shard_rows: int | None, *, row_bytes: int) -> int:
    """`shard_rows` if given, else 8192 or as many dense rows as fit into 32 MiB, at least one.

    >>> resolve_shard_rows(None, row_bytes=784 * 4), resolve_shard_rows(None, row_bytes=50_000 * 4)
    (8192, 167)
    """
    if shard_rows is not None:
        return checks.positive_int("shard_rows", shard_rows)
    return max(1, min(SHARD_ROWS, SHARD_BYTES // max(1, row_bytes)))


class PartsSource:
    """The rows of all parts, one part after the other, each in shards of at most `shard_rows` rows.

    Parts agree in width and in whether they have targets and weights. Where their dtypes differ the widest is used, by
    the rules of `input_type` and `target_type`. Text targets become indices into `labels`; `stored_labels` are those of
    targets that are indices already.
    """

    num_inputs: int
    shard_sizes: Sequence[int]
    labels: tuple[str, ...] | None
    column_names: tuple[str, ...] | None = None

    def __init__(
        self,
        parts: Sequence[Part],
        *,
        shard_rows: int | None,
        labels: Sequence[str] | None = None,
        stored_labels: tuple[str, ...] | None = None,
    ) -> None:
        for part in parts:
            check_shapes(part)
            check_alike(parts[0], part)
            if part.y and part.y.dtype in (np.uint64, torch.uint64):
                raise ValueError(f"{part.y.name} must fit into int64, got dtype {part.y.dtype}; cast it.")
        parts, self.labels = encode_targets(parts, labels, stored_labels)
        X, y, weight = ([array for array in arrays if array] for arrays in zip(*parts, strict=True))
        self._X_type = input_type(number_type(array.name, array.dtype) for array in X)
        self._y_type = target_type(number_type(array.name, array.dtype) for array in y)
        self._weight_type = input_type(number_type(array.name, array.dtype) for array in weight)
        self.num_inputs = parts[0].X.shape[1]
        rows = resolve_shard_rows(shard_rows, row_bytes=self.num_inputs * self._X_type.itemsize)
        self._shards = [
            (part, tile) for part in parts for tile in row_tiles(part.X.shape[0], row_elements=1, tile_elements=rows)
        ]
        if not self._shards:
            raise ValueError(f"{parts[0].X.name} must have at least one row, got none.")
        self.shard_sizes = [tile.stop - tile.start for _, tile in self._shards]

    def read(self, shard: int) -> Block:
        part, rows = self._shards[shard]
        block = Block(
            to_tensor(part.X.read(rows), self._X_type),
            self._targets(part, rows),
            to_tensor(part.weight.read(rows), self._weight_type) if part.weight else None,
        )
        return checked(block, part.names, first_row=rows.start)

    def read_targets(self, shard: int) -> Tensor:
        """y of a shard alone: X is not read."""
        part, rows = self._shards[shard]
        return check_finite(self._targets(part, rows), part.names.y, first_row=rows.start)

    def _targets(self, part: Part, rows: slice) -> Tensor:
        return to_tensor(part.y.read(rows), self._y_type) if part.y else no_targets(rows.stop - rows.start)


class _MemorySource(PartsSource):
    def __init__(
        self,
        X: Any,
        y: Any = None,
        weight: Any = None,
        *,
        shard_rows: int | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        targets = None if y is None else MemoryArray("y", _text_or_numbers(y))
        weights = None if weight is None else MemoryArray("weight", weight)
        super().__init__([Part(self._inputs(X), targets, weights)], shard_rows=shard_rows, labels=labels)

    def _inputs(self, X: Any) -> RowArray:
        return MemoryArray("X", X)


class ArraySource(_MemorySource):
    """X [N, d], y [N] or [N, t] and weight [N] in shards of `shard_rows` rows.

    NumPy arrays (`np.memmap` too), tensors, or anything that NumPy converts. Floats stay float32 or float64, integer
    inputs become float32 and integer targets int64; text targets become indices into `labels`, by default all of them
    sorted; without y the targets are int64 [n, 0]. Rows of a NumPy array are copied when they are read, those of a
    tensor are views: O(shard_rows d) per shard.

    Pages of an `np.memmap` count as memory of this process after they are read, until the system reclaims them;
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


class SparseSource(_MemorySource):
    """X [N, d] of scipy.sparse with y and weight as for `ArraySource`; rows become dense when they are read.

    CSR is used as it is, other formats are converted to it once. O(shard_rows d) time and memory per shard: by default
    a shard has as many dense rows as fit into 32 MiB, at most 8192.

    >>> from scipy.sparse import csr_array
    >>> source = SparseSource(csr_array(([2.0, 3.0], ([0, 1], [1, 0])), shape=(2, 3)), ["no", "yes"])
    >>> source.read(0)
    Block(X=tensor([[0., 2., 0.], [3., 0., 0.]], dtype=torch.float64), y=tensor([0, 1]), weight=None)
    """

    def _inputs(self, X: Any) -> RowArray:
        return SparseArray("X", X)


class MemoryArray:
    """An array or tensor, with a name for error messages."""

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


def _text_or_numbers(y: Any) -> Array:
    """Targets as an array; Python objects, which hold the text of a table in memory, must all be strings."""
    values = y if isinstance(y, np.ndarray | Tensor) else np.asarray(y)
    if isinstance(values, np.ndarray) and values.dtype.kind in "OT":
        kinds = sorted(kind.__name__ for kind in set(map(type, values.ravel().tolist())))
        if kinds != ["str"]:
            raise ValueError(f"y must hold numbers or text, all of one kind and none missing, got {kinds}.")
        values = values.astype(str)
    return values


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
    """CSR rows of at most `num_inputs` columns as a dense array of that width, without a second dense copy."""
    whole = np.zeros((rows.shape[0], num_inputs), rows.dtype)
    rows.resize(whole.shape)
    rows.toarray(out=whole)
    return whole
