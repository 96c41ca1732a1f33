"""Kernels of inner products: arc-cosine kernels and the polynomial kernel."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from bochner import checks
from bochner.kernels.kernel import Kernel, Scale

# J_n(0) / pi: the value of k(x, x) at ||x|| = 1.
UNIT_DIAGONAL = {0: 1.0, 1: 1.0, 2: 3.0}
# Deeper compositions are constant up to rounding; the limit bounds the time that a value from a file can cost.
MAX_DEPTH = 1000


class ArcCosine(Kernel):
    """k_1(x, y) = (1 / pi) (||x|| ||y||)^n J_n(theta), theta the angle between x and y, n the order:

        J_0 = pi - theta;  J_1 = sin theta + (pi - theta) cos theta;
        J_2 = 3 sin theta cos theta + (pi - theta) (1 + 2 cos^2 theta).

    Depth L composes: k_{l+1}(x, y) = (1 / pi) (k_l(x, x) k_l(y, y))^{n/2} J_n(theta_l) with
    cos theta_l = k_l(x, y) / sqrt(k_l(x, x) k_l(y, y)). X [n, d], Y [m, d]: O(nm(d + L)).
    A zero vector, which has no angle, is orthogonal to every other vector by convention.
    Source: Cho & Saul 2009 (Alber et al. 2017 print the exponent of the composition as -1/2; +n/2 is right).

    >>> ArcCosine(order=1)(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])) * math.pi
    tensor([[1.]])
    """

    def __init__(self, *, order: int = 1, depth: int = 1, scale: Scale = None, metric: Tensor | None = None) -> None:
        super().__init__(scale=scale, metric=metric)
        checks.one_of("order", order, UNIT_DIAGONAL)
        self.order = order
        self.depth = checks.positive_int("depth", depth)
        if self.depth > MAX_DEPTH:
            raise ValueError(f"depth must be at most {MAX_DEPTH}, got {depth!r}.")

    def _evaluate(self, U: Tensor, V: Tensor) -> Tensor:
        u, v = U.square().sum(dim=1, keepdim=True), V.square().sum(dim=1)
        K = U @ V.T
        for _ in range(self.depth):
            # Two roots: the product u v would leave the dtype's range long before the kernel does.
            lengths = _length(u) * _length(v)
            # A zero vector has no angle; for n >= 1 its kernel value is 0 at any angle.
            cosine = K / lengths.clamp_min(torch.finfo(K.dtype).tiny)
            K = lengths**self.order * _angular(self.order, cosine.clamp(-1, 1)) / math.pi
            u, v = self._next_diagonal(u), self._next_diagonal(v)
        return K

    def diagonal(self, X: Tensor) -> Tensor:
        values = self.prepare(X).square().sum(dim=1)
        for _ in range(self.depth):
            values = self._next_diagonal(values)
        return values.to(X.dtype)

    def _temporaries(self) -> int:
        return 13  # measured in tests/kernels/test_conformance.py

    def _next_diagonal(self, values: Tensor) -> Tensor:
        return UNIT_DIAGONAL[self.order] * values**self.order


def _length(squares: Tensor) -> Tensor:
    """The root, with derivative 0 at 0."""
    return torch.where(squares > 0, squares, 1).sqrt() * (squares > 0)


def _angular(order: int, cosine: Tensor) -> Tensor:
    # arccos and sqrt have no derivative at |c| = 1, where those of J_1 and J_2 do not depend on them.
    inside = cosine.abs() < 1
    safe = torch.where(inside, cosine, 0)
    theta = torch.where(inside, torch.arccos(safe), torch.arccos(cosine.detach()))
    if order == 0:
        return math.pi - theta
    # sin(arccos c) as sqrt((1 - c)(1 + c)): no cancellation near c = 1.
    sine = torch.where(inside, ((1 - safe) * (1 + safe)).sqrt(), 0)
    if order == 1:
        return sine + (math.pi - theta) * cosine
    return 3 * sine * cosine + (math.pi - theta) * (1 + 2 * cosine.square())


class Polynomial(Kernel):
    """k(x, y) = (x . y + offset)^degree.

    With `scale` s it is (s^2 x . y + offset)^degree. X [n, d], Y [m, d]: O(nmd).

    >>> import torch
    >>> Polynomial(degree=2)(torch.ones(1, 3), torch.ones(1, 3))
    tensor([[16.]])
    """

    def __init__(
        self, *, degree: int = 2, offset: float = 1.0, scale: Scale = None, metric: Tensor | None = None
    ) -> None:
        super().__init__(scale=scale, metric=metric)
        self.degree = checks.positive_int("degree", degree)
        self.offset = checks.nonnegative_float("offset", offset)

    def _evaluate(self, U: Tensor, V: Tensor) -> Tensor:
        return (U @ V.T + self.offset) ** self.degree

    def diagonal(self, X: Tensor) -> Tensor:
        squares = self.prepare(X).square().sum(dim=1)
        return ((squares + self.offset) ** self.degree).to(X.dtype)
