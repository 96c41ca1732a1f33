"""Projections x -> W^T x whose columns are frequencies of a spectral kernel, stored in different ways."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Generator

from bochner import checks
from bochner.features.projections.circulant import CirculantProjection, draw_circulant
from bochner.features.projections.dense import (
    DenseProjection,
    draw_iid,
    draw_orthogonal,
    draw_quasi,
)
from bochner.features.projections.fastfood import FastfoodProjection, draw_fastfood
from bochner.features.projections.hadamard import HadamardProjection, draw_hadamard
from bochner.features.projections.projection import Projection
from bochner.features.projections.sparse import SparseProjection, draw_sparse
from bochner.kernels import Kernel, SparseGaussian, Spectral

__all__ = [
    "PROJECTION_NAMES",
    "CirculantProjection",
    "DenseProjection",
    "FastfoodProjection",
    "HadamardProjection",
    "Projection",
    "SparseProjection",
    "draw_projection",
]

_DRAWS: dict[str, Callable[..., Projection]] = {
    "iid": draw_iid,
    "orthogonal": draw_orthogonal,
    "sobol": draw_quasi,
    "hadamard1": partial(draw_hadamard, chain=1),
    "hadamard2": partial(draw_hadamard, chain=2),
    "hadamard3": partial(draw_hadamard, chain=3),
    "fastfood": draw_fastfood,
    "circulant": draw_circulant,
    "sparse": draw_sparse,
}
_NEEDS_ISOTROPY = {"orthogonal", "hadamard1", "hadamard2", "hadamard3", "fastfood", "circulant"}

PROJECTION_NAMES = ["auto", *_DRAWS]


def draw_projection(
    name: str,
    kernel: Kernel,
    num_inputs: int,
    count: int,
    *,
    generator: Generator,
    dtype: torch.dtype = torch.float32,
) -> Projection:
    """`count` frequencies of the kernel, by name.

    "auto" is "sparse" for the sparse Gaussian kernel, "orthogonal" for isotropic kernels, else "iid".
    """
    checks.one_of("projection", name, PROJECTION_NAMES)
    if not isinstance(kernel, Spectral) or not kernel.spectral:
        raise ValueError(
            f"kernel must have a spectral sampler, {kernel!r} has none; use a Nystrom map, which takes any kernel."
        )
    if name == "auto":
        name = _default_projection(kernel)
    if name in _NEEDS_ISOTROPY and not kernel.isotropic:
        raise ValueError(
            f"projection={name!r} needs an isotropic kernel (Gaussian, Matern), got {kernel!r}; use 'iid' or 'sobol'."
        )
    return _DRAWS[name](kernel, num_inputs, count, generator=generator, dtype=dtype)


def _default_projection(kernel: Spectral) -> str:
    if isinstance(kernel, SparseGaussian):
        return "sparse"
    return "orthogonal" if kernel.isotropic else "iid"
