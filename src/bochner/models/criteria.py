"""Validation criteria, any of which can drive the schedule of training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from bochner import checks

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
    """What criteria need of each validation row, in float64 on the CPU: a few numbers per row, whatever the model."""

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
        """The rows of all parts, one part after the other."""
        columns = list(zip(*parts, strict=True))  # one tuple of tensors per field, of None for absent weights
        return cls(*(None if values[0] is None else torch.cat(values) for values in columns))  # type: ignore[arg-type]

    def summary(self) -> dict[str, float]:
        """Every criterion without a parameter of its own, and erll with beta = 1."""
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
