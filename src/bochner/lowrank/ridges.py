"""Many small ridge regressions that share their inputs: half a round of alternating least squares."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from bochner.lowrank.entries import Entries
from bochner.lowrank.pattern import Tile


def solve_rows(entries: Entries, Q: Tensor, prior: Tensor, *, ridge: float) -> Tensor:
    """Y [n, r], row by row y_j = argmin sum_i w_ij (K_ij - q_i . y_j)^2 + ridge ||y_j - prior_j||^2 over the entries.

    Q [n, r] should have orthonormal columns: with weights 1 / probability every Gram matrix is then the identity on
    average, and well conditioned. The columns of the centers are common to all rows, so their Gram matrix and product
    are formed once; each block adds its own; the diagonal, which every row has for itself, is a rank-one correction.
    O(p r (r + g) + B r^3 + n c r) for p sampled columns in B blocks of g rows, and c centers.
    """
    Y = torch.empty_like(prior)
    samples, known = entries.samples, Q[entries.samples.centers]
    common = _ridged(known.T @ known, ridge)
    targets = ridge * prior + entries.center_columns @ known
    for tile, inputs, weighted in _gathered(entries, Q):
        rows = samples.blocks[tile.blocks]
        grams = common + weighted.mT @ inputs
        products = _taken(targets, rows).mT + weighted.mT @ entries.values[tile.places]
        solved = _solve_tile(entries, Q, grams, products, rows)
        there = rows < len(Y)
        Y[rows[there]] = solved.mT[there]
    if len(known):  # their rows are known in full
        right = Q.T @ entries.center_columns + ridge * prior[samples.centers].T
        Y[samples.centers] = torch.linalg.solve(_ridged(Q.T @ Q, ridge), right).T
    return Y


def multiply(entries: Entries, Q: Tensor) -> Tensor:
    """S Q [n, r], S the symmetric matrix of the entries times their weights and 0 elsewhere: K Q on average."""
    samples = entries.samples
    result = entries.center_columns @ Q[samples.centers]
    if len(entries.diagonal):
        result += (samples.diagonal.to(Q) * entries.diagonal)[:, None] * Q
    for tile, _, weighted in _gathered(entries, Q):
        rows = samples.blocks[tile.blocks]
        there = rows < len(result)
        result[rows[there]] += (entries.values[tile.places].mT @ weighted)[there]
    result[samples.centers] = entries.center_columns.T @ Q
    return result


def sampled_error(entries: Entries, left: Tensor, right: Tensor) -> float:
    """||K - A B^T|| / ||K|| over the sampled entries, each counted once, in the Frobenius norm; A [n, r], B [m, r]."""
    samples, centers = entries.samples, entries.samples.centers
    # the columns of the centers stand for their rows as well, but for the square where they meet
    counts = torch.full_like(left[:, :1], 2).index_fill_(0, centers, 1)
    error = _square(entries.center_columns - left @ right[centers].T, counts)
    total = _square(entries.center_columns, counts)
    if len(entries.diagonal):
        alone = (samples.diagonal == 1).to(left)
        error += _square(entries.diagonal - (left * right).sum(dim=1), alone)
        total += _square(entries.diagonal, alone)
    for tile, inputs, _ in _gathered(entries, right):
        rows, values = samples.blocks[tile.blocks], entries.values[tile.places]
        there = ((tile.columns < len(right))[..., None] & (rows < len(left))[:, None]).to(left)
        error += _square(values - inputs @ _taken(left, rows).mT, there)
        total += _square(values, there)
    return float((error / total) ** 0.5) if total > 0 else 0.0


def _gathered(entries: Entries, Q: Tensor) -> Iterator[tuple[Tile, Tensor, Tensor]]:
    """For every tile the rows of Q at its columns [T, s, r], as they are and times their weights."""
    extended = torch.cat([Q, Q.new_zeros(1, Q.shape[1])])
    r, g = Q.shape[1], entries.values.shape[1]
    for tile in entries.samples.tiles(column_elements=2 * r + g, block_elements=r * (3 * r + 4 * g)):
        inputs = extended[tile.columns]
        yield tile, inputs, inputs * tile.weights.to(Q)[..., None]


def _solve_tile(entries: Entries, Q: Tensor, grams: Tensor, products: Tensor, rows: Tensor) -> Tensor:
    """[T, r, g] from Gram matrices [T, r, r], right-hand sides [T, r, g], and the diagonal entry of each of `rows`."""
    L = torch.linalg.cholesky(grams)
    Y = torch.cholesky_solve(products, L)
    if len(entries.diagonal) == 0:
        return Y
    # (H + d q q^T) y = b + d K_jj q, by Sherman and Morrison
    weight, value = (_taken(part[:, None], rows).mT for part in (entries.samples.diagonal.to(Q), entries.diagonal))
    own = _taken(Q, rows).mT
    spread = torch.cholesky_solve(own, L)
    missing = value - (own * Y).sum(dim=1, keepdim=True)
    return Y + spread * (weight * missing / (1 + weight * (own * spread).sum(dim=1, keepdim=True)))


def _taken(M: Tensor, rows: Tensor) -> Tensor:
    """M[rows], with zeros for the row that stands for no point."""
    return torch.cat([M, M.new_zeros(1, M.shape[1])])[rows]


def _ridged(gram: Tensor, ridge: float) -> Tensor:
    gram.diagonal().add_(ridge)
    return gram


def _square(values: Tensor, counts: Tensor) -> float:
    return float((values.square() * counts).sum(dtype=torch.float64))
