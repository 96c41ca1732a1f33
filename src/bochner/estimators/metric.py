"""A kernel whose metric is learned from the rows, before anything else is fitted."""

from __future__ import annotations

from torch import Generator, nn

from bochner.data.sample import sample_rows
from bochner.data.sources import ArraySource
from bochner.estimators.memory import METRIC_ROWS
from bochner.estimators.solving import Task, fit_least_squares, heldout_loss
from bochner.kernels import Kernel, Stationary
from bochner.learn.metric import learn_metric


def adapted_kernel(
    kernel: Kernel, task: Task, *, rounds: int, num_landmarks: int, memory: int, generator: Generator
) -> Stationary:
    """`kernel` under the metric of least heldout loss; least squares on random landmarks is what metrics come from."""
    if not isinstance(kernel, Stationary):
        raise ValueError(f"adapt='agop' needs a kernel with a metric, such as Gaussian or Laplacian, got {kernel!r}.")
    rows = task.rows
    if sum(rows.shard_sizes) > METRIC_ROWS:
        rows = ArraySource(*sample_rows(rows, METRIC_ROWS, generator=generator))
    landmarks = sample_rows(rows, num_landmarks, generator=generator).X

    def fit(kernel: Stationary) -> nn.Module:
        return fit_least_squares(
            kernel, landmarks, rows, ridge=None, num_classes=task.num_classes, memory_budget=memory
        )

    def judge(model: nn.Module) -> float:
        return heldout_loss(model, task, "squared")

    tried = learn_metric(kernel, rows, fit, judge, rounds=rounds, generator=generator)
    return min(tried, key=lambda each: each.loss).kernel
