"""Losses for training, links from scores to probabilities, and criteria on validation rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from bochner import checks


class Loss(ABC):
    """l(f, y) for scores f [n, t].

    y is what a block holds (class indices [n], or numbers [n] or [n, t]) or targets [n, t], where classes are one-hot.
    """

    smoothness: ClassVar[float]
    """A bound on the largest eigenvalue of the second derivative."""

    def __call__(self, scores: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """The mean over rows of weight l(f, y).

        The sum is not divided by that of the weights: with weights of mean 1 the learning rate has the same effect.
        """
        values = self.value(scores, y)
        return values.mean() if weight is None else (values * weight).mean()

    @abstractmethod
    def value(self, scores: Tensor, y: Tensor) -> Tensor:
        """Losses [n]."""

    @abstractmethod
    def targets(self, encoded: Tensor) -> Tensor:
        """The columns of numbers or one-hot rows that the scores predict, [n, t]."""

    @abstractmethod
    def offset(self, mean: Tensor) -> Tensor:
        """The best constant scores [t], given the mean of the encoded targets: where a bias should start."""

    @abstractmethod
    def residual(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Derivatives in the scores, [n, t]."""

    @abstractmethod
    def curve(self, scores: Tensor, directions: Tensor) -> Tensor:
        """Second derivatives applied to directions [n, t], as [n, t]."""

    @abstractmethod
    def curvature(self, scores: Tensor) -> Tensor:
        """The diagonal of the second derivatives, its mean over outputs: [n]."""


class Softmax(Loss):
    """l = log sum_c exp(f_c) - f_y: second derivative diag(p) - p p^T, at most 1/2.

    >>> float(Softmax()(torch.zeros(3, 4), torch.tensor([0, 1, 3])))  # log 4
    1.386294...
    """

    smoothness = 0.5

    def value(self, scores: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(scores, y, reduction="none")

    def targets(self, encoded: Tensor) -> Tensor:
        return encoded

    def offset(self, mean: Tensor) -> Tensor:
        return mean.clamp_min(float(mean[mean > 0].min()) / len(mean)).log()  # an unseen class is rare, not impossible

    def residual(self, scores: Tensor, targets: Tensor) -> Tensor:
        return scores.softmax(dim=1) - targets

    def curve(self, scores: Tensor, directions: Tensor) -> Tensor:
        p = scores.softmax(dim=1)
        return p * (directions - (p * directions).sum(dim=1, keepdim=True))

    def curvature(self, scores: Tensor) -> Tensor:
        p = scores.softmax(dim=1)
        return (p * (1 - p)).mean(dim=1)


class Logistic(Loss):
    """l = log(1 + exp(f)) - y f for y in {0, 1}: one score, the log-odds of class 1 of two."""

    smoothness = 0.25

    def value(self, scores: Tensor, y: Tensor) -> Tensor:
        y = y.reshape(scores.shape).to(scores.dtype)
        return F.binary_cross_entropy_with_logits(scores, y, reduction="none").sum(dim=1)

    def targets(self, encoded: Tensor) -> Tensor:
        return encoded[:, 1:]

    def offset(self, mean: Tensor) -> Tensor:
        return torch.logit(mean[1:])

    def residual(self, scores: Tensor, targets: Tensor) -> Tensor:
        return scores.sigmoid() - targets

    def curve(self, scores: Tensor, directions: Tensor) -> Tensor:
        return self.curvature(scores)[:, None] * directions

    def curvature(self, scores: Tensor) -> Tensor:
        p = scores[:, 0].sigmoid()
        return p * (1 - p)


class Squared(Loss):
    """l = ||f - y||^2 / 2. Its offset is the mean of y: starting the bias there is equivalent to centring y."""

    smoothness = 1.0

    def value(self, scores: Tensor, y: Tensor) -> Tensor:
        return (scores - y.reshape(scores.shape)).square().sum(dim=1) / 2

    def targets(self, encoded: Tensor) -> Tensor:
        return encoded

    def offset(self, mean: Tensor) -> Tensor:
        return mean

    def residual(self, scores: Tensor, targets: Tensor) -> Tensor:
        return scores - targets

    def curve(self, scores: Tensor, directions: Tensor) -> Tensor:
        return directions

    def curvature(self, scores: Tensor) -> Tensor:
        return scores.new_ones(len(scores))


LOSSES: dict[str, Loss] = {"softmax": Softmax(), "logistic": Logistic(), "squared": Squared()}


def choose_loss(name: str, num_classes: int | None) -> Loss:
    """The loss of that name, with a check that it fits the number of classes (None: targets are numbers)."""
    checks.one_of("loss", name, LOSSES)
    if name != "squared" and num_classes is None:
        raise ValueError(f"num_classes must be given with loss={name!r}, got None.")
    if name == "logistic" and num_classes != 2:
        raise ValueError(f"num_classes must be 2 with loss='logistic', got {num_classes!r}; use loss='softmax'.")
    return LOSSES[name]


LINKS = ["softmax", "logistic", "clipped"]
# Estimates of least squares may be negative; they are clipped here, and log p stays finite.
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


DEFAULTS = {  # criteria and the default of their parameter, None for those without one
    "ce": None,
    "ent": None,
    "err": None,
    "perplexity": None,
    "erll": 1.0,
    "capped": 0.1,
    "topk": 0.9,
    "mse": None,
}
MAX_EXPONENT = 700.0  # exp of more overflows float64


@dataclass(frozen=True)
class Criterion:
    """A criterion and its parameter, lower is better: one of

        ce             -mean log p(y|x)                    err         share of wrong arg-max
        ent            mean entropy of p(.|x)              perplexity  exp(ce)
        erll:beta      ce + beta ent (beta = 1)            capped:lam  -mean log(p(y|x) + lam)
        topk:fraction  ce over the fraction of rows (of their weight) with the highest p(y|x)
        mse            mean squared error (regression)

    Source: May 2018, Section 4.1.3; JMLR 2019, Section 5. What the thesis calls ERP is erll with beta = 1.

    >>> Criterion.parse("erll:0.5")
    Criterion(name='erll', parameter=0.5)
    """

    name: str
    parameter: float | None = None

    @classmethod
    def parse(cls, text: str) -> Criterion:
        name, _, value = text.partition(":")
        checks.one_of("criterion", name, DEFAULTS)
        if not value:
            return cls(name, DEFAULTS[name])
        if DEFAULTS[name] is None:
            raise ValueError(f"criterion {name!r} takes no parameter, got {text!r}.")
        try:
            parameter = checks.nonnegative_float(name, float(value))
        except ValueError as error:
            raise ValueError(f"criterion {text!r}: the parameter must be a non-negative number.") from error
        if name == "topk" and not 0 < parameter <= 1:
            raise ValueError(f"criterion {text!r}: the fraction must lie in (0, 1].")
        return cls(name, parameter)

    def of(self, rows: Scores) -> float:
        """The weighted mean over all rows."""
        parameter = self.parameter or 0.0
        match self.name:
            case "ent":
                values = rows.entropy
            case "err":
                values = rows.wrong
            case "erll":
                values = parameter * rows.entropy - rows.log_p
            case "capped":
                values = -torch.log(rows.log_p.exp() + parameter)
            case "topk":
                return _mean_of_best(rows.log_p, rows.weight, parameter)
            case "mse":
                values = rows.squared
            case _:
                values = -rows.log_p
        mean = float(values.mean() if rows.weight is None else (values * rows.weight).sum() / rows.weight.sum())
        return math.exp(min(MAX_EXPONENT, mean)) if self.name == "perplexity" else mean


class Scores(NamedTuple):
    """The values of each validation row that criteria need, in float64 on the CPU: a few numbers per row for any
    model."""

    log_p: Tensor
    entropy: Tensor
    wrong: Tensor
    squared: Tensor
    weight: Tensor | None = None

    @classmethod
    def of_batch(cls, loss: str, logits: Tensor, y: Tensor, weight: Tensor | None = None) -> Scores:
        logits = logits.detach().double()
        empty = torch.empty(0, dtype=torch.float64)
        weight = None if weight is None else weight.double().cpu()
        if loss == "squared":
            squared = (logits - y.reshape(logits.shape)).square().mean(dim=1)
            return cls(empty, empty, empty, squared.cpu(), weight)
        if loss == "logistic":
            logits = torch.cat([torch.zeros_like(logits), logits], dim=1)
        logs = F.log_softmax(logits, dim=1)
        entropy = -(logs.exp() * logs).sum(dim=1)
        log_p = logs.gather(1, y[:, None]).squeeze(1)
        wrong = (logs.argmax(dim=1) != y).double()
        return cls(log_p.cpu(), entropy.cpu(), wrong.cpu(), empty, weight)

    @classmethod
    def join(cls, parts: list[Scores]) -> Scores:
        """The rows of all parts, in order."""
        columns = list(zip(*parts, strict=True))  # one tuple of tensors per field, of None for absent weights
        return cls(*(None if values[0] is None else torch.cat(values) for values in columns))  # type: ignore[arg-type]

    def summary(self) -> dict[str, float]:
        """Every criterion without a parameter, and erll with beta = 1."""
        names = ["mse"] if len(self.squared) else ["ce", "ent", "erll", "err", "perplexity"]
        return {name: Criterion(name, DEFAULTS[name]).of(self) for name in names}


def _mean_of_best(log_p: Tensor, weight: Tensor | None, fraction: float) -> float:
    """-mean of the highest log p: a whole number of rows, or as many as carry that fraction of the weight."""
    if weight is None:
        return float(-log_p.topk(max(1, round(fraction * len(log_p)))).values.mean())
    best, order = log_p.sort(descending=True)
    budget = fraction * weight.sum()
    before = weight[order].cumsum(dim=0) - weight[order]
    kept = torch.minimum(weight[order], (budget - before).clamp_min(0))  # the last row may count in part
    return float(-(best * kept).sum() / budget)
