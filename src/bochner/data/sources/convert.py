"""Arrays of any kind made into blocks, and refused by name when they do not hold rows of finite numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bochner.data.blocks import Block

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
