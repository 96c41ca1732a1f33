"""a cos(X W + b) where W has a few entries a column: a gather instead of a product."""

# mypy: ignore-errors

from __future__ import annotations

from torch import Tensor

from bochner.ops.fused.compiler import Tiles, cdiv, jit, tl
from bochner.ops.fused.waves import TURNS, scaled_series, wave

TILES = Tiles(rows=32, columns=128, depth=1, warps=4, stages=2)


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
    turns = angles * turns_per_radian
    place = Z + i[:, None].to(tl.int64) * z_stride + j[None, :]
    if PAIRED:
        tl.store(place + outputs, wave(turns - 0.25, c0, c1, c2, c3).to(Z.dtype.element_ty), mask=inside)
    else:
        b = tl.load(phases + j, mask=j < outputs, other=0.0).to(tl.float32)
        turns += (b * turns_per_radian)[None, :]
    tl.store(place, wave(turns, c0, c1, c2, c3).to(Z.dtype.element_ty), mask=inside)


def sparse_cosine_features(
    X: Tensor, places: Tensor, values: Tensor, phases: Tensor | None, *, amplitude: float, tiles: Tiles = TILES
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
