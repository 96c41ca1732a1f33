"""Alternating least squares on sampled entries of the kernel matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.features.landmarks import uniform_sample
from bochner.kernels import Kernel
from bochner.lowrank.entries import Entries, evaluate
from bochner.lowrank.extension import extend
from bochner.lowrank.factor import DenseFactor
from bochner.lowrank.inputs import check_definite, check_problem, kernel_matrix
from bochner.lowrank.ridges import sampled_error, solve_rows
from bochner.lowrank.sampling import default_num_samples, default_scheme, sample_entries
from bochner.lowrank.starts import first_root

# The power to which the weights 1 / probability are taken.
WEIGHTINGS = {"importance": 1.0, "root": 0.5, "equal": 0.0}
# Random points on whose kernel matrix a round is judged.
CHECK_POINTS = 500


class Round(NamedTuple):
    """What a round did; round 0 is the start."""

    number: int
    spectral_error: float  # ||K - U U^T|| in the spectral norm, on the check points
    sampled_error: float  # ||K - U U^T|| / ||K|| in the Frobenius norm, over the sampled entries
    symmetry_gap: float  # ||U V^T - V U^T|| / ||U V^T|| in the Frobenius norm, for the V that this round found


Report = Callable[[Round], None]


class _CheckPoints(NamedTuple):
    """A few points and their kernel matrix: where the error is known exactly."""

    chosen: Tensor  # [h]
    matrix: Tensor  # [h, h], in float64

    def error(self, root: Tensor) -> float:
        rows = root[self.chosen].double()
        return float(torch.linalg.eigvalsh(self.matrix - rows @ rows.T).abs().max())


def fit_als(
    kernel: Kernel,
    X: Tensor,
    *,
    rank: int,
    generator: Generator,
    sampling: str | None = None,
    num_samples: int | None = None,
    block_size: int | None = None,
    weighting: str = "equal",
    start: str = "pivoted-nystrom",
    rounds: int = 3,
    ridge: float = 0.5,
    tolerance: float = 0.0,
    num_anchors: int | None = None,
    report: Report | None = None,
) -> DenseFactor:
    """K ~ U U^T from a sample of K's entries, by rounds of U <- (U + V) / 2 with

        V = argmin sum over the sample of w_ij (K_ij - u_i . v_j)^2 + ridge * W sum_j (v_j - u_j)^T L (v_j - u_j).

    U is turned so that U^T U = L is diagonal; W is the mean weight of K's entries, so that `ridge` = 1 holds a row to
    where it was as strongly as the samples pull it. The rounds end after `rounds`, or when the spectral error on 500
    random points falls by no more than the part `tolerance`; the U that is best there is returned, be it the start.

    `sampling` and `num_samples` say which entries (`sample_entries`; when None uniform+clustering+diagonal from rank 50
    on, uniform below, and r n log n of them), `start` where to begin (`first_root`; "random" and "sparse-svd" are far
    off and want a ridge of 0.05), `weighting` what is made of the weights 1 / probability: "importance" takes them as
    they are, "root" their root, "equal" none. `report` is called with each `Round`. New points by least squares on
    `num_anchors` points (`extend`).
    For m samples in blocks of g: O(m (r + r^2 / g^2) + n (r^2 + r^3 / g)) a round, O(n r + m) memory; O(m d) once.
    Source: Bhardwaj 2015, Algorithm 2; docs/als.md says what differs and why.

    >>> from bochner.kernels import Gaussian
    >>> X = torch.randn(300, 3, generator=Generator().manual_seed(0), dtype=torch.float64)
    >>> seen = []
    >>> factor = fit_als(Gaussian(bandwidth=2.0), X, rank=10, generator=Generator().manual_seed(0), report=seen.append)
    >>> factor.root.shape, seen[1].sampled_error < seen[0].sampled_error
    (torch.Size([300, 10]), True)
    """
    check_problem(kernel, X, rank)
    checks.one_of("weighting", weighting, WEIGHTINGS)
    checks.nonnegative_int("rounds", rounds)
    checks.positive_float("ridge", ridge)
    checks.nonnegative_float("tolerance", tolerance)
    samples = sample_entries(
        kernel,
        X,
        scheme=default_scheme(rank) if sampling is None else sampling,
        num_samples=default_num_samples(len(X), rank) if num_samples is None else num_samples,
        block_size=block_size,
        generator=generator,
    )
    entries = evaluate(kernel, X, samples)
    root = first_root(start, kernel, X, entries, rank=rank, generator=generator)
    entries = entries._replace(samples=samples.tempered(WEIGHTINGS[weighting]))
    check = _check_points(kernel, X, generator)
    root = _alternate(entries, root, check, rounds=rounds, ridge=ridge, tolerance=tolerance, report=report)
    return DenseFactor(root, extend(kernel, X, root, generator=generator, num_anchors=num_anchors))


def _check_points(kernel: Kernel, X: Tensor, generator: Generator) -> _CheckPoints:
    chosen = uniform_sample(len(X), min(len(X), CHECK_POINTS), generator=generator).to(X.device)
    matrix = kernel_matrix(kernel, X[chosen])
    check_definite(kernel, torch.linalg.eigvalsh(matrix))  # a start without landmarks has looked at none of it
    return _CheckPoints(chosen, matrix)


def _alternate(
    entries: Entries,
    root: Tensor,
    check: _CheckPoints,
    *,
    rounds: int,
    ridge: float,
    tolerance: float,
    report: Report | None,
) -> Tensor:
    """The best root of all rounds by the error on the check points."""
    best, least = root, check.error(root)
    if report is not None:
        report(Round(0, least, sampled_error(entries, root, root), 0.0))
    for number in range(1, rounds + 1):
        Q, values = _orthonormal(root)
        Y = solve_rows(entries, Q, Q * values, ridge=ridge * entries.samples.mean_weight)
        root = _average(Q, values, Y)
        error = check.error(root)
        if report is not None:
            report(Round(number, error, sampled_error(entries, root, root), _symmetry_gap(Q, Y)))
        enough = error > (1 - tolerance) * least
        best, least = (root, error) if error < least else (best, least)
        if enough:
            break
    return best


def _orthonormal(root: Tensor) -> tuple[Tensor, Tensor]:
    """Q [n, r] and values [r] with U U^T = Q diag(values) Q^T."""
    Q, R = torch.linalg.qr(root)
    left, singular, _ = torch.linalg.svd(R)
    return Q @ left, singular.square()


def _average(Q: Tensor, values: Tensor, Y: Tensor) -> Tensor:
    """(U + V) / 2 with U = Q values^{1/2} and V = Y values^{-1/2}; V is 0 where U is, to rounding."""
    roots = values.sqrt()
    floor = roots[0] * torch.finfo(roots.dtype).eps * len(Q)
    return (Q * roots + Y / torch.where(roots > floor, roots, torch.inf)) / 2


def _symmetry_gap(Q: Tensor, Y: Tensor) -> float:
    """||Q Y^T - Y Q^T|| / ||Q Y^T||, with U V^T = Q Y^T; Y = Q A + R, R orthogonal to Q, so that nothing cancels."""
    A = Q.T @ Y
    square = (A - A.T).square().sum() + 2 * (Y - Q @ A).square().sum()
    return float((square / Y.square().sum()).sqrt())
