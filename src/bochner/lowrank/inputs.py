"""What every method asks of its kernel, points and rank."""

from __future__ import annotations

import torch
from torch import Tensor

from bochner import checks
from bochner.kernels import Kernel

# Points on which a kernel is tried before it is used: a few milliseconds.
PROBES = 256
# By how much of the largest k(x, x) a squared row of U may exceed its own; rounding in float32 stays below 1e-4.
EXCESS = 0.01


def check_problem(kernel: Kernel, X: Tensor, rank: int) -> None:
    """A kernel, finite points X [n, d] and a rank of at most n.

    The kernel is tried on up to 256 of the points: values that are not finite, or eigenvalues that are negative, end
    here and not in a factor that means nothing.
    """
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be a Kernel, got {kernel!r}.")
    checks.finite("X", checks.inputs("X", X))
    if checks.positive_int("rank", rank) > len(X):
        raise ValueError(f"rank must be at most the number of points, {len(X)}, got {rank}.")
    checks.finite("k(x, x)", kernel.diagonal(X))  # which bounds all other values
    probes = torch.linspace(0, len(X) - 1, min(len(X), PROBES), dtype=torch.float64, device=X.device).long()
    check_definite(kernel, torch.linalg.eigvalsh(kernel_matrix(kernel, X[probes])))


def check_definite(kernel: Kernel, values: Tensor, *, dtype: torch.dtype = torch.float64) -> None:
    """Eigenvalues [m] of a kernel matrix whose entries have the digits of `dtype`: none is negative beyond rounding."""
    largest, smallest = float(values.abs().max()), float(values.min())
    if smallest < -largest * torch.finfo(dtype).eps ** 0.5:
        raise ValueError(
            f"kernel must be positive semi-definite, but {kernel!r} has eigenvalues from {smallest:.3g} to "
            f"{float(values.max()):.3g} on these points; U U^T cannot have negative ones."
        )


def check_below(kernel: Kernel, X: Tensor, root: Tensor) -> None:
    """Rows u of U [n, r], made from columns of K = k(X, X), with ||u||^2 <= k(x, x).

    For a positive semi-definite K no such U U^T exceeds K. Negative eigenvalues that neither the probes nor the
    landmarks showed betray themselves here, for O(n r).
    """
    limits = kernel.diagonal(X)
    excess = float((root.square().sum(dim=1) - limits).max())
    if excess > EXCESS * float(limits.max()):
        raise ValueError(
            f"kernel must be positive semi-definite, but {kernel!r} has negative eigenvalues on these points: its "
            f"factor exceeds k(x, x) by up to {excess:.3g}."
        )


def kernel_matrix(kernel: Kernel, points: Tensor) -> Tensor:
    """k(points, points) [m, m] in float64, all of it finite."""
    return checks.finite("k(X, X)", kernel(points.double()))
