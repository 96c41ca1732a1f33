"""The two large products on compute capability 9: bulk copies bring and take the tiles without a thread's help."""

# mypy: ignore-errors

from __future__ import annotations

import torch
from torch import Tensor

from bochner.ops.fused.compiler import TensorDescriptor, Tiles, cdiv, factor_type, jit, tl
from bochner.ops.fused.trigonometry import quick_cosine, quick_sine

ALIGNMENT = 16  # bytes, of every row
# The best of ten each on an H200. Features: one program a processor, the waves of a tile while the next one comes.
FEATURES = Tiles(rows=128, columns=256, depth=64, warps=8, stages=4)
PAIRED_FEATURES = FEATURES._replace(stages=3)  # twice the waves to keep
# Update: small enough that three programs share a processor, one reading weights while another multiplies.
UPDATE = Tiles(rows=128, columns=128, depth=32, warps=4, stages=4)
INTERPRETED_PROGRAMS = 3


def fits(*matrices: Tensor) -> bool:
    """Whether the rows of all matrices lie as bulk copies need them, on a chip that has such copies."""
    device = matrices[0].device
    has_copies = device.type == "cpu" or torch.cuda.get_device_capability(device)[0] == 9  # a CPU: the interpreter
    return has_copies and all(
        m.stride(1) == 1 and m.stride(0) * m.itemsize % ALIGNMENT == 0 and m.data_ptr() % ALIGNMENT == 0
        for m in matrices
    )


def is_short(*matrices: Tensor) -> bool:
    return all(m.dtype in (torch.bfloat16, torch.float16) for m in matrices)


@jit
def _halves(tile, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    return tl.split(tl.permute(tl.reshape(tile, (ROWS, 2, COLUMNS // 2)), (0, 2, 1)))


@jit
def _store_waves(
    angles, phases, cosines, sines, i, j, outputs, amplitude,
    PAIRED: tl.constexpr, SHORT: tl.constexpr, INTERPRETED: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    if PAIRED:
        sines.store([i, j], (amplitude * quick_sine(angles, INTERPRETED)).to(SHORT))
    else:
        columns = j + tl.arange(0, COLUMNS)
        angles += tl.load(phases + columns, mask=columns < outputs, other=0.0).to(tl.float32)[None, :]
    cosines.store([i, j], (amplitude * quick_cosine(angles, INTERPRETED)).to(SHORT))


@jit
def _cosines(
    X, W, phases, cosines, sines, rows, outputs, amplitude,
    INPUTS: tl.constexpr, PAIRED: tl.constexpr, FACTOR: tl.constexpr, SHORT: tl.constexpr, INTERPRETED: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    # Tiles that follow each other share a tile of W: it comes from memory once, X from the cache.
    row_tiles = tl.cdiv(rows, ROWS)
    tiles = row_tiles * tl.cdiv(outputs, COLUMNS)
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        i = (tile % row_tiles) * ROWS
        j = (tile // row_tiles) * COLUMNS
        angles = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        for k in range(0, INPUTS, DEPTH):
            angles = tl.dot(X.load([i, k]).to(FACTOR), W.load([k, j]).to(FACTOR), angles)
        left, right = _halves(angles, ROWS, COLUMNS)  # half of the room for what is stored
        HALF: tl.constexpr = COLUMNS // 2
        _store_waves(left, phases, cosines, sines, i, j, outputs, amplitude, PAIRED, SHORT, INTERPRETED, HALF)
        _store_waves(right, phases, cosines, sines, i, j + HALF, outputs, amplitude, PAIRED, SHORT, INTERPRETED, HALF)


def write_cosines(
    X: Tensor, frequencies: Tensor, phases: Tensor | None, Z: Tensor, *, amplitude: float, tiles: Tiles | None = None
) -> None:
    n, (d, P), paired = len(X), frequencies.shape, phases is None
    tiles = tiles or (PAIRED_FEATURES if paired else FEATURES)
    halves = [_tiled(part, tiles.rows, tiles.columns // 2) for part in (Z[:, :P], Z[:, -P:])]
    count = cdiv(n, tiles.rows) * cdiv(P, tiles.columns)
    _cosines[(min(count, _processors(X)),)](
        _tiled(X, tiles.rows, tiles.depth), _tiled(frequencies, tiles.depth, tiles.columns),
        X if paired else phases, *halves, n, P, amplitude,
        INPUTS=d, PAIRED=paired, FACTOR=factor_type(X), SHORT=_short(Z), INTERPRETED=not X.is_cuda,
        ROWS=tiles.rows, COLUMNS=tiles.columns, DEPTH=tiles.depth, num_warps=tiles.warps, num_stages=tiles.stages,
    )  # fmt: skip


@jit
def _update(
    weights, copy, G, Z, outputs, rows, rate, COPY: tl.constexpr, FACTOR: tl.constexpr, SHORT: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    # Programs that follow each other share a tile of Z.
    row_tiles = tl.cdiv(outputs, ROWS)
    c = (tl.program_id(0) % row_tiles) * ROWS
    j = (tl.program_id(0) // row_tiles) * COLUMNS
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for n in range(0, rows, DEPTH):
        total = tl.dot(tl.trans(G.load([n, c]).to(FACTOR)), Z.load([n, j]).to(FACTOR), total)
    new = weights.load([c, j]) - rate * total
    weights.store([c, j], new)
    if COPY:
        copy.store([c, j], new.to(SHORT))


def write_update(
    weights: Tensor, G: Tensor, Z: Tensor, *, rate: float, copy: Tensor | None, tiles: Tiles | None = None
) -> None:
    (C, D), tiles = weights.shape, tiles or UPDATE
    follower = weights if copy is None else copy[:C]
    _update[(cdiv(C, tiles.rows) * cdiv(D, tiles.columns),)](
        _tiled(weights, tiles.rows, tiles.columns), _tiled(follower, tiles.rows, tiles.columns),
        _tiled(G, tiles.depth, tiles.rows), _tiled(Z, tiles.depth, tiles.columns), C, len(Z), rate,
        COPY=copy is not None, FACTOR=factor_type(Z), SHORT=_short(follower),
        ROWS=tiles.rows, COLUMNS=tiles.columns, DEPTH=tiles.depth, num_warps=tiles.warps, num_stages=tiles.stages,
    )  # fmt: skip


def _tiled(matrix: Tensor, rows: int, columns: int) -> TensorDescriptor:
    return TensorDescriptor(matrix, list(matrix.shape), list(matrix.stride()), [rows, columns])


def _short(like: Tensor):
    return tl.bfloat16 if like.dtype == torch.bfloat16 else tl.float16


def _processors(like: Tensor) -> int:
    if not like.is_cuda:
        return INTERPRETED_PROGRAMS
    return torch.cuda.get_device_properties(like.device).multi_processor_count
