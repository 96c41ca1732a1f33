"""Rows evened out along the main directions of the features, for steps that never make a gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from bochner.ops import long_product
from bochner.train.preconditioner import Preconditioner


class EvenedRows:
    """u P for the rows u = [z, 1] of a head, [z, 0] P / floor before a bottleneck.

    The derivatives G [n, C] make the gradient G^T u, and (G^T u) P = G^T (u P): a step along u P is that of
    `Preconditioner.apply`. Products are of the dtype of Z, which holds the eigenvectors once more. O(n q D).

    >>> from bochner.learn.heads import LinearHead
    >>> head = LinearHead.zeros(num_features=2, num_outputs=2)
    >>> P = Preconditioner(head, torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([1.0]), 0.25)
    >>> EvenedRows(P, torch.float32)(torch.ones(1, 2))
    (tensor([[0.2500, 1.0000]]), tensor([1.]))
    """

    def __init__(self, preconditioner: Preconditioner, dtype: torch.dtype) -> None:
        self._vectors, self._last = preconditioner.vectors[:, :-1].to(dtype), preconditioner.vectors[:, -1]
        self._shrink = 1 - preconditioner.floor / preconditioner.values
        self._floor = preconditioner.floor if preconditioner.before_bottleneck else None

    def __call__(self, Z: Tensor) -> tuple[Tensor, Tensor | None]:
        """What steps go along in place of Z [n, D], and for a head in place of its ones [n]."""
        parts = long_product(Z, self._vectors)
        if self._floor is not None:
            return self._without(Z, parts * self._shrink, scale=1 / self._floor), None
        parts = (parts + self._last) * self._shrink
        return self._without(Z, parts, scale=1.0), 1 - parts @ self._last

    def _without(self, Z: Tensor, parts: Tensor, *, scale: float) -> Tensor:
        return torch.addmm(Z, parts.to(Z.dtype), self._vectors, beta=scale, alpha=-scale)
