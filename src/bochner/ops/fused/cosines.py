"""a cos(X W + b), or cosines and sines, by a product for dense W and by a gather for a few entries per column."""

# mypy: ignore-errors

from __future__ import annotations

from torch import Tensor

from bochner.ops.fused import hopper
from bochner.ops.fused.primitives import (
    TURNS,
    Tiles,
    cdiv,
    factor_type,
    jit,
    precision,
    scaled_cosine,
    scaled_series,
    tl,
)

TILES = Tiles(rows=128, columns=128, depth=64, warps=4, stages=3)
PAIRED_TILES = TILES._replace(warps=8)  # a cosine and a sine of each angle need the registers of more warps
SPARSE_TILES = Tiles(rows=32, columns=128, depth=1, warps=4, stages=2)


@jit
def _store_cosines(
    angles, phases, Z, i, j, rows, outputs, z_stride, turns_per_radian, c0, c1, c2, c3, PAIRED: tl.constexpr
):  # fmt: skip
    turns = angles * turns_per_radian
    inside = (i[:, None] < rows) & (j[None, :] < outputs)
    place = Z + i[:, None].to(tl.int64) * z_stride + j[None, :]
    if PAIRED:
        tl.store(place + outputs, scaled_cosine(turns - 0.25, c0, c1, c2, c3).to(Z.dtype.element_ty), mask=inside)
    else:
        b = tl.load(phases + j, mask=j < outputs, other=0.0).to(tl.float32)
        turns += (b * turns_per_radian)[None, :]
    tl.store(place, scaled_cosine(turns, c0, c1, c2, c3).to(Z.dtype.element_ty), mask=inside)


@jit
def _cosines(
    X, W, phases, Z, rows, outputs, z_stride, turns_per_radian, c0, c1, c2, c3,
    INPUTS: tl.constexpr, PAIRED: tl.constexpr, FACTOR: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    # Consecutive programs share a tile of W, which is read from memory once; X is read from the cache.
    row_tiles = tl.cdiv(rows, ROWS)
    i = (tl.program_id(0) % row_tiles) * ROWS + tl.arange(0, ROWS)
    j = (tl.program_id(0) // row_tiles) * COLUMNS + tl.arange(0, COLUMNS)
    angles = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, INPUTS, DEPTH):
        k = start + tl.arange(0, DEPTH)
        x = tl.load(
            X + i[:, None].to(tl.int64) * INPUTS + k[None, :],
            mask=(i[:, None] < rows) & (k[None, :] < INPUTS), other=0.0,
        )  # fmt: skip
        w = tl.load(
            W + k[:, None].to(tl.int64) * outputs + j[None, :],
            mask=(k[:, None] < INPUTS) & (j[None, :] < outputs), other=0.0,
        )  # fmt: skip
        angles = tl.dot(x.to(FACTOR), w.to(FACTOR), angles, input_precision=PRECISION)
    _store_cosines(angles, phases, Z, i, j, rows, outputs, z_stride, turns_per_radian, c0, c1, c2, c3, PAIRED)


def cosine_features(
    X: Tensor, frequencies: Tensor, phases: Tensor | None, *, amplitude: float, out: Tensor | None = None,
    tiles: Tiles | None = None,
) -> Tensor:  # fmt: skip
    n, (d, P) = len(X), frequencies.shape
    X, frequencies = X.contiguous(), frequencies.contiguous()
    Z = X.new_empty(n, P if phases is not None else 2 * P) if out is None else out
    if hopper.is_16_bit(X, frequencies, Z) and hopper.fits(X, frequencies, Z, Z[:, -P:]):
        hopper.write_features(X, frequencies, phases, Z, amplitude=amplitude, tiles=tiles)
        return Z
    tiles = (tiles or (PAIRED_TILES if phases is None else TILES)).of(X)
    _cosines[(cdiv(n, tiles.rows) * cdiv(P, tiles.columns),)](
        X, frequencies, X if phases is None else phases, Z, n, P, Z.stride(0), TURNS, *scaled_series(amplitude),
        INPUTS=d, PAIRED=phases is None, FACTOR=factor_type(X), PRECISION=precision(X),
        ROWS=tiles.rows, COLUMNS=tiles.columns, DEPTH=tiles.depth, num_warps=tiles.warps, num_stages=tiles.stages,
    )  # fmt: skip
    return Z


@jit
def _sparse_cosines(
    X, places, values, phases, Z, rows, outputs, x_stride, z_stride, turns_per_radian, c0, c1, c2, c3,
    ENTRIES: tl.constexpr, PAIRED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row_tiles = tl.cdiv(rows, ROWS)
    i = (tl.program_id(0) % row_tiles) * ROWS + tl.arange(0, ROWS)
    j = (tl.program_id(0) // row_tiles) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (i[:, None] < rows) & (j[None, :] < outputs)
    angles = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for entry in tl.static_range(ENTRIES):
        k = tl.load(places + j * ENTRIES + entry, mask=j < outputs, other=0)
        w = tl.load(values + j * ENTRIES + entry, mask=j < outputs, other=0.0).to(tl.float32)
        x = tl.load(X + i[:, None].to(tl.int64) * x_stride + k[None, :], mask=inside, other=0.0)
        angles += x.to(tl.float32) * w[None, :]
    _store_cosines(angles, phases, Z, i, j, rows, outputs, z_stride, turns_per_radian, c0, c1, c2, c3, PAIRED)


def sparse_cosine_features(
    X: Tensor, places: Tensor, values: Tensor, phases: Tensor | None, *, amplitude: float, tiles: Tiles = SPARSE_TILES
) -> Tensor:
    n, (P, k) = len(X), places.shape
    X, places, values = X.contiguous(), places.contiguous(), values.contiguous()
    Z = X.new_empty(n, P if phases is not None else 2 * P)
    _sparse_cosines[(cdiv(n, tiles.rows) * cdiv(P, tiles.columns),)](
        X, places, values, X if phases is None else phases, Z, n, P, X.shape[1], Z.shape[1], TURNS,
        *scaled_series(amplitude), ENTRIES=k, PAIRED=phases is None, ROWS=tiles.rows, COLUMNS=tiles.columns,
        num_warps=tiles.warps, num_stages=tiles.stages,
    )  # fmt: skip
    return Z
