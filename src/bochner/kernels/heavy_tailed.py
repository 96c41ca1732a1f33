"""Two kernels that are each other's spectrum: products over the inputs, with heavy tails on one side."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

from bochner.kernels.stationary import Stationary


class Laplacian(Stationary):
    """k(x, y) = exp(-||x - y||_1 / bandwidth); frequencies Cauchy(0, 1 / bandwidth) per input.

    The papers write lambda = 1 / bandwidth. X [n, d], Y [m, d]: O(nmd). Source: May 2018, Table 2.2.

    >>> Laplacian(bandwidth=2.0)(torch.zeros(1, 2), torch.ones(1, 2))
    tensor([[0.3679]])
    """

    def _evaluate(self, U: Tensor, V: Tensor) -> Tensor:
        return torch.cdist(U, V, p=1).mul(-1 / self.bandwidth).exp_()

    def frequencies(self, uniforms: Tensor, num_inputs: int) -> Tensor:
        # tan(pi (u - 1/2)) = -1 / tan(pi u) = 1 / tan(pi (1 - u)): the smaller of u and 1 - u keeps the tails' digits
        lower = uniforms < 0.5
        tails = torch.where(lower, -1, 1) / torch.tan(math.pi * torch.where(lower, uniforms, 1 - uniforms))
        return tails.T / self.bandwidth

    def _rule_distances(self, points: Tensor, generator: Generator) -> Tensor:
        return torch.nn.functional.pdist(points, p=1)

    def _rule_bandwidth(self, typical: float) -> float:
        return typical


class Cauchy(Stationary):
    """k(x, y) = prod_i 1 / (1 + (x_i - y_i)^2 / bandwidth^2); frequencies Laplace(0, 1 / bandwidth) per input.

    X [n, d], Y [m, d]: O(nmd), one pass per input. Source: Rahimi & Recht 2007, Figure 1.

    >>> Cauchy(bandwidth=1.0)(torch.zeros(1, 2), torch.ones(1, 2))
    tensor([[0.2500]])
    """

    def _evaluate(self, U: Tensor, V: Tensor) -> Tensor:
        # Logs are summed: a product over hundreds of inputs would leave float32's range on its way.
        logs = U.new_zeros(len(U), len(V))
        for u, v in zip(U.T / self.bandwidth, V.T / self.bandwidth, strict=True):
            logs = logs + torch.log1p((u[:, None] - v).square())
        return torch.exp(-logs)

    def _temporaries(self) -> int:
        return 3

    def frequencies(self, uniforms: Tensor, num_inputs: int) -> Tensor:
        centred = uniforms - 0.5
        tails = (1 - 2 * centred.abs()).clamp_min(torch.finfo(uniforms.dtype).tiny)
        return (-centred.sign() * torch.log(tails)).T / self.bandwidth

    def _rule_bandwidth(self, typical: float) -> float:
        return float(typical**0.5)
