"""k(X, Y) V for radial kernels, by tiles of k(X, Y) that never leave the chip."""

# mypy: ignore-errors

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from bochner.ops.distances import NEAR, Radial
from bochner.ops.fused.primitives import Tiles, cdiv, jit, next_power_of_2, tl

# For compute capability 9, the fastest on an H200 for up to 64 inputs, where rows of X stay on chip, and for more; for
# compute capability 8. With one stage, code that Triton 3.6 compiles reads outside of shared memory.
TILES = Tiles(rows=128, columns=32, depth=64, warps=4, stages=2)
WIDE_TILES = Tiles(rows=64, columns=128, depth=64, warps=4, stages=2)
SMALL_TILES = Tiles(rows=64, columns=32, depth=32, warps=4, stages=2)
MAX_OUTPUTS = 64  # columns of V that one program multiplies
# Columns of k(X, Y) that are summed in float32; sums over more are added in float64.
MAX_COLUMNS = 2**14
# Programs per multiprocessor, at least: the last of them then leave few multiprocessors idle.
PROGRAMS = 4
# Relative to ||x|| ||y||, the error of a product x . y by three products of float16 numbers: factors of 11 bits leave
# 3 * 2^-22, and matrix units truncate sums. Rows below 1e-4 of the largest have a larger one.
SPLIT_ERROR = 2.0**-20
LARGEST = 2.0**13  # what the largest number is scaled to before it is split; float16 ends at 2^16


@jit
def _split_dot(a_high, a_low, b_high, b_low):
    """(a_high + a_low) (b_high + b_low) without the product of the low parts, which is below float32's accuracy.

    The sum starts at 0, since matrix units truncate: to a running total they would add an error that grows with it.
    """
    total = tl.dot(a_low, b_high)
    total = tl.dot(a_high, b_low, total)
    return tl.dot(a_high, b_high, total)


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
def _load_rows(X, i, k, rows, WIDTH: tl.constexpr):
    return tl.load(X + i[:, None].to(tl.int64) * WIDTH + k[None, :], mask=i[:, None] < rows, other=0.0)


@jit
def _power_sums(
    X, Y, i, j, n, m,
    NORM: tl.constexpr, INPUTS: tl.constexpr, AT_ONCE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """sum_k |x_k - y_k|^NORM from differences, exactly 0 for equal rows, for X [d, n] and Y [d, m]."""
    sums = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in tl.range(0, INPUTS, AT_ONCE, num_stages=1, disable_licm=True):
        for step in tl.static_range(AT_ONCE):  # loads of several inputs are under way at once
            k = tl.cast(start + step, tl.int64)
            x = tl.load(X + k * n + i, mask=i < n, other=0.0)
            y = tl.load(Y + k * m + j, mask=j < m, other=0.0)
            sums += _power(tl.abs(x[:, None] - y[None, :]), NORM)
    return sums


@jit
def _radial_product(
    X, X_high, X_low, x_squares, x_largest, Y, Y_high, Y_low, y_squares, y_largest, V_high, V_low, out,
    n, m, part_columns, scale, factor, error, split_error, near,
    INPUTS: tl.constexpr, WIDTH: tl.constexpr, NORM: tl.constexpr, POWER: tl.constexpr, DEGREE: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, OUTPUTS: tl.constexpr, STAGES: tl.constexpr,
    AT_ONCE: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
    part, outputs = tl.program_id(2), tl.num_programs(1) * OUTPUTS
    total = tl.zeros((ROWS, OUTPUTS), dtype=tl.float32)
    k = tl.arange(0, DEPTH)
    if NORM == 2.0:
        x_square = tl.load(x_squares + i, mask=i < n, other=0.0)
        may_cancel = split_error * (tl.load(x_largest) + tl.load(y_largest)) > error
        doubled = tl.load(scale)
        if WIDTH == DEPTH:
            x_high, x_low = _load_rows(X_high, i, k, n, WIDTH), _load_rows(X_low, i, k, n, WIDTH)
    for start in tl.range(part * part_columns, tl.minimum(m, (part + 1) * part_columns), COLUMNS, num_stages=STAGES):
        j = start + tl.arange(0, COLUMNS)
        if NORM == 2.0:
            if WIDTH == DEPTH:
                y_high, y_low = _load_rows(Y_high, j, k, m, WIDTH), _load_rows(Y_low, j, k, m, WIDTH)
                products = _split_dot(x_high, x_low, tl.trans(y_high), tl.trans(y_low))
            else:
                products = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
                for depth in tl.range(0, WIDTH, DEPTH, num_stages=STAGES):
                    x_high = _load_rows(X_high, i, depth + k, n, WIDTH)
                    x_low = _load_rows(X_low, i, depth + k, n, WIDTH)
                    y_high = _load_rows(Y_high, j, depth + k, m, WIDTH)
                    y_low = _load_rows(Y_low, j, depth + k, m, WIDTH)
                    products += _split_dot(x_high, x_low, tl.trans(y_high), tl.trans(y_low))
            squares = x_square[:, None] + tl.load(y_squares + j, mask=j < m, other=0.0)[None, :]
            sums = tl.maximum(squares - doubled * products, 0.0)
            if may_cancel:  # digits, between near points far from the origin: their tile is computed from differences
                cancelled = (split_error * squares > error) & (sums < near * squares)
                cancelled = cancelled & (i < n)[:, None] & (j < m)[None, :]
                if tl.max(tl.max(cancelled.to(tl.int32), axis=1), axis=0) > 0:
                    sums = _power_sums(X, Y, i, j, n, m, 2.0, INPUTS, AT_ONCE, ROWS, COLUMNS)
        else:
            sums = _power_sums(X, Y, i, j, n, m, NORM, INPUTS, AT_ONCE, ROWS, COLUMNS)
        t = factor * _power(sums, POWER)
        K = tl.exp(-t)
        if DEGREE == 1:
            K = K * (1.0 + t)
        if DEGREE == 2:
            K = K * (1.0 + t + t * t / 3.0)
        K_high = K.to(tl.float16)
        K_low = (K - K_high.to(tl.float32)).to(tl.float16)
        v_high, v_low = _load_rows(V_high, j, c, m, outputs), _load_rows(V_low, j, c, m, outputs)
        total += _split_dot(K_high, K_low, v_high, v_low)
    tl.store(out + (part.to(tl.int64) * n + i[:, None]) * outputs + c[None, :], total, mask=i[:, None] < n)


def radial_product(X: Tensor, Y: Tensor, V: Tensor, radial: Radial, *, tiles: Tiles | None = None) -> Tensor:
    """k(X, Y) V [n, c] for X [n, d], Y [m, d] and V [m, c] in float32; see `Radial` for k.

    Distances and the product with V are products of numbers split into two of float16 each. Relative to
    k(x, x) ||V||_1 the error is about that of float32, 1e-6, plus that of squared distances, which is at most 2^-20 of
    ||x||^2 + ||y||^2 about the mean of Y and at most 2^-14 of the square itself where `radial.error` is 0. Rows 10,000
    times as close to that mean as the farthest have larger relative errors: they reach the end of float16's range.
    O(n m (d + c)) time and no array [n, m].
    """
    (n, d), (m, c) = X.shape, V.shape
    if n == 0 or m == 0 or c == 0:
        return V.new_zeros(n, c)
    tiles = tiles or _tiles(X)
    depth = max(16, min(tiles.depth, next_power_of_2(d)))
    outputs = min(MAX_OUTPUTS, max(16, next_power_of_2(c)))  # 16 is the least size of a product
    programs = cdiv(n, tiles.rows) * cdiv(c, outputs)
    parts = max(cdiv(m, MAX_COLUMNS), min(cdiv(PROGRAMS * _processors(X), programs), cdiv(m, 16 * tiles.columns)))
    part_columns = cdiv(cdiv(m, parts), tiles.columns) * tiles.columns
    parts = cdiv(m, part_columns)

    # Differences are the work of other norms, and slow where many inputs need them; else they may take few registers.
    at_once = 1 if radial.norm == 2 and d <= depth else 4
    center = Y.mean(dim=0)
    X, Y = X - center, Y - center
    x_scale, y_scale, v_scale = _scale(X), _scale(Y), _scale(V, dim=0)
    x_squares, y_squares = X.square().sum(dim=1), Y.square().sum(dim=1)
    x_split, y_split = (
        (_split(X * x_scale, depth), _split(Y * y_scale, depth)) if radial.norm == 2 else ((X, X), (Y, Y))
    )
    out = X.new_empty(parts, n, cdiv(c, outputs) * outputs)
    _radial_product[(cdiv(n, tiles.rows), cdiv(c, outputs), parts)](
        _padded(X, at_once).T.contiguous(), *x_split, x_squares, x_squares.amax(),
        _padded(Y, at_once).T.contiguous(), *y_split, y_squares, y_squares.amax(),
        *_split(V * v_scale, outputs), out, n, m, part_columns, 2 / (x_scale * y_scale),
        radial.factor, radial.error, SPLIT_ERROR, 4 * NEAR,
        INPUTS=cdiv(d, at_once) * at_once, WIDTH=cdiv(d, depth) * depth,
        NORM=radial.norm, POWER=radial.power, DEGREE=radial.degree,
        ROWS=tiles.rows, COLUMNS=tiles.columns, DEPTH=depth, OUTPUTS=outputs, STAGES=tiles.stages,
        AT_ONCE=at_once, num_warps=tiles.warps,
    )  # fmt: skip
    result = out[0] if parts == 1 else out.sum(dim=0, dtype=torch.float64)
    return (result[:, :c] / v_scale).float()


def _scale(X: Tensor, dim: Any = None) -> Tensor:
    """The power of two that brings the largest number near LARGEST: products with it are exact. 1 for infinity."""
    low, high = torch.aminmax(X, dim=dim)
    largest = torch.maximum(-low, high).clamp_min(LARGEST * 2.0**-60)
    scale = torch.exp2(torch.floor(torch.log2(LARGEST / largest)).clamp_min(-60))
    return torch.where(largest.isfinite(), scale, 1.0)


def _split(X: Tensor, multiple: int) -> tuple[Tensor, Tensor]:
    """Two float16 tensors whose sum is X to 22 bits, with columns of zeros up to a `multiple`."""
    X = _padded(X, multiple)
    high = X.half()
    return high, (X - high).half()


def _padded(X: Tensor, multiple: int) -> Tensor:
    rest = -X.shape[1] % multiple
    return torch.nn.functional.pad(X, (0, rest)) if rest else X


def _tiles(X: Tensor) -> Tiles:
    if not X.is_cuda or torch.cuda.get_device_capability(X.device)[0] < 9:
        return SMALL_TILES
    return TILES if X.shape[1] <= TILES.depth else WIDE_TILES  # needs a GPU


def _processors(like: Tensor) -> int:
    return torch.cuda.get_device_properties(like.device).multi_processor_count if like.is_cuda else 1
