"""weights <- weights - rate G^T Z, reading and writing the weights once, with their 16-bit copy."""

# mypy: ignore-errors

from __future__ import annotations

import torch
from torch import Tensor

from bochner.ops.fused import hopper
from bochner.ops.fused.primitives import Tiles, cdiv, factor_type, jit, precision, tl

TILES = Tiles(rows=64, columns=128, depth=64, warps=4, stages=4)
ALIGNED = 16  # elements between multiples of which rows start; reads are then at least 16 bytes wide


@jit
def _update(
    weights, copy, G, Z, outputs, width, rows, g_stride, z_stride, rate,
    COPY: tl.constexpr, FACTOR: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    # Consecutive programs share a tile of Z.
    row_tiles = tl.cdiv(outputs, ROWS)
    c = (tl.program_id(0) % row_tiles) * ROWS + tl.arange(0, ROWS)
    j = (tl.program_id(0) // row_tiles) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, rows, DEPTH):
        n = start + tl.arange(0, DEPTH)
        g = tl.load(
            G + n[:, None] * g_stride + c[None, :], mask=(n[:, None] < rows) & (c[None, :] < g_stride), other=0.0
        )
        z = tl.load(
            Z + n[:, None].to(tl.int64) * z_stride + j[None, :],
            mask=(n[:, None] < rows) & (j[None, :] < width), other=0.0,
        )  # fmt: skip
        total = tl.dot(tl.trans(g.to(FACTOR)), z.to(FACTOR), total, input_precision=PRECISION)
    place = c[:, None].to(tl.int64) * width + j[None, :]
    inside = (c[:, None] < outputs) & (j[None, :] < width)
    new = tl.load(weights + place, mask=inside, other=0.0) - rate * total
    tl.store(weights + place, new, mask=inside)
    if COPY:
        tl.store(copy + place, new.to(copy.dtype.element_ty), mask=inside)


def update_head(
    weights: Tensor, G: Tensor, Z: Tensor, *, rate: float, copy: Tensor | None = None, tiles: Tiles | None = None
) -> None:
    C, D = weights.shape
    G, follower = _aligned(G, Z), weights if copy is None else copy
    if hopper.is_16_bit(Z) and weights.dtype == torch.float32 and hopper.fits(weights, follower, G, Z):
        hopper.write_update(weights, G, Z, rate=rate, copy=copy, tiles=tiles)
        return
    tiles = (tiles or TILES).of(Z)
    _update[(cdiv(C, tiles.rows) * cdiv(D, tiles.columns),)](
        weights, follower, G, Z, C, D, len(Z), G.stride(0), Z.stride(0), rate,
        COPY=copy is not None, FACTOR=factor_type(Z), PRECISION=precision(Z),
        ROWS=tiles.rows, COLUMNS=tiles.columns, DEPTH=tiles.depth, num_warps=tiles.warps, num_stages=tiles.stages,
    )  # fmt: skip


def _aligned(G: Tensor, Z: Tensor) -> Tensor:
    """The derivatives in the dtype of Z, with rows a multiple of 16 elements apart."""
    n, C = G.shape
    if G.dtype == Z.dtype and G.stride(1) == 1 and G.stride(0) % ALIGNED == 0:
        return G
    return Z.new_zeros(n, C + -C % ALIGNED)[:, :C].copy_(G)
