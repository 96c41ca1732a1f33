"""The convex losses of scores f [n, t] against targets [n, t], with what second-order solvers need of them."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from bochner import checks


class Loss(Protocol):
    smoothness: float
    """A bound on the largest eigenvalue of the second derivative."""

    def targets(self, encoded: Tensor) -> Tensor:
        """What scores are compared with, from numbers or one-hot rows."""
        ...

    def offset(self, mean: Tensor) -> Tensor:
        """The best constant scores [t], given the mean of the encoded targets."""
        ...

    def value(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Losses [n]."""
        ...

    def residual(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Derivatives by the scores, [n, t]."""
        ...

    def curve(self, scores: Tensor, directions: Tensor) -> Tensor:
        """Second derivatives applied to directions [n, t], as [n, t]."""
        ...

    def curvature(self, scores: Tensor) -> Tensor:
        """The diagonal of the second derivatives, its mean over outputs: [n]."""
        ...


class Squares:
    """l = ||f - y||^2 / 2."""

    smoothness = 1.0

    def targets(self, encoded: Tensor) -> Tensor:
        return encoded

    def offset(self, mean: Tensor) -> Tensor:
        return mean

    def value(self, scores: Tensor, targets: Tensor) -> Tensor:
        return (scores - targets).square().sum(dim=1) / 2

    def residual(self, scores: Tensor, targets: Tensor) -> Tensor:
        return scores - targets

    def curve(self, scores: Tensor, directions: Tensor) -> Tensor:
        return directions

    def curvature(self, scores: Tensor) -> Tensor:
        return scores.new_ones(len(scores))


class Logistic:
    """l = log(1 + exp(f)) - y f for y in {0, 1}: one score, the log-odds of class 1 of two."""

    smoothness = 0.25

    def targets(self, encoded: Tensor) -> Tensor:
        return encoded[:, 1:]

    def offset(self, mean: Tensor) -> Tensor:
        return torch.logit(mean[1:])

    def value(self, scores: Tensor, targets: Tensor) -> Tensor:
        return (torch.nn.functional.softplus(scores) - targets * scores).sum(dim=1)

    def residual(self, scores: Tensor, targets: Tensor) -> Tensor:
        return scores.sigmoid() - targets

    def curve(self, scores: Tensor, directions: Tensor) -> Tensor:
        return self.curvature(scores)[:, None] * directions

    def curvature(self, scores: Tensor) -> Tensor:
        p = scores[:, 0].sigmoid()
        return p * (1 - p)


class Softmax:
    """l = log sum_c exp(f_c) - f_y: second derivative diag(p) - p p^T, at most 1/2."""

    smoothness = 0.5

    def targets(self, encoded: Tensor) -> Tensor:
        return encoded

    def offset(self, mean: Tensor) -> Tensor:
        return mean.clamp_min(float(mean[mean > 0].min()) / len(mean)).log()  # a class never seen: rare, not impossible

    def value(self, scores: Tensor, targets: Tensor) -> Tensor:
        return scores.logsumexp(dim=1) - (targets * scores).sum(dim=1)

    def residual(self, scores: Tensor, targets: Tensor) -> Tensor:
        return scores.softmax(dim=1) - targets

    def curve(self, scores: Tensor, directions: Tensor) -> Tensor:
        p = scores.softmax(dim=1)
        return p * (directions - (p * directions).sum(dim=1, keepdim=True))

    def curvature(self, scores: Tensor) -> Tensor:
        p = scores.softmax(dim=1)
        return (p * (1 - p)).mean(dim=1)


LOSSES: dict[str, Loss] = {"squares": Squares(), "logistic": Logistic(), "softmax": Softmax()}


def choose_loss(name: str, num_classes: int | None) -> Loss:
    """The loss of that name, if it suits the number of classes (None: targets are numbers)."""
    checks.one_of("loss", name, LOSSES)
    if name != "squares" and num_classes is None:
        raise ValueError(f"num_classes must be given with loss={name!r}, got None.")
    if name == "logistic" and num_classes != 2:
        raise ValueError(f"num_classes must be 2 with loss='logistic', got {num_classes!r}; use loss='softmax'.")
    return LOSSES[name]
