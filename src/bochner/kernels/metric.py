"""Scales and metrics on the inputs."""

from __future__ import annotations

import torch
from torch import Tensor

from bochner import checks


def scale_vector(scale: Tensor) -> Tensor:
    if scale.ndim != 1 or not scale.is_floating_point():
        raise ValueError(
            f"scale must be a number or a float vector with one entry per input, got shape "
            f"{tuple(scale.shape)} and dtype {scale.dtype}."
        )
    return checks.finite("scale", scale)


def metric_root(metric: Tensor) -> Tensor:
    """The symmetric root M^{1/2} of a positive semi-definite M [d, d], by its eigenvectors, in float64.

    >>> metric_root(torch.tensor([[4.0, 0.0], [0.0, 9.0]]))
    tensor([[2., 0.],
            [0., 3.]], dtype=torch.float64)
    """
    if not isinstance(metric, Tensor):
        raise TypeError(f"metric must be a torch.Tensor, got {type(metric).__name__}.")
    if metric.numel() == 0 or metric.ndim != 2 or metric.shape[0] != metric.shape[1] or not metric.is_floating_point():
        raise ValueError(
            f"metric must be a square float matrix, got shape {tuple(metric.shape)} and dtype {metric.dtype}."
        )
    M = checks.finite("metric", metric).double()
    size = M.abs().max()
    gap = (M - M.T).abs().max()
    if gap > 1e-5 * size:
        raise ValueError(f"metric must be symmetric, entries differ by {gap:.3g}; use (M + M.T) / 2.")
    values, vectors = torch.linalg.eigh((M + M.T) / 2)
    if values[0] < -1e-5 * size:
        raise ValueError(f"metric must be positive semi-definite, its least eigenvalue is {values[0]:.3g}.")
    return (vectors * values.clamp_min(0).sqrt()) @ vectors.T
