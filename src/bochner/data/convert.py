"""Arrays of targets as places in a list of labels."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from bochner.data.blocks import Block
from bochner.data.labels import checked_labels, distinct, places_in, refuse_label
from bochner.ops import row_tiles

Array = np.ndarray[Any, Any] | Tensor
DType = np.dtype[Any] | torch.dtype


class Names(NamedTuple):
    """What the parts of a block are called in errors."""

    X: str = "X"
    y: str = "y"
    weight: str = "weight"


def number_type(name: str, dtype: DType) -> torch.dtype:
    """What numbers of `dtype` become: float64 and float32 stay, narrower floats are float32, integers int64."""
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
    """Of inputs and weights: float64 when any is, else float32; integers are taken to be small, as pixels are."""
    return torch.float64 if torch.float64 in set(dtypes) else torch.float32


def target_type(dtypes: Iterable[torch.dtype]) -> torch.dtype:
    """Of targets: int64 when all are integers (class labels), else the widest of the floats."""
    kinds = set(dtypes)
    if kinds <= {torch.int64}:
        return torch.int64
    return torch.float32 if kinds == {torch.float32} else torch.float64


def to_tensor(array: Array, dtype: torch.dtype) -> Tensor:
    """`array` as a tensor of `dtype`, sharing its memory where it can."""
    if isinstance(array, Tensor):
        return array.detach().to(dtype)
    return torch.from_numpy(np.require(array, dtype=str(dtype).removeprefix("torch."), requirements=["C", "W"]))


def no_targets(num_rows: int) -> Tensor:
    """y of rows without targets: int64 [n, 0], so that it is cut and joined like any other y."""
    return torch.empty(num_rows, 0, dtype=torch.int64)


def checked(block: Block, names: Names, *, first_row: int = 0, columns: Sequence[str] | None = None) -> Block:
    """`block`, once every number in it is seen to be finite and no weight negative.

    Errors count rows from `first_row` and call the inputs by `columns` where they have names.

    >>> checked(Block(torch.tensor([[1.0], [float("nan")]]), torch.zeros(2)), Names(X="X.npy"), first_row=10)
    Traceback (most recent call last):
        ...
    ValueError: X.npy must be finite, but row 11, column 0 is nan.
    """
    for name, part in zip(names, block, strict=True):
        if part is not None:
            check_finite(part, name, first_row=first_row, columns=columns)
    if block.weight is not None:
        _refuse(block.weight < 0, block.weight, f"{names.weight} must not be negative", first_row)
    return block


def check_finite(part: Tensor, name: str, *, first_row: int = 0, columns: Sequence[str] | None = None) -> Tensor:
    """`part`, once every number in it is seen to be finite."""
    # The sum is finite only if all terms are, and costs no second array; it may overflow, so it never refuses.
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
    def names(self) -> Names:
        return Names(self.X.name, self.y.name if self.y else "y", self.weight.name if self.weight else "weight")


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


STEP = 65_536  # targets read at once when labels are looked for
UNKNOWN = -1


def encode_targets(
    parts: Sequence[Part], labels: Sequence[str] | None, stored: tuple[str, ...] | None = None
) -> tuple[list[Part], tuple[str, ...] | None]:
    """The parts with y as places in the labels, and the labels; parts with numbers stay as they are.

    Labels are looked for in one pass over y, unless they are given. `stored` are the labels of y that is places
    already, as `cache_to_disk` writes it.
    """
    targets = [part.y for part in parts if part.y]
    wanted = None if labels is None else checked_labels(labels)
    if stored is not None:
        wanted = wanted or stored
        return [part._replace(y=part.y and PlacesArray(part.y, stored, wanted)) for part in parts], wanted
    if wanted is None and any(is_text(y.dtype) for y in targets):
        wanted = distinct(targets[0].name, (each for y in targets for each in _labels_in(y)))
    if wanted is None or not targets:
        return list(parts), wanted
    return [part._replace(y=part.y and LabelArray(part.y, wanted)) for part in parts], wanted


def is_text(dtype: DType) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind == "U"


class LabelArray:
    """The array `y` [n] of text, or of integers that are looked up as text, as places in `labels`."""

    dtype: DType = np.dtype(np.int64)

    def __init__(self, y: RowArray, labels: tuple[str, ...]) -> None:
        _check_column(y)
        self.name, self.shape = y.name, y.shape
        self._y, self._labels = y, labels

    def read(self, rows: slice) -> Array:
        return places_in(self._labels, _words(self._y, rows), name=self.name, first_row=rows.start)


class PlacesArray:
    """The array `y` [n] of places in the labels `stored`, as places in `wanted`."""

    dtype: DType = np.dtype(np.int64)

    def __init__(self, y: RowArray, stored: tuple[str, ...], wanted: tuple[str, ...]) -> None:
        _check_column(y)
        self.name, self.shape = y.name, y.shape
        places = {label: place for place, label in enumerate(wanted)}
        self._y, self._stored, self._wanted = y, stored, wanted
        self._places = np.array([places.get(label, UNKNOWN) for label in stored])

    def read(self, rows: slice) -> Array:
        stored = np.asarray(self._y.read(rows))
        outside = (stored < 0) | (stored >= len(self._stored))
        if outside.any():
            row = int(outside.argmax())
            raise ValueError(
                f"{self.name} must hold places among its {len(self._stored)} labels, "
                f"but row {rows.start + row} is {stored[row]}."
            )
        places = self._places[stored]
        if (unknown := places == UNKNOWN).any():
            row = int(unknown.argmax())
            refuse_label(self.name, self._stored[stored[row]], rows.start + row, self._wanted)
        return places


def _check_column(y: RowArray) -> None:
    if len(y.shape) != 1:
        raise ValueError(f"{y.name} must have shape [rows] to hold labels, got {y.shape}.")
    if not is_text(y.dtype) and not _is_integer(y.dtype):
        raise ValueError(f"{y.name} must hold text or integers to be looked up in labels, got dtype {y.dtype}.")


def _is_integer(dtype: DType) -> bool:
    if isinstance(dtype, torch.dtype):
        return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)
    return dtype.kind in "iu"


def _labels_in(y: RowArray) -> Iterator[Any]:
    _check_column(y)
    for rows in row_tiles(y.shape[0], row_elements=1, tile_elements=STEP):
        yield np.unique(_words(y, rows)).tolist()


def _words(y: RowArray, rows: slice) -> np.ndarray[Any, Any]:
    words = np.asarray(y.read(rows)).astype(str)
    words = words.astype(words.dtype.newbyteorder("="))
    # A damaged file may hold what is no character, on which Python fails in ways of its own.
    if words.nbytes and words.view(np.uint32).max() > sys.maxunicode:
        raise ValueError(f"{y.name} must hold text, but holds bytes that are none; it is damaged.")
    return words
