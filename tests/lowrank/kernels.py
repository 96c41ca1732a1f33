"""Functions that are not kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from bochner.kernels import Gaussian, Kernel


class Indefinite(Kernel, abstract=True):
    """-||x - y||^2 has a positive and many negative eigenvalues; with 1 added, its diagonal is that of a kernel."""

    def diagonal(self, X: Tensor) -> Tensor:
        return X.new_ones(len(X))

    def _evaluate(self, U: Tensor, V: Tensor) -> Tensor:
        return 1 - torch.cdist(U, V).square()


class SometimesNaN(Gaussian, abstract=True):
    """Not a number between points that are far apart, with a sound diagonal."""

    def _evaluate(self, U: Tensor, V: Tensor) -> Tensor:
        return torch.where(torch.cdist(U, V) > 3, torch.nan, super()._evaluate(U, V))


class Overflowing(Kernel, abstract=True):
    """exp(x . y), infinite for long points."""

    def diagonal(self, X: Tensor) -> Tensor:
        return X.square().sum(dim=1).exp()

    def _evaluate(self, U: Tensor, V: Tensor) -> Tensor:
        return (U @ V.T).exp()


class IndefiniteFarOut(Gaussian, abstract=True):
    """A Gaussian kernel, but 1 - ||x - y||^2 between points whose first input is above 5."""

    def _evaluate(self, U: Tensor, V: Tensor) -> Tensor:
        far = (U[:, :1] > 5) & (V[:, :1] > 5).T
        return torch.where(far, 1 - torch.cdist(U, V).square(), super()._evaluate(U, V))


class NoDiagonal(Gaussian, abstract=True):
    """Not a number at k(x, x) alone."""

    def diagonal(self, X: Tensor) -> Tensor:
        return super().diagonal(X) * torch.nan
