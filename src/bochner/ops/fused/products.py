"""k(X, Y) V for radial kernels, by tiles of k(X, Y) that never leave the chip."""

# mypy: ignore-errors

from __future__ import annotations

import torch
from torch import Tensor

from bochner.ops.distances import NEAR, Radial
from bochner.ops.fused.primitives import Tiles, cdiv, jit, next_power_of_2, tl

# For compute capability 9 and for 8: the largest tiles whose compiled kernels keep everything in registers.
TILES = Tiles(rows=128, columns=32, depth=32, warps=8, stages=2)
SMALL_TILES = Tiles(rows=64, columns=32, depth=16, warps=4, stages=2)
MAX_OUTPUTS = 64  # columns of V that one program multiplies
# Columns of k(X, Y) that are summed in float32; sums over more are added in float64.
MAX_COLUMNS = 2**14
# Programs per multiprocessor, at least: the last of them then leave few multiprocessors idle.
PROGRAMS = 4
# Relative to ||x|| ||y||, the error of a product x . y by three TF32 products: factors of 11 bits leave 3 * 2^-22.
SPLIT_ERROR = 2.0**-20


@jit
def _rounded(x):
    """x in TF32: float32 with 10 bits after the leading one, so that products by matrix units are exact."""
    return ((x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)


@jit
def _split_dot(a, b, total):
    """total + a b to float32's accuracy: each factor is the sum of two TF32 numbers, whose smallest product is left
    out."""
    a_high, b_high = _rounded(a), _rounded(b)
    a_low, b_low = _rounded(a - a_high), _rounded(b - b_high)
    total = tl.dot(a_low, b_high, total, input_precision="tf32")
    total = tl.dot(a_high, b_low, total, input_precision="tf32")
    return tl.dot(a_high, b_high, total, input_precision="tf32")


@jit
def _power(base, POWER: tl.constexpr):
    if POWER == 1.0:
        return base
    if POWER == 2.0:
        return base * base
    if POWER == 0.5:
        return tl.sqrt(base)
    return tl.exp2(tl.log2(base) * POWER)  # 0 stays 0: its logarithm is -inf


@jit
def _load_rows(X, i, k, rows, INPUTS: tl.constexpr):
    place = i[:, None].to(tl.int64) * INPUTS + k[None, :]
    return tl.load(X + place, mask=(i[:, None] < rows) & (k[None, :] < INPUTS), other=0.0)


@jit
def _power_sums(X, Y, i, j, n, m, NORM: tl.constexpr, INPUTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """sum_k |x_k - y_k|^NORM from differences, exactly 0 for equal rows."""
    sums = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for k in tl.range(0, INPUTS, num_stages=1, disable_licm=True):
        x = tl.load(X + i.to(tl.int64) * INPUTS + k, mask=i < n, other=0.0)
        y = tl.load(Y + j.to(tl.int64) * INPUTS + k, mask=j < m, other=0.0)
        sums += _power(tl.abs(x[:, None] - y[None, :]), NORM)
    return sums


@jit
def _radial_product(
    X, Y, x_squares, y_squares, V, out, n, m, outputs, part_columns, factor, error, split_error, near,
    INPUTS: tl.constexpr, NORM: tl.constexpr, POWER: tl.constexpr, DEGREE: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, OUTPUTS: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
    part = tl.program_id(2)
    total = tl.zeros((ROWS, OUTPUTS), dtype=tl.float32)
    x_square = tl.load(x_squares + i, mask=i < n, other=0.0)
    for start in range(part * part_columns, tl.minimum(m, (part + 1) * part_columns), COLUMNS):
        j = start + tl.arange(0, COLUMNS)
        if NORM == 2.0:
            products = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
            for depth in tl.range(0, INPUTS, DEPTH, num_stages=1):
                k = depth + tl.arange(0, DEPTH)
                x = _load_rows(X, i, k, n, INPUTS)
                products = _split_dot(x, tl.trans(_load_rows(Y, j, k, m, INPUTS)), products)
            squares = x_square[:, None] + tl.load(y_squares + j, mask=j < m, other=0.0)[None, :]
            sums = tl.maximum(squares - 2 * products, 0.0)
            # Digits cancel between near points far from the origin. Their tile is computed again from differences.
            cancelled = (split_error * squares > error) & (sums < near * squares)
            cancelled = cancelled & (i < n)[:, None] & (j < m)[None, :]
            if tl.max(tl.max(cancelled.to(tl.int32), axis=1), axis=0) > 0:
                sums = _power_sums(X, Y, i, j, n, m, 2.0, INPUTS, ROWS, COLUMNS)
        else:
            sums = _power_sums(X, Y, i, j, n, m, NORM, INPUTS, ROWS, COLUMNS)
        t = factor * _power(sums, POWER)
        K = tl.exp(-t)
        if DEGREE == 1:
            K = K * (1.0 + t)
        if DEGREE == 2:
            K = K * (1.0 + t + t * t / 3.0)
        place = j[:, None].to(tl.int64) * outputs + c[None, :]
        v = tl.load(V + place, mask=(j[:, None] < m) & (c[None, :] < outputs), other=0.0)
        total = _split_dot(K, v, total)
    place = (part.to(tl.int64) * n + i[:, None]) * outputs + c[None, :]
    tl.store(out + place, total, mask=(i[:, None] < n) & (c[None, :] < outputs))


def radial_product(X: Tensor, Y: Tensor, V: Tensor, radial: Radial, *, tiles: Tiles | None = None) -> Tensor:
    """k(X, Y) V [n, c] for X [n, d], Y [m, d] and V [m, c] in float32; see `Radial` for k.

    Distances and the product with V are products of numbers split into two of TF32 each. Relative to
    k(x, x) ||V||_1 the error is about that of float32, 1e-6, plus that of squared distances, which is at most 2^-20 of
    ||x||^2 + ||y||^2 about the mean of Y and at most 2^-14 of the square itself where `radial.error` is 0.
    O(n m (d + c)) time and no array [n, m].
    """
    (n, d), (m, c) = X.shape, V.shape
    if n == 0 or m == 0 or c == 0:
        return V.new_zeros(n, c)
    center = Y.mean(dim=0)
    X, Y, V = (X - center).contiguous(), (Y - center).contiguous(), V.contiguous()
    tiles = tiles or _tiles(X.device)
    outputs = min(MAX_OUTPUTS, max(16, next_power_of_2(c)))  # 16 is the least size of a product
    programs = cdiv(n, tiles.rows) * cdiv(c, outputs)
    parts = max(cdiv(m, MAX_COLUMNS), min(cdiv(PROGRAMS * _processors(X), programs), cdiv(m, 16 * tiles.columns)))
    part_columns = cdiv(cdiv(m, parts), tiles.columns) * tiles.columns
    parts = cdiv(m, part_columns)
    out = X.new_empty(parts, n, c)
    _radial_product[(cdiv(n, tiles.rows), cdiv(c, outputs), parts)](
        X, Y, X.square().sum(dim=1), Y.square().sum(dim=1), V, out, n, m, c, part_columns,
        radial.factor, radial.error, SPLIT_ERROR, 4 * NEAR,
        INPUTS=d, NORM=radial.norm, POWER=radial.power, DEGREE=radial.degree,
        ROWS=tiles.rows, COLUMNS=tiles.columns, DEPTH=max(16, min(tiles.depth, next_power_of_2(d))), OUTPUTS=outputs,
        num_warps=tiles.warps, num_stages=tiles.stages,
    )  # fmt: skip
    return out[0] if parts == 1 else out.sum(dim=0, dtype=torch.float64).float()


def _tiles(device: torch.device) -> Tiles:
    is_large = device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= 9
    return TILES if is_large else SMALL_TILES


def _processors(like: Tensor) -> int:
    return torch.cuda.get_device_properties(like.device).multi_processor_count if like.is_cuda else 1
