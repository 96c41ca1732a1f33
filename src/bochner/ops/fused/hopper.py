"""The two large products on compute capability 9, whose bulk copies move tiles without occupying threads."""

# mypy: ignore-errors

from __future__ import annotations

import torch
from torch import Tensor

from bochner.ops.fused.primitives import TensorDescriptor, Tiles, cdiv, factor_type, fast_cosine, fast_sine, jit, tl

ALIGNMENT = 16  # bytes, of the start of every row
# The fastest of ten tilings each on an H200. Features: one program per multiprocessor, which computes the cosines of
# one tile while the next is loaded.
FEATURES = Tiles(rows=128, columns=256, depth=64, warps=8, stages=4)
PAIRED_FEATURES = FEATURES._replace(stages=3)  # shared memory for sines as well
# Update: small enough that three programs share a multiprocessor, one reading weights while another multiplies.
UPDATE = Tiles(rows=128, columns=128, depth=32, warps=4, stages=4)
INTERPRETED_PROGRAMS = 3  # in place of the number of multiprocessors


def fits(*matrices: Tensor) -> bool:
    """Whether the device has bulk copies, and the rows of all matrices are aligned for them."""
    device = matrices[0].device
    has_bulk_copies = device.type == "cpu" or torch.cuda.get_device_capability(device)[0] == 9  # a CPU: the interpreter
    return has_bulk_copies and all(
        m.stride(1) == 1 and m.stride(0) * m.itemsize % ALIGNMENT == 0 and m.data_ptr() % ALIGNMENT == 0
        for m in matrices
    )


def is_16_bit(*matrices: Tensor) -> bool:
    return all(m.dtype in (torch.bfloat16, torch.float16) for m in matrices)


@jit
def _halves(tile, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    return tl.split(tl.permute(tl.reshape(tile, (ROWS, 2, COLUMNS // 2)), (0, 2, 1)))


@jit
def _store_cosines(
    angles, phases, cosines, sines, i, j, outputs, amplitude,
    PAIRED: tl.constexpr, STORED: tl.constexpr, INTERPRETED: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    if PAIRED:
        sines.store([i, j], (amplitude * fast_sine(angles, INTERPRETED)).to(STORED))
    else:
        columns = j + tl.arange(0, COLUMNS)
        angles += tl.load(phases + columns, mask=columns < outputs, other=0.0).to(tl.float32)[None, :]
    cosines.store([i, j], (amplitude * fast_cosine(angles, INTERPRETED)).to(STORED))


@jit
def _cosines(
    X, W, phases, cosines, sines, rows, outputs, amplitude,
    INPUTS: tl.constexpr, PAIRED: tl.constexpr, FACTOR: tl.constexpr, STORED: tl.constexpr, INTERPRETED: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    # Consecutive tiles share a tile of W, which is read from memory once; X is read from the cache.
    row_tiles = tl.cdiv(rows, ROWS)
    tiles = row_tiles * tl.cdiv(outputs, COLUMNS)
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        i = (tile % row_tiles) * ROWS
        j = (tile // row_tiles) * COLUMNS
        angles = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        for k in range(0, INPUTS, DEPTH):
            angles = tl.dot(X.load([i, k]).to(FACTOR), W.load([k, j]).to(FACTOR), angles)
        left, right = _halves(angles, ROWS, COLUMNS)  # halves the shared memory of the stores
        HALF: tl.constexpr = COLUMNS // 2
        _store_cosines(left, phases, cosines, sines, i, j, outputs, amplitude, PAIRED, STORED, INTERPRETED, HALF)
        _store_cosines(
            right, phases, cosines, sines, i, j + HALF, outputs, amplitude, PAIRED, STORED, INTERPRETED, HALF
        )


def write_features(
    X: Tensor, frequencies: Tensor, phases: Tensor | None, Z: Tensor, *, amplitude: float, tiles: Tiles | None = None
) -> None:
    n, (d, P), paired = len(X), frequencies.shape, phases is None
    tiles = tiles or (PAIRED_FEATURES if paired else FEATURES)
    halves = [_tiled(part, tiles.rows, tiles.columns // 2) for part in (Z[:, :P], Z[:, -P:])]
    count = cdiv(n, tiles.rows) * cdiv(P, tiles.columns)
    _cosines[(min(count, _processors(X)),)](
        _tiled(X, tiles.rows, tiles.depth), _tiled(frequencies, tiles.depth, tiles.columns),
        X if paired else phases, *halves, n, P, amplitude,
        INPUTS=d, PAIRED=paired, FACTOR=factor_type(X), STORED=_stored_type(Z), INTERPRETED=not X.is_cuda,
        ROWS=tiles.rows, COLUMNS=tiles.columns, DEPTH=tiles.depth, num_warps=tiles.warps, num_stages=tiles.stages,
    )  # fmt: skip


@jit
def _update(
    weights, copy, G, Z, outputs, rows, rate, COPY: tl.constexpr, FACTOR: tl.constexpr, STORED: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    # Consecutive programs share a tile of Z.
    row_tiles = tl.cdiv(outputs, ROWS)
    c = (tl.program_id(0) % row_tiles) * ROWS
    j = (tl.program_id(0) // row_tiles) * COLUMNS
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for n in range(0, rows, DEPTH):
        total = tl.dot(tl.trans(G.load([n, c]).to(FACTOR)), Z.load([n, j]).to(FACTOR), total)
    new = weights.load([c, j]) - rate * total
    weights.store([c, j], new)
    if COPY:
        copy.store([c, j], new.to(STORED))


def write_update(
    weights: Tensor, G: Tensor, Z: Tensor, *, rate: float, copy: Tensor | None, tiles: Tiles | None = None
) -> None:
    (C, D), tiles = weights.shape, tiles or UPDATE
    follower = weights if copy is None else copy[:C]
    _update[(cdiv(C, tiles.rows) * cdiv(D, tiles.columns),)](
        _tiled(weights, tiles.rows, tiles.columns), _tiled(follower, tiles.rows, tiles.columns),
        _tiled(G, tiles.depth, tiles.rows), _tiled(Z, tiles.depth, tiles.columns), C, len(Z), rate,
        COPY=copy is not None, FACTOR=factor_type(Z), STORED=_stored_type(follower),
        ROWS=tiles.rows, COLUMNS=tiles.columns, DEPTH=tiles.depth, num_warps=tiles.warps, num_stages=tiles.stages,
    )  # fmt: skip


def _tiled(matrix: Tensor, rows: int, columns: int) -> TensorDescriptor:
    return TensorDescriptor(matrix, list(matrix.shape), list(matrix.stride()), [rows, columns])


def _stored_type(like: Tensor):
    return tl.bfloat16 if like.dtype == torch.bfloat16 else tl.float16


def _processors(like: Tensor) -> int:
    if not like.is_cuda:
        return INTERPRETED_PROGRAMS
    return torch.cuda.get_device_properties(like.device).multi_processor_count  # needs a GPU
