"""The Gaussian kernel."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from bochner.kernels.stationary import Stationary, standard_normals
from bochner.ops import squared_distances


class Gaussian(Stationary):
    """k(x, y) = exp(-||x - y||^2 / 2 sigma^2), sigma = bandwidth; frequencies Normal(0, sigma^-2 I).

    X [n, d], Y [m, d]: O(nmd). Source: May 2018, Table 2.2.

    >>> Gaussian(bandwidth=1.0)(torch.zeros(1, 2), torch.ones(1, 2))
    tensor([[0.3679]])
    """

    @property
    def isotropic(self) -> bool:
        return True

    def _evaluate(self, U: Tensor, V: Tensor) -> Tensor:
        return squared_distances(U, V).mul(-0.5 / self.bandwidth**2).exp_()

    def frequencies(self, uniforms: Tensor, num_inputs: int) -> Tensor:
        return torch.special.ndtri(uniforms).T / self.bandwidth

    def sample_frequencies(
        self,
        num_inputs: int,
        num_frequencies: int,
        *,
        generator: Generator,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        normals = standard_normals(num_inputs, num_frequencies, generator=generator, dtype=dtype)
        return normals / self.bandwidth
