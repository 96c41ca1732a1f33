"""Fastfood: a Gaussian matrix in disguise."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

from bochner.features.projections.projection import (
    Projection,
    frozen,
    next_power_of_two,
    pad_inputs,
    random_signs,
    sample_radii,
)
from bochner.kernels import Spectral
from bochner.ops import hadamard_transform


class FastfoodProjection(Projection):
    """Blocks of rows of S H G P H B: signs B, permutation P, Gaussian diagonal G, lengths S, Hadamard H of size p >= d.

    Each row is exactly a Gaussian direction, so the map is unbiased; rows of a block depend on each other.
    signs, normals, permutations [blocks, p]; radii [P]. O(NP log d) time, O(P) memory. Source: Le et al. 2013.
    """

    structured = True
    adaptable = ("signs", "normals")

    def __init__(self, num_inputs: int, signs: Tensor, permutations: Tensor, normals: Tensor, radii: Tensor) -> None:
        super().__init__()
        size = next_power_of_two(num_inputs)
        if signs.ndim != 2 or signs.shape[1] != size or not 0 < len(radii) <= signs.numel():
            raise ValueError(
                f"signs must be [blocks, {size}] and radii [P] with P <= blocks * {size}, "
                f"got {tuple(signs.shape)} and {tuple(radii.shape)}."
            )
        if permutations.shape != signs.shape or normals.shape != signs.shape:
            raise ValueError("permutations and normals must have the shape of signs.")
        if not torch.equal(
            permutations.sort(dim=1).values.long(),
            torch.arange(size, device=signs.device).expand_as(signs),
        ):
            raise ValueError(f"permutations must hold each of 0..{size - 1} once in every row.")
        self.register_buffer("permutations", permutations.to(torch.int32))
        self.permutations: Tensor
        self.signs, self.normals, self.radii = frozen(signs), frozen(normals), frozen(radii)
        self.num_inputs, self.num_outputs = num_inputs, len(radii)

    def forward(self, X: Tensor) -> Tensor:
        size = self.signs.shape[1]
        Y = hadamard_transform(pad_inputs(X, size)[:, None, :] * self.signs)
        Y = Y.gather(2, self.permutations.long().expand(len(X), -1, -1)) * self.normals
        # a row of H G has length ||G|| / sqrt(p): divide it out, S brings the right one
        unit = math.sqrt(size) / self.normals.norm(dim=1, keepdim=True)
        Y = (hadamard_transform(Y) * unit).reshape(len(X), -1)
        return Y[:, : self.num_outputs] * self.radii


def draw_fastfood(
    kernel: Spectral, num_inputs: int, count: int, *, generator: Generator, dtype: torch.dtype
) -> FastfoodProjection:
    size = next_power_of_two(num_inputs)
    shape = (math.ceil(count / size), size)
    signs = random_signs(shape, generator=generator, dtype=dtype)
    device = generator.device
    permutations = torch.rand(shape, generator=generator, device=device).argsort(dim=1)
    normals = torch.randn(shape, generator=generator, device=device, dtype=dtype)
    radii = sample_radii(kernel, size, count, generator=generator, dtype=dtype)
    return FastfoodProjection(num_inputs, signs, permutations, normals, radii)
