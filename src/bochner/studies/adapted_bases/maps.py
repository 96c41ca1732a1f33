"""The random bases of the study, by name."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from bochner.features import ArcCosineMap, FeatureMap, FourierMap
from bochner.kernels import ArcCosine, Gaussian, Laplacian, SparseGaussian

NEIGHBOUR, NEIGHBOUR_POINTS = 50, 1000
MULTIPLES = (0.35, 0.5, 0.7)  # bandwidths tried beside the rule's


def neighbour_bandwidth(X: Tensor, *, generator: Generator) -> float:
    """The mean distance to the 50th nearest neighbour among 1,000 points: the rule of Yu et al. 2016, which Alber use.

    >>> round(neighbour_bandwidth(torch.arange(1001.0)[:, None] / 10, generator=Generator().manual_seed(0)), 1)
    2.6
    """
    points = X[torch.randperm(len(X), generator=generator)[:NEIGHBOUR_POINTS].to(X.device)]
    distances = torch.cdist(points, points)
    return float(distances.kthvalue(min(NEIGHBOUR + 1, len(points)), dim=1).values.mean())


def draw(name: str, X: Tensor, num_features: int, *, generator: Generator) -> FeatureMap:
    """A random basis for rows X, with D features; arc-cosine maps have D / depth in every layer."""
    return MAPS[name](X, num_features, generator)


Draw = Callable[[Tensor, int, Generator], FeatureMap]


def _gaussian(projection: str, form: str, *, multiple: float = 1.0) -> Draw:
    """`multiple` is the bandwidth in units of the rule's."""

    def make(X: Tensor, num_features: int, generator: Generator) -> FeatureMap:
        kernel = Gaussian(bandwidth=multiple * neighbour_bandwidth(X, generator=generator))
        return FourierMap.draw(
            kernel,
            num_inputs=X.shape[1],
            num_features=num_features,
            projection=projection,
            form=form,
            generator=generator,
        )

    return make


def _median(kernel: Laplacian | SparseGaussian) -> Draw:
    def make(X: Tensor, num_features: int, generator: Generator) -> FeatureMap:
        suited = kernel.with_bandwidth("median", X, generator=generator)
        return FourierMap.draw(
            suited, num_inputs=X.shape[1], num_features=num_features, form="cosine", generator=generator
        )

    return make


def _arc_cosine(depth: int) -> Draw:
    def make(X: Tensor, num_features: int, generator: Generator) -> FeatureMap:
        kernel = ArcCosine(depth=depth)
        return ArcCosineMap.draw(
            kernel, num_inputs=X.shape[1], num_features=max(1, num_features // depth), generator=generator
        )

    return make


MAPS: dict[str, Draw] = {
    "gaussian": _gaussian("orthogonal", "paired"),
    "gaussian cosine": _gaussian("orthogonal", "cosine"),
    **{f"gaussian x{multiple}": _gaussian("orthogonal", "cosine", multiple=multiple) for multiple in MULTIPLES},
    **{f"arccos{depth}": _arc_cosine(depth) for depth in (1, 2, 3)},
    **{f"hadamard{chain}": _gaussian(f"hadamard{chain}", "cosine") for chain in (1, 2, 3)},
    "laplacian": _median(Laplacian()),
    "sparse gaussian": _median(SparseGaussian()),
}
