"""Estimation of linear transforms of frames: LDA, MLLT and fMLLR."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh

from bochner import checks
from bochner.speech.frames import Array, check_frames

BLOCK = 2048  # rows whose outer products are held at once


class Estimate(NamedTuple):
    """A transform, and its gain in log likelihood per frame over the start, after each sweep over its rows."""

    matrix: Array
    objectives: tuple[float, ...]


def with_row_changed(inverse: Array, row: int, change: Array) -> Array:
    """The inverse [d, d] of a matrix after `change` [d] is added to one of its rows, by Sherman & Morrison. O(d^2)."""
    column = inverse[:, row]
    return inverse - np.outer(column, change @ inverse) / (1.0 + change @ column)


def gaussian_rows(
    dim: int, frames: Array, means: Array, variances: Array, weights: Array | None
) -> tuple[Array, Array, Array, Array]:
    """The arguments in float64, checked to be [n, dim] with positive variances, and [n] non-negative weights."""
    X, M, V = (check_frames(part).astype(np.float64) for part in (frames, means, variances))
    for name, part in (("frames", X), ("means", M), ("variances", V)):
        if part.shape != (len(X), dim):
            raise ValueError(f"{name} must have shape {[len(X), dim]}, one row per frame, got {list(part.shape)}.")
    if not (V > 0).all():
        raise ValueError(f"variances must be positive, got {V.min()}.")
    w = np.ones(len(X)) if weights is None else np.asarray(weights, np.float64)
    if w.shape != (len(X),) or (w < 0).any():
        raise ValueError(f"weights must be non-negative [{len(X)}], got shape {list(w.shape)}, least {w.min()}.")
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
    """The inverses of `squares` [d, p, p]; rank deficient ones are an error."""
    if not count > 0:
        raise ValueError("frames must be added before a transform is estimated, got none.")
    if np.linalg.matrix_rank(squares, hermitian=True).min() < squares.shape[1]:
        raise ValueError(f"frames must span all {squares.shape[1]} dimensions; {count:.0f} do not: add frames.")
    return np.linalg.inv(squares)


class ClassMoments:
    """Counts [C], means [C, d] and the scatter [d, d] of frames, accumulated over batches.

    `within` and `between` are covariances over all N frames; their sum is the total covariance.
    O(N d^2) time, O(C d + d^2) memory.

    >>> moments = ClassMoments(2, 1)
    >>> moments.add(np.array([[0.0], [2.0], [9.0], [11.0]]), np.array([0, 0, 1, 1]))
    >>> float(moments.within[0, 0]), float(moments.between[0, 0])
    (1.0, 20.25)
    """

    def __init__(self, num_classes: int, dim: int) -> None:
        self.counts = np.zeros(checks.positive_int("num_classes", num_classes))
        self.dim = checks.positive_int("dim", dim)
        self._origin: Array | None = None  # near the mean, to avoid cancellation in the squares
        self._sums = np.zeros((num_classes, dim))
        self._squares = np.zeros((dim, dim))

    def add(self, frames: Array, classes: Array) -> None:
        """Frames [n, d] and their classes [n], integers from 0."""
        X, y = check_frames(frames).astype(np.float64), self._classes(classes, len(frames))
        if X.shape[1] != self.dim:
            raise ValueError(f"frames must have {self.dim} columns, got {X.shape[1]}.")
        if self._origin is None:
            self._origin = X.mean(0)
        X -= self._origin
        self.counts += np.bincount(y, minlength=len(self.counts))
        np.add.at(self._sums, y, X)
        self._squares += X.T @ X

    @property
    def num_frames(self) -> float:
        return float(self.counts.sum())

    @property
    def within(self) -> Array:
        means = self._sums / np.maximum(self.counts, 1)[:, None]
        return (self._squares - (means.T * self.counts) @ means) / self._checked_count()

    @property
    def between(self) -> Array:
        mean = self._sums.sum(0) / self._checked_count()
        centred = self._sums / np.maximum(self.counts, 1)[:, None] - mean
        return (centred.T * self.counts) @ centred / self._checked_count()

    def _checked_count(self) -> float:
        if not self.num_frames:
            raise ValueError("frames must be added before their moments are computed, got none.")
        return self.num_frames

    def _classes(self, classes: Any, num_frames: int) -> Array:
        y = np.asarray(classes)
        if y.shape != (num_frames,) or y.dtype.kind not in "iu":
            raise ValueError(f"classes must be integers [{num_frames}], one per frame, got {y.dtype} {list(y.shape)}.")
        if y.size and not 0 <= y.min() <= y.max() < len(self.counts):
            raise ValueError(f"classes must lie in 0 ... {len(self.counts) - 1}, got {y.min()} ... {y.max()}.")
        return y


def lda(moments: ClassMoments, *, dim: int) -> Array:
    """The `dim` rows a that maximise (a B a^T) / (a W a^T), best first, scaled so that A W A^T = I: [dim, d].

    W and B are the covariances within and between classes. At most C - 1 rows separate C classes; further rows only
    whiten. The sign of a row makes its largest entry positive. O(d^3).
    Source: Fisher, 1936; Haeb-Umbach and Ney, 1992, for speech.

    >>> generator = np.random.default_rng(0)
    >>> y = generator.integers(3, size=900)
    >>> X = generator.standard_normal((900, 5))
    >>> X[:, 2] += 10 * y  # only this input separates the classes
    >>> moments = ClassMoments(3, 5)
    >>> moments.add(X, y)
    >>> int(np.abs(lda(moments, dim=1)).argmax())
    2
    """
    if not 1 <= checks.positive_int("dim", dim) <= moments.dim:
        raise ValueError(f"dim must be at most the {moments.dim} columns of the frames, got {dim}.")
    try:
        _, vectors = eigh(moments.between, moments.within)
    except np.linalg.LinAlgError as error:
        raise ValueError(
            f"the covariance within classes must have full rank {moments.dim}; {moments.num_frames:.0f} frames "
            f"do not: add frames, or remove columns that are constant or repeat others."
        ) from error
    rows: Array = vectors[:, ::-1].T[:dim]
    return rows * np.sign(rows[np.arange(dim), np.abs(rows).argmax(1)])[:, None]


class SemiTiedStatistics:
    """G_i = sum_n w_n (x_n - m_n)(x_n - m_n)^T / v_ni for each input i: [d, d, d], and their count sum_n w_n.

    A row n is a frame x with the mean m and variances v of a Gaussian and the weight w, its posterior or 1. O(N d^3)
    time, O(d^3) memory.
    """

    def __init__(self, dim: int) -> None:
        self.dim, self.count = checks.positive_int("dim", dim), 0.0
        self.squares = np.zeros((dim, dim, dim))

    def add(self, frames: Array, means: Array, variances: Array, weights: Array | None = None) -> None:
        """Add frames, means and variances [n, d] with weights [n] (default: 1)."""
        X, M, V, w = gaussian_rows(self.dim, frames, means, variances, weights)
        self.squares += weighted_squares(X - M, w[:, None] / V)
        self.count += w.sum()


def mllt(statistics: SemiTiedStatistics, *, iterations: int = 200) -> Estimate:
    """A [d, d] that maximises N log |det A| - 1/2 sum_i a_i G_i a_i^T, by rows: frames become A x.

    Coordinate ascent over rows, with c_i the cofactors of row i: a_i = c_i G_i^-1 sqrt(N / (c_i G_i^-1 c_i^T)), the
    maximum for fixed other rows, so that no sweep lowers the objective. Starts from the identity. Means and variances
    must be estimated again from the new frames. O(d^4 + iterations d^3). Source: Gales, 1999.

    >>> generator = np.random.default_rng(0)
    >>> X = generator.standard_normal((500, 2)) @ np.array([[1.0, 0.9], [0.0, 0.4]])
    >>> statistics = SemiTiedStatistics(2)
    >>> statistics.add(X, np.zeros((500, 2)), np.broadcast_to(X.var(0), (500, 2)))
    >>> rotated = X @ mllt(statistics).matrix.T
    >>> abs(np.corrcoef(rotated.T)[0, 1]).round(3) < 0.1 < np.corrcoef(X.T)[0, 1].round(3)
    np.True_
    """
    d, N = statistics.dim, statistics.count
    inverses = inverted(statistics.squares, N)
    A = np.eye(d)
    objectives = []
    start = _objective(A, statistics)
    for _ in range(checks.positive_int("iterations", iterations)):
        inverse = np.linalg.inv(A)  # its column i has the cofactors of row i, d log |det A| / d a_i
        for i in range(d):
            towards = inverse[:, i] @ inverses[i]
            row = towards * np.sqrt(N / (towards @ inverse[:, i]))
            inverse, A[i] = with_row_changed(inverse, i, row - A[i]), row
        objectives.append(_objective(A, statistics) - start)
    return Estimate(A, tuple(objectives))


def _objective(A: Array, statistics: SemiTiedStatistics) -> float:
    quadratic = np.einsum("ij,ijk,ik->", A, statistics.squares, A)
    return float(np.linalg.slogdet(A)[1] - quadratic / statistics.count / 2)


class AffineStatistics:
    """G_i = sum_n w_n z_n z_n^T / v_ni [d, d + 1, d + 1] and k_i = sum_n w_n m_ni z_n / v_ni [d, d + 1]; z = (x, 1).

    A row n is a frame x of one speaker with the mean m and variances v of a Gaussian and the weight w, its posterior or
    1. O(N d^3) time, O(d^3) memory.
    """

    def __init__(self, dim: int) -> None:
        self.dim, self.count = checks.positive_int("dim", dim), 0.0
        self.squares = np.zeros((dim, dim + 1, dim + 1))
        self.products = np.zeros((dim, dim + 1))

    def add(self, frames: Array, means: Array, variances: Array, weights: Array | None = None) -> None:
        """Add frames, means and variances [n, d] with weights [n] (default: 1)."""
        X, M, V, w = gaussian_rows(self.dim, frames, means, variances, weights)
        Z = np.column_stack([X, np.ones(len(X))])
        self.squares += weighted_squares(Z, w[:, None] / V)
        self.products += (w[:, None] * M / V).T @ Z
        self.count += w.sum()


def fmllr(statistics: AffineStatistics, *, iterations: int = 40, min_count: float = 500.0) -> Estimate:
    """Estimate W = (A, b), of shape [d, d + 1], that maximises N log |det A| + sum_i (w_i k_i - 1/2 w_i G_i w_i^T).

    Frames become A x + b.

    Coordinate ascent over rows, with p_i the cofactors of row i of A and 0 for the offset: w_i = (alpha p_i + k_i)
    G_i^-1, where alpha^2 p G^-1 p + alpha p G^-1 k = N; the root with the sign of p G^-1 k is the maximum for fixed
    other rows, so that no sweep lowers the objective. Starts from the identity, which is also the result for fewer than
    `min_count` frames. O(d^4 + iterations d^3). Source: Gales, 1998.

    >>> generator = np.random.default_rng(0)
    >>> means = generator.standard_normal((1000, 2)) * 5
    >>> frames = 2.0 * (means + 0.1 * generator.standard_normal((1000, 2))) + 3.0
    >>> statistics = AffineStatistics(2)
    >>> statistics.add(frames, means, np.full((1000, 2), 0.01))
    >>> fmllr(statistics).matrix.round(1) + 0.0
    array([[ 0.5,  0. , -1.5],
           [ 0. ,  0.5, -1.5]])
    """
    d = statistics.dim
    W = np.eye(d, d + 1)
    if statistics.count < checks.nonnegative_float("min_count", min_count):
        return Estimate(W, ())
    inverses = inverted(statistics.squares, statistics.count)
    start, objectives = _fmllr_objective(W, statistics), []
    for _ in range(checks.positive_int("iterations", iterations)):
        inverse = np.linalg.inv(W[:, :-1])
        for i in range(d):
            row = _best_row(inverse[:, i], i, inverses[i], statistics)
            inverse, W[i] = with_row_changed(inverse, i, (row - W[i])[:-1]), row
        objectives.append(_fmllr_objective(W, statistics) - start)
    return Estimate(W, tuple(objectives))


def _best_row(cofactors: Array, i: int, inverse: Array, statistics: AffineStatistics) -> Array:
    N, k = statistics.count, statistics.products[i]
    p = np.append(cofactors, 0.0)
    pp, pk = p @ inverse @ p, p @ inverse @ k
    alpha = 2 * N / (pk + np.copysign(np.sqrt(pk**2 + 4 * pp * N), pk))
    return (alpha * p + k) @ inverse


def _fmllr_objective(W: Array, statistics: AffineStatistics) -> float:
    quadratic = np.einsum("ij,ijk,ik->", W, statistics.squares, W)
    linear = np.sum(W * statistics.products)
    return float(np.linalg.slogdet(W[:, :-1])[1] + (linear - quadratic / 2) / statistics.count)
