"""From scores to probabilities."""

from __future__ import annotations

import torch
from torch import Tensor

from bochner import checks

LINKS = ["softmax", "logistic", "clipped"]
# Least squares estimates no probability below this.
SMALLEST_PROBABILITY = 1e-4


def probabilities(scores: Tensor, link: str) -> Tensor:
    """p(class | x) [n, C] in float64 from scores [n, t].

    "softmax" (t = C) and "logistic" (t = 1, C = 2) invert the losses of those names. "clipped" (t = C) is for least
    squares on one-hot labels, whose scores estimate p itself: they are clipped from below and scaled to sum to 1.

    >>> probabilities(torch.tensor([[-0.5, 0.25, 0.75]]), "clipped").round(decimals=2)
    tensor([[0.0000, 0.2500, 0.7500]], dtype=torch.float64)
    """
    checks.one_of("link", link, LINKS)
    scores = scores.double()
    if link == "softmax":
        return scores.softmax(dim=1)
    if link == "logistic":
        return torch.cat([(-scores).sigmoid(), scores.sigmoid()], dim=1)
    p = scores.clamp_min(SMALLEST_PROBABILITY)
    return p / p.sum(dim=1, keepdim=True)
