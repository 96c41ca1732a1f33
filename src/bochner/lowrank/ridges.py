"""Many small ridge regressions that share their inputs: half a round of alternating least squares."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from bochner.lowrank.entries import Entries
from bochner.lowrank.grams import block_grams, worth_sharing
from bochner.lowrank.pattern import TILE_ELEMENTS, Tile
from bochner.ops import row_tiles


def solve_rows(entries: Entries, Q: Tensor, prior: Tensor, *, ridge: float) -> Tensor:
    """Y [n, r], row by row y_j = argmin sum_i w_ij (K_ij - q_i . y_j)^2 + ridge ||y_j - prior_j||^2 over the entries.

    Q [n, r] should have orthonormal columns: with weights 1 / probability every Gram matrix is then the identity on
    average, and well conditioned. The columns of the centers are common to all rows, so their Gram matrix and product
    are formed once; each block adds its own; the diagonal, which every row has for itself, is a rank-one correction.
    O(p r (g + r / g) + n r^2 + B r^3 + n c r) for p sampled columns in B blocks of g rows, and c centers, while the
    Gram matrices of all blocks, B r^2, take no more room than the entries; else p r (g + r) for the first term.
    """
    samples, known = entries.samples, Q[entries.samples.centers]
    common = _ridged(known.T @ known, ridge)
    targets = _extended(torch.addmm(prior, entries.center_columns, known, beta=ridge))
    inputs, Y = _extended(Q), _extended(torch.empty_like(prior))
    shared = block_grams(samples, inputs) if worth_sharing(samples, Q.shape[1]) else None
    for tile, columns in _gathered(entries, inputs):
        rows, values = samples.blocks[tile.blocks], _weighted_values(entries, tile)
        grams = _grams(tile, columns) if shared is None else shared.of_tile(tile)
        products = _take(targets, rows).mT + columns.mT @ values
        Y[rows] = _solve_tile(entries, inputs, common + grams, products, rows).mT
    if len(known):  # their rows are known in full
        right = Q.T @ entries.center_columns + ridge * prior[samples.centers].T
        Y[samples.centers] = torch.linalg.solve(_ridged(Q.T @ Q, ridge), right).T
    return Y[:-1]


def multiply(entries: Entries, Q: Tensor) -> Tensor:
    """S Q [n, r], S the symmetric matrix of the entries times their weights and 0 elsewhere: K Q on average."""
    samples = entries.samples
    result = entries.center_columns @ Q[samples.centers]
    if len(entries.diagonal):
        result += (samples.diagonal.to(Q) * entries.diagonal)[:, None] * Q
    result = _extended(result)
    for tile, columns in _gathered(entries, _extended(Q)):
        result[samples.blocks[tile.blocks]] += _weighted_values(entries, tile).mT @ columns
    result[samples.centers] = entries.center_columns.T @ Q
    return result[:-1]


def sampled_error(entries: Entries, left: Tensor, right: Tensor) -> float:
    """||K - A B^T|| / ||K|| over the sampled entries, each counted once, in the Frobenius norm; A [n, r], B [m, r]."""
    samples = entries.samples
    error, total = _center_squares(entries, left, right)
    if len(entries.diagonal):
        alone = (samples.diagonal == 1).to(left)
        error += _square((entries.diagonal - (left * right).sum(dim=1)) * alone)
        total += _square(entries.diagonal * alone)
    extended = _extended(left)
    for tile, columns in _gathered(entries, _extended(right)):
        rows = samples.blocks[tile.blocks]
        there = ((tile.columns < len(right))[..., None] & (rows < len(left))[:, None]).to(left)
        values = _take(entries.values, tile.places) * there
        total += _square(values)  # where nothing is, the product is 0 as well
        error += _square(torch.baddbmm(values, columns, _take(extended, rows).mT, alpha=-1))
    return float((error / total) ** 0.5) if total > 0 else 0.0


def _center_squares(entries: Entries, left: Tensor, right: Tensor) -> tuple[float, float]:
    """The squared error and norm over the rows and columns of the centers.

    The columns stand for the rows as well, but for the square where they meet.
    """
    centers, error, total = entries.samples.centers, 0.0, 0.0
    tiles = row_tiles(len(left), row_elements=max(1, len(centers)), tile_elements=TILE_ELEMENTS)
    parts: list[tuple[slice | Tensor, int]] = [*((tile, 2) for tile in tiles), (centers, -1)]
    for rows, count in parts:
        values = entries.center_columns[rows]
        total += count * _square(values)
        error += count * _square(torch.addmm(values, left[rows], right[centers].T, alpha=-1))
    return error, total


def _gathered(entries: Entries, extended: Tensor) -> Iterator[tuple[Tile, Tensor]]:
    """For every tile the rows of Q [n, r] at its columns, [T, s, r]; `extended` is Q and a row of zeros."""
    r, g = extended.shape[1], entries.values.shape[1]
    for tile in entries.samples.tiles(column_elements=2 * (r + g), block_elements=r * (3 * r + 4 * g)):
        yield tile, _take(extended, tile.columns)


def _weighted_values(entries: Entries, tile: Tile) -> Tensor:
    """[T, s, g]; what is filled up means nothing."""
    return _take(entries.values, tile.places).mul_(tile.weights.to(entries.values)[..., None])


def _grams(tile: Tile, columns: Tensor) -> Tensor:
    """sum_i w_i q_i q_i^T [T, r, r] over the columns of each block."""
    return (columns * tile.weights.to(columns)[..., None]).mT @ columns


def _solve_tile(entries: Entries, inputs: Tensor, grams: Tensor, products: Tensor, rows: Tensor) -> Tensor:
    """[T, r, g] from Gram matrices [T, r, r], right-hand sides [T, r, g], and the diagonal entry of each of `rows`."""
    L = torch.linalg.cholesky(grams)
    Y = torch.cholesky_solve(products, L)
    if len(entries.diagonal) == 0:
        return Y
    # (H + d q q^T) y = b + d K_jj q, by Sherman and Morrison
    parts = entries.samples.diagonal.to(inputs), entries.diagonal
    weight, value = (_take(_extended(part[:, None]), rows).mT for part in parts)
    own = _take(inputs, rows).mT
    spread = torch.cholesky_solve(own, L)
    missing = value - (own * Y).sum(dim=1, keepdim=True)
    return Y + spread * (weight * missing / (1 + weight * (own * spread).sum(dim=1, keepdim=True)))


def _extended(M: Tensor) -> Tensor:
    """M with a row of zeros below it, for the index that stands for no point."""
    return torch.cat([M, M.new_zeros(1, M.shape[1])])


def _take(M: Tensor, index: Tensor) -> Tensor:
    """M[index] for index [T, s], as a copy [T, s, columns]; several times faster than that."""
    return M.index_select(0, index.flatten()).reshape(*index.shape, M.shape[1])


def _ridged(gram: Tensor, ridge: float) -> Tensor:
    gram.diagonal().add_(ridge)
    return gram


def _square(values: Tensor) -> float:
    return float(torch.linalg.vector_norm(values, dtype=torch.float64)) ** 2
