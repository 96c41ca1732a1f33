"""Squared Euclidean distances as one matrix product."""

from __future__ import annotations

import torch
from torch import Tensor


def squared_distances(X: Tensor, Y: Tensor) -> Tensor:
    """||x_i - y_j||^2 for X [n, d] and Y [m, d], as [n, m].

    ||x||^2 + ||y||^2 - 2 x.y loses digits when the points lie far from the origin, so both are first moved by the
    mean of Y. Cost O(nmd), and two arrays [n, m].
    """
    center = Y.mean(dim=0)
    X, Y = X - center, Y - center
    squares = torch.addmm(Y.square().sum(dim=1), X, Y.T, alpha=-2)
    return (squares + X.square().sum(dim=1, keepdim=True)).clamp_min_(0)
