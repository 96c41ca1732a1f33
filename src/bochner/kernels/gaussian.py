"""The sparse Gaussian kernel: a mean of Gaussians over small subsets of the inputs."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.kernels.stationary import Stationary, open_uniforms, standard_normals
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


RULE_SUBSETS = 16


class SparseGaussian(Stationary):
    """k(x, y) = mean over all k-subsets F of the inputs of exp(-||x_F - y_F||^2 / 2 bandwidth^2).

    With v_i = exp(-(x_i - y_i)^2 / 2 bandwidth^2) this is e_k(v_1 .. v_d) / binom(d, k), the k-th elementary symmetric
    polynomial, by the recursion e_j <- e_j + v_i e_{j-1}: O(dk) a pair instead of binom(d, k). A frequency has
    `subset_size` = k non-zero Normal(0, bandwidth^-2) entries at uniformly chosen inputs.
    X [n, d], Y [m, d]: O(nmdk). Source: May 2018, Section 5.2.

    >>> SparseGaussian(subset_size=1)(torch.zeros(1, 2), torch.tensor([[0.0, 9.0]]))
    tensor([[0.5000]])
    """

    def __init__(
        self,
        *,
        subset_size: int = 5,
        bandwidth: float = 1.0,
        scale: float | Tensor | None = None,
        metric: Tensor | None = None,
    ) -> None:
        super().__init__(bandwidth=bandwidth, scale=scale, metric=metric)
        self.subset_size = checks.positive_int("subset_size", subset_size)

    def _evaluate(self, U: Tensor, V: Tensor) -> Tensor:
        k = self._checked_size(U.shape[1])
        c = math.sqrt(0.5) / self.bandwidth
        # means[j] is e_j over the inputs so far, divided by binom(inputs so far, j): it stays within [0, 1] at every
        # step, where e_j itself would overflow.
        means = [U.new_ones(len(U), len(V))]
        for seen, (u, v) in enumerate(zip(U.T * c, V.T * c, strict=True), start=1):
            value = torch.exp(-(u[:, None] - v).square())
            joined = [
                value * means[j - 1] if j == seen else torch.lerp(means[j], value * means[j - 1], j / seen)
                for j in range(1, min(k, seen) + 1)
            ]
            means = means[:1] + joined
        return means[k]

    def _temporaries(self) -> int:
        return 2 * self.subset_size + 3

    def num_uniforms(self, num_inputs: int) -> int:
        return 2 * self._checked_size(num_inputs)

    def frequencies(self, uniforms: Tensor, num_inputs: int) -> Tensor:
        places, values = self.sparse_frequencies(uniforms, num_inputs)
        return values.new_zeros(len(values), num_inputs).scatter_(1, places, values).T

    def sparse_frequencies(self, uniforms: Tensor, num_inputs: int) -> tuple[Tensor, Tensor]:
        """Places [D, k] and values [D, k] of the non-zero entries, from uniforms [D, 2k]."""
        k = self._checked_size(num_inputs)
        places = _distinct_places(uniforms[:, :k], num_inputs)
        return places, torch.special.ndtri(uniforms[:, k:]) / self.bandwidth

    def _rule_distances(self, points: Tensor, generator: Generator) -> Tensor:
        uniforms = open_uniforms((RULE_SUBSETS, self._checked_size(points.shape[1])), generator=generator)
        subsets = _distinct_places(uniforms, points.shape[1]).to(points.device)
        return torch.cat([torch.nn.functional.pdist(points[:, F]).square() for F in subsets])

    def _checked_size(self, num_inputs: int) -> int:
        if self.subset_size > num_inputs:
            raise ValueError(f"subset_size must be at most the number of inputs, {num_inputs}, got {self.subset_size}.")
        return self.subset_size


def _distinct_places(uniforms: Tensor, num_inputs: int) -> Tensor:
    """Distinct places below `num_inputs`, uniform over subsets, k of them from uniforms [D, k] (Floyd's algorithm)."""
    count, k = uniforms.shape
    places = torch.empty(count, k, dtype=torch.long, device=uniforms.device)
    for column in range(k):
        last = num_inputs - k + column
        drawn = (uniforms[:, column] * (last + 1)).long().clamp_max_(last)
        taken = (places[:, :column] == drawn[:, None]).any(dim=1)
        places[:, column] = torch.where(taken, last, drawn)
    return places
