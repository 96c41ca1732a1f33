"""A source made of parts, each of them arrays whose rows can be read a few at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from bochner.data.blocks import Block
from bochner.data.sources.convert import (
    check_finite,
    checked,
    input_type,
    no_targets,
    number_type,
    target_type,
    to_tensor,
)
from bochner.data.sources.encoded import encode_targets
from bochner.data.sources.row_arrays import Part, RowArray, check_alike, check_shapes
from bochner.data.sources.sizes import rows_per_shard
from bochner.ops import row_tiles


class PartsSource:
    """The rows of all parts, one part after the other, each in shards of at most `shard_rows` rows.

    Parts agree in width and in whether they have targets and weights. Where their dtypes differ the widest is given,
    by the rules of `number_type`. Targets that are text become places in `labels`; `stored_labels` are those of
    targets that are places already.
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
        parts, self.labels = encode_targets(parts, labels, stored_labels)
        self._X_type = input_type(_type(part.X) for part in parts)
        self._y_type = target_type(_target_type(part.y) for part in parts if part.y)
        self._weight_type = input_type(_type(part.weight) for part in parts if part.weight)
        self.num_inputs = parts[0].X.shape[1]
        rows = rows_per_shard(shard_rows, row_bytes=self.num_inputs * self._X_type.itemsize)
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


def _type(array: RowArray) -> torch.dtype:
    return number_type(array.name, array.dtype)


def _target_type(y: RowArray) -> torch.dtype:
    if y.dtype in (np.uint64, torch.uint64):
        raise ValueError(f"{y.name} must fit into int64, got dtype {y.dtype}; cast it.")
    return _type(y)
