"""Small models and data for tests of the loop."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from bochner.data import ArraySource
from bochner.features import FourierMap
from bochner.kernels import Gaussian
from bochner.models.heads import BottleneckHead, FeatureModel, LinearHead


def generator(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def rings(count: int = 600, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Three classes by distance from the origin: nothing for a linear model, easy for a kernel."""
    X = torch.randn(count, 2, generator=generator(seed))
    return X, torch.bucketize(X.norm(dim=1), torch.tensor([0.8, 1.5]))


def sources(count: int = 600) -> tuple[ArraySource, ArraySource]:
    X, y = rings(count)
    return ArraySource(X[100:], y[100:], shard_rows=64), ArraySource(X[:100], y[:100], shard_rows=64)


def model(*, rank: int | None = None, num_outputs: int = 3, num_features: int = 64) -> FeatureModel:
    z = FourierMap.draw(
        Gaussian(bandwidth=1.0), num_inputs=2, num_features=num_features, form="cosine", generator=generator(1)
    )
    if rank is None:
        head = LinearHead.zeros(num_features=num_features, num_outputs=num_outputs)
    else:
        head = BottleneckHead.glorot(
            num_features=num_features, num_outputs=num_outputs, rank=rank, generator=generator(2)
        )
    return FeatureModel(z, head)


def weights(model: FeatureModel) -> list[Tensor]:
    return [p.detach().clone() for p in model.head.parameters()]
