"""The Matern family."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.kernels.stationary import Stationary, standard_normals
from bochner.ops import squared_distances


class Matern(Stationary):
    """With t = sqrt(2 nu) ||x - y||_2 / bandwidth, and smoothness nu:

        nu = 1/2: exp(-t);  nu = 3/2: (1 + t) exp(-t);  nu = 5/2: (1 + t + t^2 / 3) exp(-t).

    Frequencies are multivariate t with 2 nu degrees of freedom: Normal(0, I) sqrt(2 nu / chi^2_{2 nu}) / bandwidth.
    X [n, d], Y [m, d]: O(nmd). Source: Rasmussen & Williams 2006, Section 4.2.

    >>> Matern(smoothness=0.5)(torch.zeros(1, 1), torch.ones(1, 1))
    tensor([[0.3679]])
    """

    @property
    def isotropic(self) -> bool:
        return True

    def __init__(
        self,
        *,
        smoothness: float = 1.5,
        bandwidth: float = 1.0,
        scale: float | Tensor | None = None,
        metric: Tensor | None = None,
    ) -> None:
        super().__init__(bandwidth=bandwidth, scale=scale, metric=metric)
        checks.one_of("smoothness", smoothness, [0.5, 1.5, 2.5])
        self.smoothness = float(smoothness)

    def _evaluate(self, U: Tensor, V: Tensor) -> Tensor:
        squares = squared_distances(U, V) * (2 * self.smoothness / self.bandwidth**2)
        # the root has no derivative at 0, where the kernel's own derivative needs none
        t = squares.clamp_min(torch.finfo(squares.dtype).tiny).sqrt()
        decay = torch.exp(-t)
        if self.smoothness == 0.5:
            return decay
        return (1 + t if self.smoothness == 1.5 else 1 + t + squares / 3) * decay

    def _temporaries(self) -> int:
        return 6

    def num_uniforms(self, num_inputs: int) -> int:
        return num_inputs + self._freedom

    def frequencies(self, uniforms: Tensor, num_inputs: int) -> Tensor:
        normals = torch.special.ndtri(uniforms).T
        return self._frequencies(normals[self._freedom :], normals[: self._freedom])

    def sample_frequencies(
        self,
        num_inputs: int,
        num_frequencies: int,
        *,
        generator: Generator,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        rows = self.num_uniforms(num_inputs)
        normals = standard_normals(rows, num_frequencies, generator=generator, dtype=dtype)
        return self._frequencies(normals[self._freedom :], normals[: self._freedom])

    @property
    def _freedom(self) -> int:
        return round(2 * self.smoothness)

    def _frequencies(self, directions: Tensor, others: Tensor) -> Tensor:
        chi = others.square().sum(dim=0).sqrt().clamp_min(torch.finfo(others.dtype).tiny)
        return directions * (math.sqrt(self._freedom) / self.bandwidth / chi)
