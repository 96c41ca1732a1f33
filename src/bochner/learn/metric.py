"""A metric on the inputs, learned from what a fitted model looks at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from bochner import checks
from bochner.data.blocks import Source
from bochner.data.sample import sample_rows
from bochner.kernels import Stationary
from bochner.kernels.stationary import RULE_POINTS
from bochner.learn.gradients import gradient_outer_product


@dataclass(frozen=True)
class MetricRound:
    """A kernel that was tried, and the heldout loss of the model under it."""

    kernel: Stationary
    loss: float


def learn_metric(
    kernel: Stationary,
    source: Source,
    fit: Callable[[Stationary], nn.Module],
    judge: Callable[[nn.Module], float],
    *,
    rounds: int = 4,
    num_rows: int = 8192,
    generator: Generator,
) -> list[MetricRound]:
    """Kernels k(M^{1/2} x, M^{1/2} y), each with the metric M that the model under the one before suggests.

    A round fits a model under the kernel so far, `fit(kernel)`, any learner with gradients in its inputs; takes the
    heldout loss `judge(model)`; and makes M the average gradient outer product of the model over `source` (see
    `gradient_outer_product`). M is scaled such that the median distance stays what it was, so that a bandwidth keeps
    its meaning. The first round has the kernel as it is given, and a scale in it becomes part of the metric. Rounds end
    early when the loss has risen. Cost: `rounds` + 1 fits. Source: Radhakrishnan et al. 2024 (recursive feature
    machines).
    """
    checks.positive_int("rounds", rounds)
    points = sample_rows(source, RULE_POINTS, generator=generator).X.cpu()
    typical = _median(kernel.prepare(points))
    tried: list[MetricRound] = []
    for _ in range(rounds + 1):
        model = fit(kernel)
        tried.append(MetricRound(kernel, judge(model)))
        if len(tried) > rounds or (len(tried) > 1 and not tried[-1].loss < tried[-2].loss):
            break
        M = gradient_outer_product(model, source, num_rows=num_rows, generator=generator)
        if not M.trace() > 0:  # a constant model looks at nothing
            break
        kernel = _with_metric(kernel, M / M.trace(), points, typical)
    return tried


def _with_metric(kernel: Stationary, M: Tensor, points: Tensor, typical: float) -> Stationary:
    M = (M + M.T) / 2
    found = kernel.replace(scale=None, metric=M)
    return kernel.replace(scale=None, metric=M * (typical / _median(found.prepare(points))) ** 2)


def _median(points: Tensor) -> float:
    """The median distance of pairs of points [n, d] that differ."""
    distances = torch.nn.functional.pdist(points.double())
    distances = distances[distances > 0]
    if len(distances) == 0:
        raise ValueError("rows must differ for a metric to be learned, got equal ones only.")
    return float(distances.median())
