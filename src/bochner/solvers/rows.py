"""What solvers read: checked blocks of a source, a few rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bochner import checks
from bochner.data.blocks import Block, Source, read_shard
from bochner.ops import row_tiles


class Tile(NamedTuple):
    """A few rows ready for a solver: X [n, d], targets [n, t] (one-hot for classes) and weight [n], of X's dtype."""

    X: Tensor
    targets: Tensor
    weight: Tensor


class Summary(NamedTuple):
    """Of all rows: their number, the sum of their weights, and the weighted mean of their targets [t], float64."""

    num_rows: int
    total_weight: float
    mean: Tensor


class OwnShards:
    """The shards of a source that are this process's: every R-th of them, for R shares of the rows."""

    def __init__(self, source: Source, group: Any) -> None:
        count, shares = len(source.shard_sizes), group.num_shares
        if count < shares:
            raise ValueError(
                f"source must have at least one shard for each of {shares} processes, got {count}; read smaller shards."
            )
        self._source, self._shards = source, range(group.share_number, count, shares)
        self.num_inputs, self.shard_sizes = source.num_inputs, [source.shard_sizes[shard] for shard in self._shards]

    def read(self, shard: int) -> Block:
        return read_shard(self._source, self._shards[shard])


def read_encoded(source: Source, shard: int, *, num_classes: int | None) -> Tile:
    """One shard, checked: y are class indices when `num_classes` is given, otherwise numbers [n] or [n, t]."""
    X, y, weight = read_shard(source, shard)
    checks.finite("X", checks.inputs("X", X))
    if len(y) != len(X):
        raise ValueError(f"y must have one entry per row of X, {len(X)}, got {len(y)}.")
    if num_classes is None:
        targets = _numbers(y)
    else:
        if y.is_floating_point() or y.is_complex() or y.ndim != 1:
            raise TypeError(f"y must be [rows] of class indices with num_classes, got {y.dtype} {tuple(y.shape)}.")
        if len(outside := y[(y < 0) | (y >= num_classes)]):
            raise ValueError(
                f"y must lie in 0..{num_classes - 1} for num_classes={num_classes}, got {int(outside[0])}."
            )
        targets = torch.nn.functional.one_hot(y.long(), num_classes)
    weight = torch.ones(len(X)) if weight is None else _weights(weight, len(X))
    return Tile(X, targets.to(X), weight.to(X))


def read_tiles(source: Source, *, num_classes: int | None, rows: int) -> Iterator[Tile]:
    """All shards in order, at most `rows` rows at a time."""
    for shard in range(len(source.shard_sizes)):
        yield from split_tile(read_encoded(source, shard, num_classes=num_classes), rows)


def split_tile(tile: Tile, rows: int) -> Iterator[Tile]:
    for part in row_tiles(len(tile.X), row_elements=1, tile_elements=rows):
        yield Tile(tile.X[part], tile.targets[part], tile.weight[part])


def summarize(source: Source, *, num_classes: int | None, group: Any = None) -> Summary:
    """One pass over the targets; it checks every row, so that errors come before the work.

    With a `group`, `source` has this process's rows, and the summary is that of all processes' rows.
    """
    if num_classes is not None and checks.positive_int("num_classes", num_classes) < 2:
        raise ValueError(f"num_classes must be at least 2, got {num_classes}.")
    num_rows, total_weight, total = 0, 0.0, None
    for shard in range(len(source.shard_sizes)):
        tile = read_encoded(source, shard, num_classes=num_classes)
        part = tile.weight.double() @ tile.targets.double()
        if total is not None and len(part) != len(total):
            raise ValueError(f"y must have the same number of columns in all shards, got {len(total)} and {len(part)}.")
        total = part if total is None else total + part
        num_rows, total_weight = num_rows + len(tile.X), total_weight + float(tile.weight.double().sum())
    if group is not None:
        assert total is not None
        sums = group.sum(torch.cat([total.new_tensor([num_rows, total_weight]), total]))
        num_rows, total_weight, total = int(sums[0]), float(sums[1]), sums[2:]
    if total is None or num_rows == 0 or total_weight == 0:
        raise ValueError(f"source must hold rows of positive weight, got {num_rows} rows of weight {total_weight:g}.")
    if num_classes is not None and int((total > 0).sum()) < 2:
        raise ValueError(f"y must hold at least two classes, got only class {int(total.argmax())}.")
    return Summary(num_rows, total_weight, total / total_weight)


def _numbers(y: Tensor) -> Tensor:
    if not y.is_floating_point():
        raise TypeError(f"y must hold floats, got dtype {y.dtype}; use y.float(), or num_classes for class indices.")
    if y.ndim not in (1, 2):
        raise ValueError(f"y must have shape [rows] or [rows, outputs], got {tuple(y.shape)}.")
    return checks.finite("y", y[:, None] if y.ndim == 1 else y)


def _weights(weight: Tensor, num_rows: int) -> Tensor:
    if weight.shape != (num_rows,):
        raise ValueError(f"weight must have shape ({num_rows},), got {tuple(weight.shape)}.")
    lowest = float(checks.finite("weight", weight).min()) if num_rows else 0.0
    if lowest < 0:
        raise ValueError(f"weight must be non-negative, got {lowest:g}.")
    return weight
