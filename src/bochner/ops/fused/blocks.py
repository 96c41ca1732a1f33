"""k(X, Y) for radial kernels as an array: a product of split rows on matrix units, with values of k in its epilogue."""

# mypy: ignore-errors

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bochner.ops.distances import NEAR, Radial
from bochner.ops.fused.primitives import Tiles, cdiv, jit, next_power_of_2, tl
from bochner.ops.fused.products import SPLIT_ERROR, _load_rows, _padded, _power, _scale, _split_dot
from bochner.ops.linalg import row_tiles

# For compute capability 9, the fastest of eleven on an H200, and for 8.
TILES = Tiles(rows=128, columns=128, depth=64, warps=8, stages=3)
SMALL_TILES = Tiles(rows=64, columns=64, depth=32, warps=4, stages=2)
# Of the correction, whose columns are those of the others: few rows, as they are corrected one after the other.
CORRECTION = Tiles(rows=16, columns=0, depth=64, warps=4, stages=1)
PREPARED_ELEMENTS = 2**26  # numbers that are split at once
BLOCK_ROWS, BLOCK_COLUMNS = 2**13, 2**14  # of a block in a product, 512 MB


class SplitRows(NamedTuple):
    """Rows x [n, d], and what a block of k needs of them: x - c as the sum of two float16 numbers times a power of two.

    high and low [n, w], w >= d; units [n], the power of two; squares ||x - c||^2 [n]. All rows have the same c.
    """

    rows: Tensor
    high: Tensor
    low: Tensor
    squares: Tensor
    units: Tensor

    @classmethod
    def empty(cls, n: int, like: Tensor) -> SplitRows:
        """Memory for n rows of the width of `like`."""
        d, width = like.shape[1], _width(like.shape[1])
        halves = [like.new_empty(n, width, dtype=torch.float16) for _ in range(2)]
        return cls(like.new_empty(n, d), *halves, like.new_empty(n), like.new_empty(n))

    @classmethod
    def of(cls, X: Tensor, center: Tensor) -> SplitRows:
        X, width = X.contiguous(), _width(X.shape[1])
        halves = [X.new_empty(len(X), width, dtype=torch.float16) for _ in range(2)]
        split = cls(X, *halves, X.new_empty(len(X)), X.new_empty(len(X)))
        split.write(X, center)
        return split

    def part(self, rows: slice) -> SplitRows:
        return SplitRows(*(tensor[rows] for tensor in self))

    def write(self, X: Tensor, center: Tensor) -> None:
        """Become X, of as many rows."""
        if self.rows is not X:
            self.rows.copy_(X)
        for tile in row_tiles(len(X), row_elements=X.shape[1], tile_elements=PREPARED_ELEMENTS):
            target = self.part(tile)
            centred = X[tile] - center
            torch.sum(centred.square(), dim=1, out=target.squares)
            scale = _scale(centred, dim=1)
            centred = _padded(centred * scale[:, None], target.high.shape[1])
            target.high.copy_(centred)
            target.low.copy_(centred.sub_(target.high))
            target.units.copy_(1 / scale)


def _width(d: int) -> int:
    return max(16, next_power_of_2(d)) if d < TILES.depth else cdiv(d, TILES.depth) * TILES.depth


@jit
def _values(sums, factor, POWER: tl.constexpr, DEGREE: tl.constexpr):
    t = factor * _power(sums, POWER)
    values = tl.exp(-t)
    if DEGREE == 1:
        values = values * (1.0 + t)
    if DEGREE == 2:
        values = values * (1.0 + t + t * t / 3.0)
    return values


@jit
def _radial_block(
    X_high, X_low, x_squares, x_units, Y_high, Y_low, y_squares, y_units, K, near_rows,
    n, m, factor, error, split_error, near,
    WIDTH: tl.constexpr, POWER: tl.constexpr, DEGREE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    # Consecutive programs share a tile of Y, which is read from memory once; X is read from the cache.
    tiles = tl.cdiv(n, ROWS)
    row, column = (tl.program_id(0) % tiles) * ROWS, (tl.program_id(0) // tiles) * COLUMNS
    i, j, k = row + tl.arange(0, ROWS), column + tl.arange(0, COLUMNS), tl.arange(0, DEPTH)
    products = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for depth in tl.range(0, WIDTH, DEPTH, num_stages=STAGES):
        x_high, x_low = _load_rows(X_high, i, depth + k, n, WIDTH), _load_rows(X_low, i, depth + k, n, WIDTH)
        y_high, y_low = _load_rows(Y_high, j, depth + k, m, WIDTH), _load_rows(Y_low, j, depth + k, m, WIDTH)
        products += _split_dot(x_high, x_low, tl.trans(y_high), tl.trans(y_low))
    x_unit = 2.0 * tl.load(x_units + i, mask=i < n, other=0.0)
    y_unit = tl.load(y_units + j, mask=j < m, other=0.0)
    squares = tl.load(x_squares + i, mask=i < n, other=0.0)[:, None]
    squares = squares + tl.load(y_squares + j, mask=j < m, other=0.0)[None, :]
    sums = tl.maximum(squares - products * x_unit[:, None] * y_unit[None, :], 0.0)
    inside = (i < n)[:, None] & (j < m)[None, :]
    cancelled = (split_error * squares > error) & (sums < near * squares) & inside
    values = tl.where(cancelled, -1.0, _values(sums, factor, POWER, DEGREE))
    tl.store(K + i[:, None].to(tl.int64) * m + j[None, :], values, mask=inside)
    near_row = tl.max(cancelled.to(tl.int32), axis=1)
    tl.store(near_rows + i.to(tl.int64) * tl.cdiv(m, COLUMNS) + column // COLUMNS, near_row.to(tl.int8), mask=i < n)


@jit
def _correct_near(
    X, Y, K, near_rows, n, m, factor, INPUTS: tl.constexpr, POWER: tl.constexpr, DEGREE: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Values of k from differences in place of the entries -1; most tiles have none."""
    tiles, parts = tl.cdiv(n, ROWS), tl.cdiv(m, COLUMNS)
    row, part = (tl.program_id(0) % tiles) * ROWS, tl.program_id(0) // tiles
    i, j = row + tl.arange(0, ROWS), part * COLUMNS + tl.arange(0, COLUMNS)
    flags = tl.load(near_rows + i.to(tl.int64) * parts + part, mask=i < n, other=0).to(tl.int32)
    if tl.max(flags, axis=0) > 0:
        for r in range(row, tl.minimum(row + ROWS, n)):
            flag = tl.load(near_rows + tl.cast(r, tl.int64) * parts + part).to(tl.int32)
            if flag > 0:
                sums = tl.zeros((COLUMNS,), dtype=tl.float32)
                for start in range(0, INPUTS, DEPTH):
                    k = start + tl.arange(0, DEPTH)
                    x = tl.load(X + tl.cast(r, tl.int64) * INPUTS + k, mask=k < INPUTS, other=0.0)
                    rows = Y + j[:, None].to(tl.int64) * INPUTS + k[None, :]
                    y = tl.load(rows, mask=(j < m)[:, None] & (k < INPUTS)[None, :], other=0.0)
                    sums += tl.sum((x[None, :] - y) * (x[None, :] - y), axis=1)
                place = K + tl.cast(r, tl.int64) * m + j
                value = tl.load(place, mask=j < m, other=0.0)
                tl.store(place, _values(sums, factor, POWER, DEGREE), mask=(j < m) & (value < 0))


def radial_block(X: SplitRows, Y: SplitRows, radial: Radial) -> Tensor:
    """k(X, Y) [n, m] in float32, for kernels of the Euclidean distance, to the accuracy of `radial_product`.

    Pairs of near points, whose distances a product leaves without digits, are computed from their differences.
    O(n m d).
    """
    n, m = len(X.rows), len(Y.rows)
    K = X.rows.new_empty(n, m)
    if n == 0 or m == 0:
        return K
    tiles = _tiles(X.rows)
    near_rows = torch.empty(n, cdiv(m, tiles.columns), dtype=torch.int8, device=K.device)
    shape = {"COLUMNS": tiles.columns, "POWER": radial.power, "DEGREE": radial.degree}
    _radial_block[(cdiv(n, tiles.rows) * cdiv(m, tiles.columns),)](
        X.high, X.low, X.squares, X.units, Y.high, Y.low, Y.squares, Y.units, K, near_rows,
        n, m, radial.factor, radial.error, SPLIT_ERROR, 4 * NEAR,
        WIDTH=X.high.shape[1], ROWS=tiles.rows, DEPTH=min(tiles.depth, X.high.shape[1]), STAGES=tiles.stages,
        num_warps=tiles.warps, **shape,
    )  # fmt: skip
    _correct_near[(cdiv(n, CORRECTION.rows) * cdiv(m, tiles.columns),)](
        X.rows, Y.rows, K, near_rows, n, m, radial.factor,
        INPUTS=X.rows.shape[1], ROWS=CORRECTION.rows, DEPTH=CORRECTION.depth, num_warps=CORRECTION.warps, **shape,
    )  # fmt: skip
    return K


def blocked_product(X: Tensor, Y: Tensor, V: Tensor, radial: Radial) -> Tensor:
    """k(X, Y) V [n, c] as `radial_product` computes it, by blocks in memory: faster for inputs of hundreds of columns.

    Sums over more columns than a block has are added in float64.
    """
    center = Y.mean(dim=0)
    columns, result = SplitRows.of(Y, center), V.new_zeros(len(X), V.shape[1], dtype=torch.float64)
    for i in row_tiles(len(X), row_elements=1, tile_elements=BLOCK_ROWS):
        rows = SplitRows.of(X[i], center)
        for j in row_tiles(len(Y), row_elements=1, tile_elements=BLOCK_COLUMNS):
            result[i] += radial_block(rows, columns.part(j), radial) @ V[j]
    return result.float()


def _tiles(X: Tensor) -> Tiles:
    return TILES if not X.is_cuda or torch.cuda.get_device_capability(X.device)[0] >= 9 else SMALL_TILES
