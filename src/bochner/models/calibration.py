"""Calibration: probabilities from the scores of least squares on labels."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bochner import checks

# p = sigmoid(4 s - 2) is p = s to first order at s = 1/2: the slope if the rows do not determine it.
DEFAULT_SLOPE = 4.0
# A positive slope keeps the order of scores that are unrelated to the labels, or negatively: the leave-one-out
# predictions of a constant are highest where the label is 0.
MIN_SLOPE = 1e-3
MAX_SLOPE = 1e4  # float32 scores then still give probabilities to three digits
MAX_STEPS = 100  # Newton's method needs about ten
TOLERANCE = 1e-10  # of the derivatives of the mean log loss
ROUNDING = 1e-15  # of the mean log loss: a step that promises less only searches for a decrease that it cannot see
MIN_DECREASE = 1e-4  # of a step, relative to what the derivative promises (Armijo)


class Calibration(NamedTuple):
    """logits = slope * scores + offset, for scores [n, t] and offset [t]."""

    slope: float
    offset: Tensor


def fit_calibration(scores: Tensor, labels: Tensor, weight: Tensor | None = None) -> Calibration:
    """Slope and offset [t] such that the softmax of slope * scores + offset are calibrated probabilities.

    scores [n, t] must be predictions for rows that the model has not been fitted on; labels [n] are class indices and
    weight [n] counts rows. The weighted mean log loss is minimised by Newton's method in float64, O(n t^2) per step.

    Two classes (t = 1, the score of class 1): p(1 | s) = sigmoid(slope s + offset), Platt scaling. Targets are smoothed
    as if there were one more row of each class: (N + 1) / (N + 2) for N rows of a class, not 1. The minimum then exists
    even if a threshold separates the classes. If only one class is present, the slope is 4.

    C > 2 classes (t = C): p = softmax(slope s + offset), temperature scaling with an offset for each class. Targets are
    (n + 1) / (n + 2) for the own class, with the rest divided equally among the others; the offsets have a normal prior
    of variance 1.

    The slope lies in [1e-3, 1e4]: positive, so that it keeps the order of the scores. Where all scores are equal it is
    4, as p = sigmoid(4 s - 2) is p = s to first order at s = 1/2; without any rows the offset is -2 for t = 1, else 0.

    Source: Platt 1999; Lin, Lin, Weng 2007; Guo et al. 2017; Alexandari et al. 2020 (bias-corrected temperature).

    >>> scores = torch.tensor([[0.1], [0.4], [0.3], [0.6], [0.8]])
    >>> slope, offset = fit_calibration(scores, torch.tensor([0, 0, 1, 1, 1]))
    >>> (slope * scores + offset).sigmoid()[:, 0]
    tensor([0.3265, 0.5609, 0.4805, 0.7091, 0.8230], dtype=torch.float64)
    """
    if scores.ndim != 2 or scores.shape[1] == 0 or scores.shape[1] == 2:
        raise ValueError(f"scores must have shape [n, 1], or [n, C] for C > 2 classes, got {tuple(scores.shape)}.")
    n, t = scores.shape
    if labels.shape != (n,) or (weight is not None and weight.shape != (n,)):
        raise ValueError(f"labels and weight must have shape [{n}], as scores have rows.")
    scores, labels = checks.finite("scores", scores).detach().double().cpu(), labels.long().cpu()
    if n and not 0 <= int(labels.min()) <= int(labels.max()) < max(2, t):
        raise ValueError(f"labels must lie in [0, {max(2, t)}), got {int(labels.min())} and {int(labels.max())}.")
    w = torch.ones(n, dtype=torch.float64) if weight is None else weight.detach().double().cpu()
    if n and (bool((w < 0).any()) or not 0 < float(w.sum()) < float("inf")):
        raise ValueError("weight must be non-negative and finite, and positive for some row.")
    scores, labels, w = scores[w > 0], labels[w > 0], w[w > 0]
    if len(w) == 0:
        return Calibration(DEFAULT_SLOPE, torch.full((t,), -DEFAULT_SLOPE / 2 if t == 1 else 0.0, dtype=torch.float64))
    w = w / w.sum()
    problem = _LogLoss(scores, _smoothed(labels, w, t), w)
    spread = scores.std(dim=0 if t == 1 else 1, correction=0).max()
    if float(spread) < 1 / MAX_SLOPE**2 or (t == 1 and bool((labels == labels[0]).all())):
        return problem.minimise(fixed_slope=DEFAULT_SLOPE)
    best = problem.minimise()
    if not MIN_SLOPE <= best.slope <= MAX_SLOPE:  # convex: the minimum within bounds is on the nearer one
        best = problem.minimise(fixed_slope=min(max(best.slope, MIN_SLOPE), MAX_SLOPE))
    return best


def _smoothed(labels: Tensor, w: Tensor, t: int) -> Tensor:
    """Targets [n, t]: of class 1 for t = 1, else of each class."""
    n = len(w)
    if t == 1:
        count = n * w @ (labels == 1).double()
        return torch.where(labels == 1, (count + 1) / (count + 2), 1 / (n - count + 2))[:, None]
    targets = torch.full((n, t), 1 / ((n + 2) * (t - 1)), dtype=torch.float64)
    return targets.scatter_(1, labels[:, None], (n + 1) / (n + 2))


class _LogLoss:
    """The mean log loss as a function of slope and offset, with a penalty on the offsets of more than two classes."""

    def __init__(self, scores: Tensor, targets: Tensor, w: Tensor) -> None:
        self.scores, self.targets, self.w = scores, targets, w
        self.penalty = 0.0 if scores.shape[1] == 1 else 1 / len(scores)

    def minimise(self, *, fixed_slope: float | None = None) -> Calibration:
        """Newton's method with steps halved until the loss falls enough."""
        t = self.scores.shape[1]
        theta = torch.zeros(1 + t, dtype=torch.float64)
        theta[0] = DEFAULT_SLOPE if fixed_slope is None else fixed_slope
        if t == 1:
            theta[1] = -theta[0] * (self.w @ self.scores[:, 0])
        for _ in range(MAX_STEPS):
            loss, gradient, hessian = self._derivatives(theta)
            if fixed_slope is not None:
                gradient[0], hessian[0], hessian[:, 0], hessian[0, 0] = 0.0, 0.0, 0.0, 1.0
            if float(gradient.abs().max()) < TOLERANCE:
                break
            # where all p are 0 or 1 to rounding, the second derivatives vanish
            hessian.diagonal().add_(1e-12 * hessian.diagonal().max().clamp_min(1e-12))
            step = -torch.linalg.solve(hessian, gradient)
            slope, size = float(gradient @ step), 1.0
            if -slope < ROUNDING:
                break
            promise = MIN_DECREASE * slope
            while not self._value(theta + size * step) <= loss + size * promise and size > 1e-10:
                size /= 2
            theta = theta + size * step
            if size <= 1e-10:  # the loss is minimal, up to rounding
                break
        return Calibration(float(theta[0]), theta[1:].clone())

    def _logits(self, theta: Tensor) -> Tensor:
        """[n, max(2, t)]: of two classes, the first has logit 0."""
        logits = theta[0] * self.scores + theta[1:]
        return torch.cat([torch.zeros_like(logits), logits], dim=1) if logits.shape[1] == 1 else logits

    def _value(self, theta: Tensor) -> float:
        logs = self._logits(theta).log_softmax(dim=1)
        q = self.targets
        q = torch.cat([1 - q, q], dim=1) if q.shape[1] == 1 else q
        return float(-self.w @ (q * logs).sum(dim=1) + self.penalty / 2 * theta[1:].square().sum())

    def _derivatives(self, theta: Tensor) -> tuple[float, Tensor, Tensor]:
        t, s = self.scores.shape[1], self.scores
        p = self._logits(theta).softmax(dim=1)[:, -t:]
        weighted = self.w[:, None] * p
        residual = self.w[:, None] * (p - self.targets)
        gradient = torch.cat([(residual * s).sum()[None], residual.sum(dim=0) + self.penalty * theta[1:]])
        mean = (p * s).sum(dim=1, keepdim=True)
        cross = (weighted * (s - mean)).sum(dim=0)
        hessian = theta.new_empty(1 + t, 1 + t)
        hessian[0, 0] = (weighted * s * (s - mean)).sum()
        hessian[0, 1:] = hessian[1:, 0] = cross
        hessian[1:, 1:] = torch.diag(weighted.sum(dim=0) + self.penalty) - p.T @ weighted
        return self._value(theta), gradient, hessian
