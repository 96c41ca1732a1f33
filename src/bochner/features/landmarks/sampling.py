"""Sampling without replacement."""

from __future__ import annotations

import torch
from torch import Generator, Tensor


def uniform_sample(population: int, count: int, *, generator: Generator) -> Tensor:
    """`count` distinct indices below `population`, each subset equally likely."""
    return torch.randperm(population, generator=generator, device=generator.device)[:count]


def weighted_sample(weights: Tensor, count: int, *, generator: Generator) -> Tensor:
    """`count` distinct indices, drawn one after the other in proportion to the weights still there.

    Adding Gumbel noise to log-weights and taking the largest does just that, for any number of weights; indices of
    weight 0 come last.
    """
    uniforms = torch.rand(len(weights), generator=generator, device=generator.device, dtype=torch.float64)
    gumbel = -torch.log(-torch.log(uniforms.clamp(1e-300, 1 - 1e-16)))
    return (weights.double().log() + gumbel.to(weights.device)).topk(count).indices
