"""What transforms of frames towards diagonal Gaussians share: the rows they take, and the sums and steps over them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bochner.speech.frontend.arrays import Array, frames_of

BLOCK = 2048  # rows whose outer products are held at once


class Estimate(NamedTuple):
    """A transform, and the gain in log likelihood a frame over the start, after each sweep over its rows."""

    matrix: Array
    objectives: tuple[float, ...]


def cofactors(A: Array, row: int) -> Array:
    """The cofactors [d] of one row of A [d, d], up to a common factor: d log |det A| / d a_row. O(d^3)."""
    return np.linalg.inv(A)[:, row]


def gaussian_rows(
    dim: int, frames: Array, means: Array, variances: Array, weights: Array | None
) -> tuple[Array, Array, Array, Array]:
    """The arguments in float64, once they are seen to be [n, dim] and [n], and variances and weights positive."""
    X, M, V = (frames_of(part).astype(np.float64) for part in (frames, means, variances))
    w = np.ones(len(X)) if weights is None else np.asarray(weights, np.float64)
    for name, part in (("frames", X), ("means", M), ("variances", V)):
        if part.shape != (len(X), dim):
            raise ValueError(f"{name} must have shape {[len(X), dim]}, a row for each frame, got {list(part.shape)}.")
    if w.shape != (len(X),) or (w < 0).any():
        raise ValueError(
            f"weights must be non-negative [{len(X)}], got shape {list(w.shape)}, least {w.min(initial=0)}."
        )
    if not (V > 0).all():
        raise ValueError(f"variances must be positive, got {V.min()}.")
    return X, M, V, w


def weighted_squares(rows: Array, weights: Array) -> Array:
    """sum_n weights_ni rows_n rows_n^T for each i: rows [n, p], weights [n, d] -> [d, p, p]. O(n d p^2)."""
    p, d = rows.shape[1], weights.shape[1]
    total = np.zeros((d, p * p))
    for start in range(0, len(rows), BLOCK):
        part = rows[start : start + BLOCK]
        total += weights[start : start + BLOCK].T @ (part[:, :, None] * part[:, None, :]).reshape(len(part), -1)
    return total.reshape(d, p, p)


def inverted(squares: Array, count: float) -> Array:
    """The inverses of `squares` [d, p, p]; frames too few or too alike to have them are an error."""
    if not count > 0:
        raise ValueError("frames must be added before a transform is asked for, got none.")
    if np.linalg.matrix_rank(squares, hermitian=True).min() < squares.shape[1]:
        raise ValueError(f"frames must span all {squares.shape[1]} directions; {count:.0f} do not: add frames.")
    return np.linalg.inv(squares)
