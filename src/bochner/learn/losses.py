"""Losses as means over rows, weighted when weights are given."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional as F

Loss = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def softmax_loss(logits: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
    """-mean log p(y | x), logits [N, C], y [N] class indices."""
    return _mean(F.cross_entropy(logits, y, reduction="none"), weight)


def logistic_loss(logits: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
    """The same for two classes and one logit, logits [N, 1], y [N] in {0, 1}."""
    return _mean(F.binary_cross_entropy_with_logits(logits[:, 0], y.to(logits.dtype), reduction="none"), weight)


def squared_loss(logits: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
    """Half the mean squared error, summed over outputs; logits [N, T], y [N] or [N, T]."""
    errors = 0.5 * (logits - y.reshape(logits.shape)).square().sum(dim=1)
    return _mean(errors, weight)


LOSSES: dict[str, Loss] = {"softmax": softmax_loss, "logistic": logistic_loss, "squared": squared_loss}


def _mean(values: Tensor, weight: Tensor | None) -> Tensor:
    # weights of mean 1 keep the meaning of the learning rate, so the sum is not divided by their sum
    return values.mean() if weight is None else (values * weight).mean()
