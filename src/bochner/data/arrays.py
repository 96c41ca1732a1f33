"""Arrays as sources of rows: their dtypes, checks of their numbers, and text targets as indices into labels."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from scipy.sparse import csr_matrix, issparse
from torch import Tensor

from bochner import checks
from bochner.data.blocks import Block
from bochner.data.labels import checked_labels, distinct, encode_labels, refuse_label
from bochner.ops import row_tiles

Array = np.ndarray[Any, Any] | Tensor
DType = np.dtype[Any] | torch.dtype

# Targets that are read at once when their labels are collected: a few MB of text.
TARGETS_AT_ONCE = 65_536
UNKNOWN = -1  # the index of a label that is not among those expected
# Default rows and maximum bytes of a shard: large enough to amortise the cost of a read, small enough that a shuffle
# buffer of eight shards is a fraction of the memory of any machine.
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


def number_type(name: str, dtype: DType) -> torch.dtype:
    """The torch dtype for numbers of `dtype`: float64 or float32 for floats, int64 for integers."""
    if isinstance(dtype, torch.dtype):
        if dtype.is_floating_point:
            return torch.float64 if dtype == torch.float64 else torch.float32
        if not dtype.is_complex:
            return torch.int64
    elif dtype.kind == "f":
        return torch.float64 if dtype.itemsize > 4 else torch.float32
    elif dtype.kind in "biu":
        return torch.int64
    raise ValueError(f"{name} must hold real numbers, got dtype {dtype}.")


def input_type(dtypes: Iterable[torch.dtype]) -> torch.dtype:
    """The dtype of inputs and weights: float64 if any is, else float32, which holds small integers such as pixels."""
    return torch.float64 if torch.float64 in set(dtypes) else torch.float32


def target_type(dtypes: Iterable[torch.dtype]) -> torch.dtype:
    """The dtype of targets: int64 if all are integers (class labels), else the widest of the floats."""
    kinds = set(dtypes)
    if kinds <= {torch.int64}:
        return torch.int64
    return torch.float32 if kinds == {torch.float32} else torch.float64


def to_tensor(array: Array, dtype: torch.dtype) -> Tensor:
    """`array` as a tensor of `dtype`, sharing its memory if possible."""
    if isinstance(array, Tensor):
        return array.detach().to(dtype)
    return torch.from_numpy(np.require(array, dtype=str(dtype).removeprefix("torch."), requirements=["C", "W"]))


def no_targets(num_rows: int) -> Tensor:
    """y of rows without targets: int64 [n, 0], which can be indexed and concatenated like any other y."""
    return torch.empty(num_rows, 0, dtype=torch.int64)


def checked(block: Block, names: Sequence[str], *, first_row: int = 0, columns: Sequence[str] | None = None) -> Block:
    """Check that every number in `block` is finite and no weight negative, and return it.

    `names` are those of X, y and weight in errors, which count rows from `first_row` and name inputs by `columns`.

    >>> checked(Block(torch.tensor([[1.0], [float("nan")]]), torch.zeros(2)), ["X.npy", "y", "weight"], first_row=10)
    Traceback (most recent call last):
        ...
    ValueError: X.npy must be finite, but row 11, column 0 is nan.
    """
    for name, part in zip(names, block, strict=True):
        if part is not None:
            check_finite(part, name, first_row=first_row, columns=columns)
    if block.weight is not None:
        _refuse(block.weight < 0, block.weight, f"{names[2]} must not be negative", first_row)
    return block


def check_finite(part: Tensor, name: str, *, first_row: int = 0, columns: Sequence[str] | None = None) -> Tensor:
    """Check that every number in `part` is finite, and return it."""
    # A finite sum proves that all terms are finite, without a second array; it may overflow, so it proves no error.
    if part.is_floating_point() and not torch.isfinite(part.sum()):
        _refuse(~torch.isfinite(part), part, f"{name} must be finite", first_row, columns)
    return part


def _refuse(bad: Tensor, part: Tensor, rule: str, first_row: int, columns: Sequence[str] | None = None) -> None:
    if bad.any():
        row, *column = torch.nonzero(bad)[0].tolist()
        place = f"row {first_row + row}" + "".join(f", column {repr(columns[j]) if columns else j}" for j in column)
        raise ValueError(f"{rule}, but {place} is {part[(row, *column)].item()}.")


class RowArray(Protocol):
    """An array [rows, ...] in memory or on disk."""

    @property
    def name(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> DType: ...

    def read(self, rows: slice) -> Array: ...


class Part(NamedTuple):
    """Arrays of the same rows: X [n, d], y [n] or [n, t], weight [n]."""

    X: RowArray
    y: RowArray | None = None
    weight: RowArray | None = None

    @property
    def names(self) -> list[str]:
        return [array.name if array else name for array, name in zip(self, self._fields, strict=True)]


def check_shapes(part: Part) -> None:
    X, y, weight = part
    if len(X.shape) != 2 or X.shape[1] == 0:
        raise ValueError(f"{X.name} must have shape [rows, inputs], got {X.shape}.")
    if y and len(y.shape) not in (1, 2):
        raise ValueError(f"{y.name} must have shape [rows] or [rows, targets], got {y.shape}.")
    if weight and len(weight.shape) != 1:
        raise ValueError(f"{weight.name} must have shape [rows], got {weight.shape}.")
    for other in (y, weight):
        if other and other.shape[0] != X.shape[0]:
            raise ValueError(f"{other.name} must have as many rows as {X.name}, {X.shape[0]}, got {other.shape[0]}.")


def check_alike(first: Part, part: Part) -> None:
    if part.X.shape[1] != first.X.shape[1]:
        raise ValueError(
            f"{part.X.name} must have {first.X.shape[1]} inputs as {first.X.name} has, got {part.X.shape[1]}."
        )
    for word, here, there in (("targets", part.y, first.y), ("weights", part.weight, first.weight)):
        if (here is None) != (there is None):
            having, lacking = (part, first) if here else (first, part)
            raise ValueError(f"{lacking.X.name} has no {word}, while {having.X.name} has; give them to all or none.")
    if part.y and first.y and part.y.shape[1:] != first.y.shape[1:]:
        raise ValueError(
            f"{part.y.name} must have rows of shape {first.y.shape[1:]} as {first.y.name} has, got {part.y.shape[1:]}."
        )


def encode_targets(
    parts: Sequence[Part], labels: Sequence[str] | None, stored: tuple[str, ...] | None = None
) -> tuple[list[Part], tuple[str, ...] | None]:
    """The parts with y as indices into the labels, and the labels; parts with numbers are unchanged.

    Labels that are not given are collected in one pass over y. `stored` are the labels of a y that holds indices
    already, as `cache_to_disk` writes it.
    """
    targets = [part.y for part in parts if part.y]
    known = None if labels is None else checked_labels(labels)
    if stored is not None:
        known = known or stored
        return [part._replace(y=part.y and ReindexedArray(part.y, stored, known)) for part in parts], known
    if known is None and any(_is_text(y.dtype) for y in targets):
        known = distinct(targets[0].name, (labels for y in targets for labels in _collect_labels(y)))
    if known is None or not targets:
        return list(parts), known
    return [part._replace(y=part.y and LabelArray(part.y, known)) for part in parts], known


class LabelArray:
    """The array `y` [n] of text, or of integers that are looked up as text, as indices into `labels`."""

    dtype: DType = np.dtype(np.int64)

    def __init__(self, y: RowArray, labels: tuple[str, ...]) -> None:
        _check_labels_fit(y)
        self.name, self.shape = y.name, y.shape
        self._y, self._labels = y, labels

    def read(self, rows: slice) -> Array:
        return encode_labels(self._labels, _read_text(self._y, rows), name=self.name, first_row=rows.start)


class ReindexedArray:
    """The array `y` [n] of indices into the labels `stored`, as indices into `labels`."""

    dtype: DType = np.dtype(np.int64)

    def __init__(self, y: RowArray, stored: tuple[str, ...], labels: tuple[str, ...]) -> None:
        _check_labels_fit(y)
        self.name, self.shape = y.name, y.shape
        new = {label: index for index, label in enumerate(labels)}
        self._y, self._stored, self._labels = y, stored, labels
        self._new_index = np.array([new.get(label, UNKNOWN) for label in stored])

    def read(self, rows: slice) -> Array:
        stored = np.asarray(self._y.read(rows))
        outside = (stored < 0) | (stored >= len(self._stored))
        if outside.any():
            row = int(outside.argmax())
            raise ValueError(
                f"{self.name} must hold indices of its {len(self._stored)} labels, "
                f"but row {rows.start + row} is {stored[row]}."
            )
        codes = self._new_index[stored]
        if (unknown := codes == UNKNOWN).any():
            row = int(unknown.argmax())
            refuse_label(self.name, self._stored[stored[row]], rows.start + row, self._labels)
        return codes


def _is_text(dtype: DType) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind == "U"


def _check_labels_fit(y: RowArray) -> None:
    if len(y.shape) != 1:
        raise ValueError(f"{y.name} must have shape [rows] to hold labels, got {y.shape}.")
    if isinstance(y.dtype, torch.dtype):
        is_integer = not (y.dtype.is_floating_point or y.dtype.is_complex or y.dtype == torch.bool)
    else:
        is_integer = y.dtype.kind in "iu"
    if not _is_text(y.dtype) and not is_integer:
        raise ValueError(f"{y.name} must hold text or integers to be looked up in labels, got dtype {y.dtype}.")


def _collect_labels(y: RowArray) -> Iterator[list[str]]:
    _check_labels_fit(y)
    for rows in row_tiles(y.shape[0], row_elements=1, tile_elements=TARGETS_AT_ONCE):
        yield np.unique(_read_text(y, rows)).tolist()


def _read_text(y: RowArray, rows: slice) -> np.ndarray[Any, Any]:
    words = np.asarray(y.read(rows)).astype(str)
    words = words.astype(words.dtype.newbyteorder("="))
    # A damaged file may hold numbers that are not code points, on which Python fails in several ways.
    if words.nbytes and words.view(np.uint32).max() > sys.maxunicode:
        raise ValueError(f"{y.name} must hold text, but holds invalid code points; it is damaged.")
    return words


class PartsSource:
    """The rows of all parts in order, each part in shards of at most `shard_rows` rows.

    Parts agree in width and in whether they have targets and weights. Where their dtypes differ the widest is used, by
    the rules of `input_type` and `target_type`. Text targets become indices into `labels`; `stored_labels` are those of
    targets that are indices already.
    """

    num_inputs: int
    shard_sizes: Sequence[int]
    labels: tuple[str, ...] | None
    column_names: tuple[str, ...] | None = None
    target: str | None = None  # its name, in a table

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
        return check_finite(self._targets(part, rows), part.names[1], first_row=rows.start)

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

    CSR is used directly, other formats are converted to it once. O(shard_rows d) time and memory per shard: by default
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
