"""Preconditioned conjugate gradients for several right-hand sides at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

Operator = Callable[[Tensor], Tensor]
Report = Callable[[int, float], None]
"""Called with the iteration, from 1, and how far from solved the problem still is."""


class Solution(NamedTuple):
    """X [m, t], and the part of the preconditioned residual that is left in the worst column."""

    X: Tensor
    left: float


def conjugate_gradients(
    apply: Operator,
    rhs: Tensor,
    precondition: Operator,
    *,
    tolerance: float,
    max_iterations: int,
    report: Report | None = None,
) -> Solution:
    """X with H X = rhs for positive definite H, rhs [m, t]: every column on its own, all through one `apply`.

    `precondition` applies an approximate inverse P of H. Stops when sqrt(r^T P r) has fallen by `tolerance` in every
    column. After k steps the error has fallen by 2 ((sqrt(c) - 1) / (sqrt(c) + 1))^k or more, c the condition number
    of P H. Source: Hestenes & Stiefel 1952; Saad 2003, Section 9.2.

    >>> H = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    >>> conjugate_gradients(lambda V: H @ V, torch.ones(2, 1), lambda R: R, tolerance=1e-6, max_iterations=9).X
    tensor([[0.4000],
            [0.2000]])
    """
    solution, residual = torch.zeros_like(rhs), rhs
    image = direction = precondition(residual)
    start = energy = (residual * image).sum(dim=0)
    left = 1.0
    for iteration in range(1, max_iterations + 1):
        product = apply(direction)
        step = _ratio(energy, (direction * product).sum(dim=0))
        solution = solution + step * direction
        residual = residual - step * product  # not in place: `precondition` may return its argument
        image = precondition(residual)
        previous, energy = energy, (residual * image).sum(dim=0)
        direction = image + _ratio(energy, previous) * direction
        left = float(_ratio(energy, start).max().sqrt())
        if report is not None:
            report(iteration, left)
        if left <= tolerance:
            break
    return Solution(solution, left)


def _ratio(above: Tensor, below: Tensor) -> Tensor:
    """0 for 0 / 0: a column that is solved already stays as it is."""
    return torch.where(below > 0, above / below, 0.0)
