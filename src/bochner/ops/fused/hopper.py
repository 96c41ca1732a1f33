"""The two large products by the bulk copies of compute capability 9: tiles are fetched without a thread's help."""

# mypy: ignore-errors

from __future__ import annotations

import torch
from torch import Tensor

from bochner.ops.fused.compiler import TensorDescriptor, Tiles, cdiv, factor_type, jit, tl
from bochner.ops.fused.waves import TURNS, scaled_series, wave

ALIGNMENT = 16  # bytes, of every row


def fits(*matrices: Tensor) -> bool:
    """Whether the rows of short matrices lie as bulk copies need them, on a chip that has such copies."""
    device = matrices[0].device
    has_copies = device.type == "cpu" or torch.cuda.get_device_capability(device) >= (9, 0)  # a CPU: the interpreter
    return has_copies and all(
        m.dtype in (torch.bfloat16, torch.float16)
        and m.stride(1) == 1
        and m.stride(0) * m.itemsize % ALIGNMENT == 0
        and m.data_ptr() % ALIGNMENT == 0
        for m in matrices
    )


@jit
def _cosines(
    X, W, phases, cosines, sines, rows, outputs, turns_per_radian, c0, c1, c2, c3,
    INPUTS: tl.constexpr, PAIRED: tl.constexpr, FACTOR: tl.constexpr, SHORT: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    # Programs that follow each other share a tile of W: it comes from memory once, X from the cache.
    row_tiles = tl.cdiv(rows, ROWS)
    i = (tl.program_id(0) % row_tiles) * ROWS
    j = (tl.program_id(0) // row_tiles) * COLUMNS
    angles = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for k in range(0, INPUTS, DEPTH):
        angles = tl.dot(X.load([i, k]).to(FACTOR), W.load([k, j]).to(FACTOR), angles)
    turns = angles * turns_per_radian
    if PAIRED:
        sines.store([i, j], wave(turns - 0.25, c0, c1, c2, c3).to(SHORT))
    else:
        columns = j + tl.arange(0, COLUMNS)
        b = tl.load(phases + columns, mask=columns < outputs, other=0.0).to(tl.float32)
        turns += (b * turns_per_radian)[None, :]
    cosines.store([i, j], wave(turns, c0, c1, c2, c3).to(SHORT))


def write_cosines(
    X: Tensor, frequencies: Tensor, phases: Tensor | None, Z: Tensor, *, amplitude: float, tiles: Tiles
) -> None:
    n, (d, P) = len(X), frequencies.shape
    halves = [_tiled(Z[:, :P], tiles.rows, tiles.columns), _tiled(Z[:, -P:], tiles.rows, tiles.columns)]
    _cosines[(cdiv(n, tiles.rows) * cdiv(P, tiles.columns),)](
        _tiled(X, tiles.rows, tiles.depth), _tiled(frequencies, tiles.depth, tiles.columns),
        X if phases is None else phases, *halves, n, P, TURNS, *scaled_series(amplitude),
        INPUTS=d, PAIRED=phases is None, FACTOR=factor_type(X),
        SHORT=tl.bfloat16 if Z.dtype == torch.bfloat16 else tl.float16,
        ROWS=tiles.rows, COLUMNS=tiles.columns, DEPTH=tiles.depth, num_warps=tiles.warps, num_stages=tiles.stages,
    )  # fmt: skip


@jit
def _update(
    weights, copy, G, Z, outputs, width, rows, rate, COPY: tl.constexpr, FACTOR: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    # Programs that follow each other share a tile of Z.
    row_tiles = tl.cdiv(outputs, ROWS)
    c = (tl.program_id(0) % row_tiles) * ROWS
    j = (tl.program_id(0) // row_tiles) * COLUMNS
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for n in range(0, rows, DEPTH):
        total = tl.dot(tl.trans(G.load([n, c]).to(FACTOR)), Z.load([n, j]).to(FACTOR), total)
    row, column = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    inside = (c + row < outputs) & (j + column < width)
    first = c.to(tl.int64) * width + j
    place = row * width + column  # within a tile 32 bits are enough
    new = tl.load(weights + first + place, mask=inside, other=0.0) - rate * total
    tl.store(weights + first + place, new, mask=inside)
    if COPY:
        tl.store(copy + first + place, new.to(copy.dtype.element_ty), mask=inside)


def write_update(weights: Tensor, G: Tensor, Z: Tensor, *, rate: float, copy: Tensor | None, tiles: Tiles) -> None:
    C, D = weights.shape
    _update[(cdiv(C, tiles.rows) * cdiv(D, tiles.columns),)](
        weights, weights if copy is None else copy, _tiled(G, tiles.depth, tiles.rows),
        _tiled(Z, tiles.depth, tiles.columns), C, D, len(Z), rate, COPY=copy is not None, FACTOR=factor_type(Z),
        ROWS=tiles.rows, COLUMNS=tiles.columns, DEPTH=tiles.depth, num_warps=tiles.warps, num_stages=tiles.stages,
    )  # fmt: skip


def _tiled(matrix: Tensor, rows: int, columns: int) -> TensorDescriptor:
    return TensorDescriptor(matrix, list(matrix.shape), list(matrix.stride()), [rows, columns])
