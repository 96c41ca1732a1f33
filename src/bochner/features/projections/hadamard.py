"""Chains of Hadamard transforms and random signs."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

from bochner import checks
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


class HadamardProjection(Projection):
    """Blocks of rows of S H D_i .. H D_1, with H the orthonormal Hadamard matrix of size p, the power of two >= d.

    diagonals [chain, blocks, p] holds the D's (random signs), radii [P] the S: the length of each frequency.
    Inputs are padded with zeros to p. Signs only imitate a rotation, so the map is biased: a chain of one badly where
    points differ in few inputs, a chain of three hardly from d = 16 on.
    O(NP log d) time, O(P) memory. Source: Yu et al. 2016; Alber et al. 2017.
    """

    structured = True
    adaptable = ("diagonals",)

    def __init__(self, num_inputs: int, diagonals: Tensor, radii: Tensor) -> None:
        super().__init__()
        size = next_power_of_two(num_inputs)
        if diagonals.ndim != 3 or 0 in diagonals.shape or diagonals.shape[2] != size:
            raise ValueError(f"diagonals must be [chain, blocks, {size}], got {tuple(diagonals.shape)}.")
        if not 0 < len(radii) <= diagonals[0].numel():
            raise ValueError(f"radii must be [P] with P in 1..{diagonals[0].numel()}.")
        self.diagonals, self.radii = frozen(diagonals), frozen(radii)
        self.num_inputs, self.num_outputs = num_inputs, len(radii)

    def forward(self, X: Tensor) -> Tensor:
        return self._chain(X, None)[:, : self.num_outputs] * self.radii

    def write(self, X: Tensor, out: Tensor) -> None:
        scratch = X.new_empty(len(X), *self.diagonals.shape[1:])
        rows = self._chain(X, scratch)[:, : self.num_outputs]
        torch.mul(rows, self.radii, out=out)

    def _chain(self, X: Tensor, scratch: Tensor | None) -> Tensor:
        Y = pad_inputs(X, self.diagonals.shape[2])[:, None, :] * self.diagonals[0]
        Z = hadamard_transform(Y, scratch=scratch)
        for diagonal in self.diagonals[1:]:
            if scratch is None:
                Z = hadamard_transform(Z * diagonal)
            else:
                other = scratch if Z.data_ptr() == Y.data_ptr() else Y
                Z = hadamard_transform(Z.mul_(diagonal), scratch=other)
        return Z.reshape(len(X), -1)


def draw_hadamard(
    kernel: Spectral,
    num_inputs: int,
    count: int,
    *,
    chain: int = 3,
    generator: Generator,
    dtype: torch.dtype,
) -> HadamardProjection:
    """Random signs and the kernel's own frequency lengths; the longer the chain, the closer to a uniform rotation."""
    checks.positive_int("chain", chain)
    size = next_power_of_two(num_inputs)
    signs = random_signs((chain, math.ceil(count / size), size), generator=generator, dtype=dtype)
    radii = sample_radii(kernel, size, count, generator=generator, dtype=dtype)
    return HadamardProjection(num_inputs, signs, radii)
