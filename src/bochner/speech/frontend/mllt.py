"""Maximum likelihood linear transform (semi-tied covariance): a rotation in which diagonal Gaussians fit better."""

from __future__ import annotations

import numpy as np

from bochner import checks
from bochner.speech.frontend.arrays import Array
from bochner.speech.frontend.gaussians import Estimate, cofactors, gaussian_rows, inverted, weighted_squares


class SemiTiedStatistics:
    """G_i = sum_n w_n (x_n - m_n)(x_n - m_n)^T / v_ni for each input i: [d, d, d], and their count sum_n w_n.

    A row n is a frame x and the mean m and variances v of a Gaussian that it belongs to with the weight w; a frame
    that is shared by several Gaussians is given several times. O(N d^3) time, O(d^3) memory.
    """

    def __init__(self, dim: int) -> None:
        self.dim, self.count = checks.positive_int("dim", dim), 0.0
        self.squares = np.zeros((dim, dim, dim))

    def add(self, frames: Array, means: Array, variances: Array, weights: Array | None = None) -> None:
        """Frames, means and variances [n, d], weights [n] (all 1 when left out)."""
        X, M, V, w = gaussian_rows(self.dim, frames, means, variances, weights)
        self.squares += weighted_squares(X - M, w[:, None] / V)
        self.count += w.sum()


def mllt(statistics: SemiTiedStatistics, *, iterations: int = 200) -> Estimate:
    """A [d, d] that maximises N log |det A| - 1/2 sum_i a_i G_i a_i^T, by rows: frames become A x.

    In turn for each row, with c_i the cofactors of that row: a_i = c_i G_i^-1 sqrt(N / (c_i G_i^-1 c_i^T)), the
    maximum for the other rows fixed; so no sweep lowers the objective. Start: the identity. Afterwards means and
    variances have to be estimated again from the new frames. O(d^4 + iterations d^4). Source: Gales, 1999.

    >>> generator = np.random.default_rng(0)
    >>> X = generator.standard_normal((500, 2)) @ np.array([[1.0, 0.9], [0.0, 0.4]])
    >>> statistics = SemiTiedStatistics(2)
    >>> statistics.add(X, np.zeros((500, 2)), np.broadcast_to(X.var(0), (500, 2)))
    >>> turned = X @ mllt(statistics).matrix.T
    >>> abs(np.corrcoef(turned.T)[0, 1]).round(3) < 0.1 < np.corrcoef(X.T)[0, 1].round(3)
    np.True_
    """
    d, N = statistics.dim, statistics.count
    inverses = inverted(statistics.squares, N)
    A = np.eye(d)
    objectives = []
    start = _objective(A, statistics)
    for _ in range(checks.positive_int("iterations", iterations)):
        for i in range(d):
            towards = cofactors(A, i) @ inverses[i]
            A[i] = towards * np.sqrt(N / (towards @ cofactors(A, i)))
        objectives.append(_objective(A, statistics) - start)
    return Estimate(A, tuple(objectives))


def _objective(A: Array, statistics: SemiTiedStatistics) -> float:
    quadratic = np.einsum("ij,ijk,ik->", A, statistics.squares, A)
    return float(np.linalg.slogdet(A)[1] - quadratic / statistics.count / 2)
