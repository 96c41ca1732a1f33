"""What sources share: dtypes of inputs and targets, checks of their numbers, and arrays of which rows can be read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from bochner.data.blocks import Block

Array = np.ndarray[Any, Any] | Tensor
DType = np.dtype[Any] | torch.dtype


class Names(NamedTuple):
    """The names of the parts of a block in error messages."""

    X: str = "X"
    y: str = "y"
    weight: str = "weight"


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


def checked(block: Block, names: Names, *, first_row: int = 0, columns: Sequence[str] | None = None) -> Block:
    """`block`, once every number in it is seen to be finite and no weight negative.

    Errors count rows from `first_row` and name the inputs by `columns` if given.

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
