"""Sums and products of kernels; frequencies can be drawn if those of all parts can."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bochner import checks
from bochner.kernels.kernel import Kernel
from bochner.kernels.stationary import Spectral


class _Combined(Spectral, abstract=True):
    """A combination of kernels; each keeps its own scale or metric, the combination has none."""

    kernels: nn.ModuleList

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        super().__init__()
        kernels = list(kernels)
        if not kernels or not all(isinstance(kernel, Kernel) for kernel in kernels):
            raise ValueError(f"kernels must be a non-empty list of kernels, got {kernels!r}.")
        self.kernels = nn.ModuleList(kernels)
        self.spectral = all(kernel.spectral for kernel in kernels)
        self.isotropic = all(
            isinstance(kernel, Spectral) and kernel.isotropic and kernel.scale is None and kernel.metric is None
            for kernel in kernels
        )

    @property
    def _parts(self) -> list[Kernel]:
        return list(self.kernels)  # type: ignore[arg-type]

    @property
    def _spectral_parts(self) -> list[Spectral]:
        for kernel in self._parts:
            if not isinstance(kernel, Spectral) or not kernel.spectral:
                raise ValueError(f"{kernel!r} has no spectral sampler, so {self!r} has none.")
        return self._parts  # type: ignore[return-value]

    def _temporaries(self) -> int:
        return 1 + max(kernel._temporaries() for kernel in self._parts)


class Sum(_Combined):
    """k(x, y) = sum_i weight_i k_i(x, y); frequencies from the mixture of the parts' spectra.

    >>> from bochner.kernels import Gaussian
    >>> k = 0.5 * Gaussian(bandwidth=1.0) + 2.0 * Gaussian(bandwidth=9.0)
    >>> k.amplitude
    2.5
    """

    def __init__(self, kernels: Sequence[Kernel], weights: Sequence[float] | None = None) -> None:
        super().__init__(kernels)
        self.weights = [1.0] * len(self.kernels) if weights is None else list(weights)
        if len(self.weights) != len(self.kernels):
            raise ValueError(f"weights must have one entry per kernel, {len(self.kernels)}, got {len(self.weights)}.")
        self.weights = [checks.positive_float("weights", weight) for weight in self.weights]
        self.amplitude = sum(self._amplitudes()) if self.spectral else math.nan

    def _evaluate(self, U: Tensor, V: Tensor) -> Tensor:
        K = U.new_zeros(len(U), len(V))
        for weight, kernel in zip(self.weights, self._parts, strict=True):
            K = K + weight * kernel._evaluate(kernel.prepare(U), kernel.prepare(V))
        return K

    def diagonal(self, X: Tensor) -> Tensor:
        parts = zip(self.weights, self._parts, strict=True)
        return torch.stack([weight * kernel.diagonal(X) for weight, kernel in parts]).sum(dim=0)

    def num_uniforms(self, num_inputs: int) -> int:
        return 1 + max(kernel.num_uniforms(num_inputs) for kernel in self._spectral_parts)

    def frequencies(self, uniforms: Tensor, num_inputs: int) -> Tensor:
        """The first uniform number selects the part, the others determine its frequency."""
        amplitudes = uniforms.new_tensor(self._amplitudes())
        shares = amplitudes.cumsum(0) / amplitudes.sum()
        part = torch.bucketize(uniforms[:, 0].contiguous(), shares[:-1], right=True)
        W = uniforms.new_empty(num_inputs, len(uniforms))
        for i, kernel in enumerate(self._spectral_parts):
            rows = part == i
            own = uniforms[rows, 1 : 1 + kernel.num_uniforms(num_inputs)]
            W[:, rows] = kernel.fold(kernel.frequencies(own, num_inputs))
        return W

    def _amplitudes(self) -> list[float]:
        parts = zip(self.weights, self._spectral_parts, strict=True)
        return [weight * kernel.amplitude for weight, kernel in parts]


class Product(_Combined):
    """k(x, y) = prod_i k_i(x, y); a frequency is the sum of one frequency of each part.

    >>> from bochner.kernels import Gaussian, Laplacian
    >>> k = Gaussian(bandwidth=3.0) * Laplacian(bandwidth=2.0)
    >>> k(torch.zeros(1, 2), torch.zeros(1, 2))
    tensor([[1.]])
    """

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        super().__init__(kernels)
        self.amplitude = math.prod(kernel.amplitude for kernel in self._spectral_parts) if self.spectral else math.nan

    def _evaluate(self, U: Tensor, V: Tensor) -> Tensor:
        K = U.new_ones(len(U), len(V))
        for kernel in self._parts:
            K = K * kernel._evaluate(kernel.prepare(U), kernel.prepare(V))
        return K

    def diagonal(self, X: Tensor) -> Tensor:
        return torch.stack([kernel.diagonal(X) for kernel in self._parts]).prod(dim=0)

    def num_uniforms(self, num_inputs: int) -> int:
        return sum(kernel.num_uniforms(num_inputs) for kernel in self._spectral_parts)

    def frequencies(self, uniforms: Tensor, num_inputs: int) -> Tensor:
        widths = [kernel.num_uniforms(num_inputs) for kernel in self._spectral_parts]
        W = uniforms.new_zeros(num_inputs, len(uniforms))
        for kernel, own in zip(self._spectral_parts, uniforms.split(widths, dim=1), strict=True):
            W += kernel.fold(kernel.frequencies(own, num_inputs))
        return W
