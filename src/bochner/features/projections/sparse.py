"""Frequencies with few non-zero entries, stored and applied as such."""

from __future__ import annotations

import torch
from torch import Generator, Tensor
from torch.nn.functional import embedding_bag

from bochner.features.projections.projection import Projection, frozen
from bochner.kernels import SparseGaussian, Spectral
from bochner.kernels.stationary import open_uniforms
from bochner.ops import row_tiles

# Outputs made at once: their sums are transposed, P first to N first, while they are still in cache.
CHUNK = 4096


class SparseProjection(Projection):
    """W with k non-zero entries a column: places [P, k] and values [P, k]; O(NPk) time, O(Pk) memory.

    An output is a weighted sum of k rows of X^T, which is what an embedding bag computes.
    """

    tile_elements = 2**21
    adaptable = ("values",)

    def __init__(self, num_inputs: int, places: Tensor, values: Tensor) -> None:
        super().__init__()
        if places.shape != values.shape or places.ndim != 2 or 0 in places.shape:
            raise ValueError(
                f"places and values must both be [P, k], got {tuple(places.shape)} and {tuple(values.shape)}."
            )
        if int(places.min()) < 0 or int(places.max()) >= num_inputs:
            raise ValueError(f"places must lie in 0..{num_inputs - 1}, the inputs.")
        self.register_buffer("places", places.to(torch.int32))
        self.places: Tensor
        self.values = frozen(values)
        self.num_inputs = num_inputs
        self.num_outputs = len(places)

    def forward(self, X: Tensor) -> Tensor:
        return embedding_bag(self.places, X.T.contiguous(), mode="sum", per_sample_weights=self.values).T

    def write(self, X: Tensor, out: Tensor) -> None:
        columns_of_X = X.T.contiguous()
        for tile in row_tiles(self.num_outputs, row_elements=1, tile_elements=CHUNK):
            sums = embedding_bag(self.places[tile], columns_of_X, mode="sum", per_sample_weights=self.values[tile])
            out[:, tile] = sums.T.contiguous()

    def take(self, columns: Tensor) -> SparseProjection:
        return SparseProjection(self.num_inputs, self.places[columns], self.values[columns])

    def join(self, other: Projection) -> SparseProjection | None:
        if not isinstance(other, SparseProjection):
            return None
        places, values = torch.cat([self.places, other.places]), torch.cat([self.values, other.values])
        return SparseProjection(self.num_inputs, places, values)


def draw_sparse(
    kernel: Spectral, num_inputs: int, count: int, *, generator: Generator, dtype: torch.dtype
) -> SparseProjection:
    """Independent frequencies of the sparse Gaussian kernel. Source: May 2018, Section 5.2."""
    if not isinstance(kernel, SparseGaussian):
        raise ValueError(f"projection='sparse' needs a SparseGaussian kernel, got {kernel!r}.")
    shape = (count, kernel.num_uniforms(num_inputs))
    uniforms = open_uniforms(shape, generator=generator, dtype=dtype)
    places, values = kernel.sparse_frequencies(uniforms, num_inputs)
    return SparseProjection(num_inputs, places, values)
