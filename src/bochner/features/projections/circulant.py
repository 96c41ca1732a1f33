"""Signed circulant matrices, multiplied by the fast Fourier transform."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

from bochner.features.projections.projection import Projection, frozen, random_signs, sample_radii
from bochner.kernels import Spectral


class CirculantProjection(Projection):
    """Blocks of rows of S circ(g) D: all shifts of one Gaussian vector g, random signs D, lengths S.

    Each row is exactly a Gaussian direction, so the map is unbiased; rows of a block depend on each other.
    normals, signs [blocks, d]; radii [P]. O(NP log d) time, O(P) memory, no padding. Source: Feng et al. 2015.
    """

    structured = True
    adaptable = ("normals", "signs")

    def __init__(self, normals: Tensor, signs: Tensor, radii: Tensor) -> None:
        super().__init__()
        if normals.ndim != 2 or normals.shape != signs.shape:
            raise ValueError(
                f"normals and signs must both be [blocks, d], got {tuple(normals.shape)} and {tuple(signs.shape)}."
            )
        if not 0 < len(radii) <= normals.numel():
            raise ValueError(f"radii must be [P] with P in 1..{normals.numel()}.")
        self.normals, self.signs, self.radii = frozen(normals), frozen(signs), frozen(radii)
        self.num_inputs, self.num_outputs = normals.shape[1], len(radii)

    def forward(self, X: Tensor) -> Tensor:
        d = self.num_inputs
        unit = self.normals / self.normals.norm(dim=1, keepdim=True)
        spectrum = torch.fft.rfft(X[:, None, :] * self.signs) * torch.fft.rfft(unit)
        Y = torch.fft.irfft(spectrum, n=d).reshape(len(X), -1)
        return Y[:, : self.num_outputs] * self.radii


def draw_circulant(
    kernel: Spectral, num_inputs: int, count: int, *, generator: Generator, dtype: torch.dtype
) -> CirculantProjection:
    shape = (math.ceil(count / num_inputs), num_inputs)
    normals = torch.randn(shape, generator=generator, device=generator.device, dtype=dtype)
    signs = random_signs(shape, generator=generator, dtype=dtype)
    radii = sample_radii(kernel, num_inputs, count, generator=generator, dtype=dtype)
    return CirculantProjection(normals, signs, radii)
