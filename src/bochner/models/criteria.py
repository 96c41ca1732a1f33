"""Heldout metrics, any of which may drive the learning rate."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from bochner import checks

DEFAULTS = {
    "ce": None,
    "ent": None,
    "err": None,
    "perplexity": None,
    "erll": 1.0,
    "capped": 0.1,
    "topk": 0.9,
    "mse": None,
}


@dataclass(frozen=True)
class Criterion:
    """A metric and its parameter, lower is better: one of

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
        """The metric over all rows seen."""
        match self.name:
            case "ce":
                return rows.mean(-rows.log_p)
            case "ent":
                return rows.mean(rows.entropy)
            case "err":
                return rows.mean(rows.wrong)
            case "perplexity":
                return math.exp(min(700.0, rows.mean(-rows.log_p)))
            case "erll":
                return rows.mean(self._parameter * rows.entropy - rows.log_p)
            case "capped":
                return rows.mean(-torch.log(rows.log_p.exp() + self._parameter))
            case "topk":
                return _mean_of_best(rows.log_p, rows.weight, self._parameter)
            case _:
                return rows.mean(rows.squared)

    @property
    def _parameter(self) -> float:
        assert self.parameter is not None
        return self.parameter


@dataclass
class Scores:
    """What metrics need to know of each heldout row: a few float64 numbers a row, kept over batches."""

    log_p: Tensor
    entropy: Tensor
    wrong: Tensor
    squared: Tensor
    weight: Tensor | None = None

    def mean(self, values: Tensor) -> float:
        if self.weight is None:
            return float(values.mean())
        return float((values * self.weight).sum() / self.weight.sum())

    @classmethod
    def of_batch(cls, loss: str, logits: Tensor, y: Tensor, weight: Tensor | None = None) -> Scores:
        logits = logits.detach().double()
        empty = logits.new_empty(0)
        kept = None if weight is None else weight.double().cpu()
        if loss == "squared":
            squared = (logits - y.reshape(logits.shape)).square().mean(dim=1)
            return cls(empty, empty, empty, squared.cpu(), kept)
        if loss == "logistic":
            logits = torch.cat([torch.zeros_like(logits), logits], dim=1)
        logs = F.log_softmax(logits, dim=1)
        entropy = -(logs.exp() * logs).sum(dim=1)
        log_p = logs.gather(1, y[:, None]).squeeze(1)
        wrong = (logs.argmax(dim=1) != y).double()
        return cls(log_p.cpu(), entropy.cpu(), wrong.cpu(), empty.cpu(), kept)

    @classmethod
    def join(cls, parts: list[Scores]) -> Scores:
        weights = [part.weight for part in parts if part.weight is not None]
        return cls(
            torch.cat([part.log_p for part in parts]),
            torch.cat([part.entropy for part in parts]),
            torch.cat([part.wrong for part in parts]),
            torch.cat([part.squared for part in parts]),
            torch.cat(weights) if weights else None,
        )

    def summary(self) -> dict[str, float]:
        """Every metric without a parameter of its own, and erll with beta = 1."""
        if len(self.squared):
            return {"mse": Criterion("mse").of(self)}
        return {name: Criterion.parse(name).of(self) for name in ("ce", "ent", "erll", "err", "perplexity")}


def _mean_of_best(log_p: Tensor, weight: Tensor | None, fraction: float) -> float:
    """-mean of the highest log p: a whole number of rows, or with weights so many that theirs is that fraction."""
    if weight is None:
        return float(-log_p.topk(max(1, round(fraction * len(log_p)))).values.mean())
    best, order = log_p.sort(descending=True)
    budget = fraction * weight.sum()
    before = weight[order].cumsum(dim=0) - weight[order]
    kept = torch.minimum(weight[order], (budget - before).clamp_min(0))  # the last row may count in part
    return float(-(best * kept).sum() / budget)
