"""A source made of parts, each of them arrays whose rows can be read a few at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch

from bochner import checks
from bochner.data.blocks import Block
from bochner.data.sources.convert import (
    Array,
    DType,
    Names,
    checked,
    input_type,
    no_targets,
    number_type,
    target_type,
    to_tensor,
)
from bochner.ops import row_tiles


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


class PartsSource:
    """The rows of all parts, one part after the other, each in shards of at most `shard_rows` rows.

    Parts agree in width and in whether they have targets and weights. Where their dtypes differ the widest is given,
    by the rules of `number_type`.
    """

    num_inputs: int
    shard_sizes: Sequence[int]

    def __init__(self, parts: Sequence[Part], *, shard_rows: int) -> None:
        rows = checks.positive_int("shard_rows", shard_rows)
        for part in parts:
            _check_shapes(part)
            _check_alike(parts[0], part)
        self._shards = [
            (part, tile) for part in parts for tile in row_tiles(part.X.shape[0], row_elements=1, tile_elements=rows)
        ]
        if not self._shards:
            raise ValueError(f"{parts[0].X.name} must have at least one row, got none.")
        self.num_inputs = parts[0].X.shape[1]
        self.shard_sizes = [tile.stop - tile.start for _, tile in self._shards]
        self._X_type = input_type(_type(part.X) for part in parts)
        self._y_type = target_type(_target_type(part.y) for part in parts if part.y)
        self._weight_type = input_type(_type(part.weight) for part in parts if part.weight)

    def read(self, shard: int) -> Block:
        part, rows = self._shards[shard]
        block = Block(
            to_tensor(part.X.read(rows), self._X_type),
            to_tensor(part.y.read(rows), self._y_type) if part.y else no_targets(rows.stop - rows.start),
            to_tensor(part.weight.read(rows), self._weight_type) if part.weight else None,
        )
        return checked(block, _names(part), first_row=rows.start)


def _names(part: Part) -> Names:
    return Names(part.X.name, part.y.name if part.y else "y", part.weight.name if part.weight else "weight")


def _type(array: RowArray) -> torch.dtype:
    return number_type(array.name, array.dtype)


def _target_type(y: RowArray) -> torch.dtype:
    if y.dtype in (np.uint64, torch.uint64):
        raise ValueError(f"{y.name} must fit into int64, got dtype {y.dtype}; cast it.")
    return _type(y)


def _check_shapes(part: Part) -> None:
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


def _check_alike(first: Part, part: Part) -> None:
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
