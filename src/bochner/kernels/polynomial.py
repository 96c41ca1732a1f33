"""The polynomial kernel."""

from __future__ import annotations

from torch import Tensor

from bochner import checks
from bochner.kernels.kernel import Kernel


class Polynomial(Kernel):
    """k(x, y) = (x . y + offset)^degree.

    Use `scale` to weigh the inner product: scale = s gives (s^2 x . y + offset)^degree. X [n, d], Y [m, d]: O(nmd).

    >>> import torch
    >>> Polynomial(degree=2)(torch.ones(1, 3), torch.ones(1, 3))
    tensor([[16.]])
    """

    def __init__(
        self,
        *,
        degree: int = 2,
        offset: float = 1.0,
        scale: float | Tensor | None = None,
        metric: Tensor | None = None,
    ) -> None:
        super().__init__(scale=scale, metric=metric)
        self.degree = checks.positive_int("degree", degree)
        self.offset = checks.nonnegative_float("offset", offset)

    def _evaluate(self, U: Tensor, V: Tensor) -> Tensor:
        return (U @ V.T + self.offset) ** self.degree

    def diagonal(self, X: Tensor) -> Tensor:
        squares = self.prepare(X).square().sum(dim=1)
        return ((squares + self.offset) ** self.degree).to(X.dtype)
