"""Speaker adaptation of frames: the affine transform under which the speaker's frames are most likely (fMLLR)."""

from __future__ import annotations

import numpy as np

from bochner import checks
from bochner.speech.frontend.arrays import Array
from bochner.speech.frontend.gaussians import Estimate, cofactors, gaussian_rows, inverted, weighted_squares


class AffineStatistics:
    """G_i = sum_n w_n z_n z_n^T / v_ni [d, d + 1, d + 1] and k_i = sum_n w_n m_ni z_n / v_ni [d, d + 1]; z = (x, 1).

    A row n is a frame x of one speaker, and the mean m and variances v of a Gaussian that it belongs to with the weight
    w: its posterior, or 1 for that of the alignment. O(N d^3) time, O(d^3) memory.
    """

    def __init__(self, dim: int) -> None:
        self.dim, self.count = checks.positive_int("dim", dim), 0.0
        self.squares = np.zeros((dim, dim + 1, dim + 1))
        self.products = np.zeros((dim, dim + 1))

    def add(self, frames: Array, means: Array, variances: Array, weights: Array | None = None) -> None:
        """Frames, means and variances [n, d], weights [n] (all 1 when left out)."""
        X, M, V, w = gaussian_rows(self.dim, frames, means, variances, weights)
        Z = np.column_stack([X, np.ones(len(X))])
        self.squares += weighted_squares(Z, w[:, None] / V)
        self.products += (w[:, None] * M / V).T @ Z
        self.count += w.sum()


def fmllr(statistics: AffineStatistics, *, iterations: int = 40, min_count: float = 500.0) -> Estimate:
    """W = [A, b] [d, d + 1] that maximises N log |det A| + sum_i (w_i k_i - 1/2 w_i G_i w_i^T): frames become A x + b.

    In turn for each row, with p_i the cofactors of that row of A and 0 for the offset: w_i = (alpha p_i + k_i) G_i^-1,
    where alpha^2 p G^-1 p + alpha p G^-1 k = N; of its two roots that with the sign of p G^-1 k is the better: the
    maximum for the other rows fixed, so no sweep lowers the objective. Start: the identity, which is also what a
    speaker with fewer than `min_count` frames gets. O(d^4 + iterations d^4). Source: Gales, 1998.

    >>> generator = np.random.default_rng(0)
    >>> means = generator.standard_normal((1000, 2)) * 5
    >>> spoken = 2.0 * (means + 0.1 * generator.standard_normal((1000, 2))) + 3.0
    >>> statistics = AffineStatistics(2)
    >>> statistics.add(spoken, means, np.full((1000, 2), 0.01))
    >>> fmllr(statistics).matrix.round(1) + 0.0
    array([[ 0.5,  0. , -1.5],
           [ 0. ,  0.5, -1.5]])
    """
    d = statistics.dim
    W = np.eye(d, d + 1)
    if statistics.count < checks.nonnegative_float("min_count", min_count):
        return Estimate(W, ())
    inverses = inverted(statistics.squares, statistics.count)
    start, objectives = _objective(W, statistics), []
    for _ in range(checks.positive_int("iterations", iterations)):
        for i in range(d):
            W[i] = _best_row(W, i, inverses[i], statistics)
        objectives.append(_objective(W, statistics) - start)
    return Estimate(W, tuple(objectives))


def _best_row(W: Array, i: int, inverse: Array, statistics: AffineStatistics) -> Array:
    N, k = statistics.count, statistics.products[i]
    p = np.append(cofactors(W[:, :-1], i), 0.0)
    pp, pk = p @ inverse @ p, p @ inverse @ k
    alpha = 2 * N / (pk + np.copysign(np.sqrt(pk**2 + 4 * pp * N), pk))
    return (alpha * p + k) @ inverse


def _objective(W: Array, statistics: AffineStatistics) -> float:
    quadratic = np.einsum("ij,ijk,ik->", W, statistics.squares, W)
    linear = np.sum(W * statistics.products)
    return float(np.linalg.slogdet(W[:, :-1])[1] + (linear - quadratic / 2) / statistics.count)
