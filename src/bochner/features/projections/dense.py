"""Frequencies as a plain matrix: independent, orthogonal, or low-discrepancy."""

from __future__ import annotations

import torch
from torch import Generator, Tensor
from torch.quasirandom import SobolEngine

from bochner.features.projections.projection import Projection, frozen, sample_radii
from bochner.kernels import Spectral


class DenseProjection(Projection):
    """W [d, P] as it is: O(NPd) time, O(Pd) memory. The kernel's scale or metric is folded into W."""

    prepared = False
    adaptable = ("frequencies",)
    tile_elements = 2**23  # matrix products want tall tiles

    def __init__(self, frequencies: Tensor) -> None:
        super().__init__()
        if frequencies.ndim != 2 or 0 in frequencies.shape:
            raise ValueError(f"frequencies must be [d, P], got shape {tuple(frequencies.shape)}.")
        self.frequencies = frozen(frequencies)
        self.num_inputs, self.num_outputs = frequencies.shape

    def forward(self, X: Tensor) -> Tensor:
        return X @ self.frequencies

    def write(self, X: Tensor, out: Tensor) -> None:
        torch.mm(X, self.frequencies, out=out)

    def take(self, columns: Tensor) -> DenseProjection:
        return DenseProjection(self.frequencies[:, columns])

    def join(self, other: Projection) -> DenseProjection | None:
        if not isinstance(other, DenseProjection):
            return None
        return DenseProjection(torch.cat([self.frequencies, other.frequencies], dim=1))


def draw_iid(
    kernel: Spectral, num_inputs: int, count: int, *, generator: Generator, dtype: torch.dtype
) -> DenseProjection:
    """Independent frequencies. Source: Rahimi & Recht 2007."""
    W = kernel.sample_frequencies(num_inputs, count, generator=generator, dtype=dtype)
    return DenseProjection(kernel.fold(W).contiguous())


def draw_orthogonal(
    kernel: Spectral, num_inputs: int, count: int, *, generator: Generator, dtype: torch.dtype
) -> DenseProjection:
    """Frequencies orthogonal to each other within blocks of d: Haar directions times the kernel's own lengths.

    Each frequency keeps its distribution, so the map stays unbiased; the repulsion lowers the variance.
    Source: Yu et al. 2016.
    """
    blocks = -(-count // num_inputs)
    shape = (blocks, num_inputs, num_inputs)
    normals = torch.randn(shape, generator=generator, device=generator.device, dtype=dtype)
    Q, R = torch.linalg.qr(normals)
    # QR fixes no signs; with R's diagonal made positive Q is uniform over rotations
    Q = Q * R.diagonal(dim1=1, dim2=2).sign()[:, None, :]
    directions = Q.transpose(0, 1).reshape(num_inputs, -1)[:, :count]
    radii = sample_radii(kernel, num_inputs, count, generator=generator, dtype=dtype)
    return DenseProjection(kernel.fold(directions * radii).contiguous())


def draw_quasi(
    kernel: Spectral, num_inputs: int, count: int, *, generator: Generator, dtype: torch.dtype
) -> DenseProjection:
    """Quasi-Monte Carlo: the kernel's frequencies at the points of a scrambled Sobol sequence.

    Source: Avron et al. 2016.
    """
    dimension = kernel.num_uniforms(num_inputs)
    if dimension > SobolEngine.MAXDIM:
        raise ValueError(
            f"projection='sobol' takes at most {SobolEngine.MAXDIM} dimensions, this kernel needs {dimension}; "
            "use 'orthogonal' or 'iid'."
        )
    seed = torch.randint(2**31, (1,), generator=generator, device=generator.device)
    points = SobolEngine(dimension, scramble=True, seed=int(seed)).draw(count, dtype=torch.float64)
    points = points.clamp_(2.0**-33, 1 - 2.0**-33)  # Sobol points are multiples of 2^-30, 0 included
    W = kernel.frequencies(points.to(generator.device), num_inputs).to(dtype)
    return DenseProjection(kernel.fold(W).contiguous())
