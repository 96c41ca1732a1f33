"""Mean, spread and classes of the rows of a source, in one pass."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bochner.data.blocks import Source
from bochner.data.sources.labels import MOST_LABELS
from bochner.data.sources.rows import read_shard


class Statistics(NamedTuple):
    """Of N rows: `mean` [d] and `std` [d] in float64 (over N, not N - 1), `classes` [C] sorted.

    `classes` are integers (places in the labels, where y was text); None for floats and beyond 100,000 of them.
    """

    num_rows: int
    mean: Tensor
    std: Tensor
    classes: Tensor | None


def statistics(source: Source) -> Statistics:
    """One pass over the rows, a shard at a time.

    Two sets of n and m rows with means a, b and sums of squared deviations S, T have together the mean
    a + (b - a) m / (n + m) and the sum S + T + (b - a)^2 n m / (n + m): no cancellation,
    however far the mean lies from zero.
    O(N d) time, O(shard d) memory. Source: Chan, Golub and LeVeque, 1983.

    >>> from bochner.data.sources import ArraySource
    >>> statistics(ArraySource(torch.tensor([[1.0], [3.0]]), torch.tensor([7, 4])))
    Statistics(num_rows=2, mean=tensor([2.], dtype=torch.float64), std=tensor([1.], dtype=torch.float64),
        classes=tensor([4, 7]))
    """
    n, mean = 0, torch.zeros(source.num_inputs, dtype=torch.float64)
    squares = torch.zeros_like(mean)
    classes: Tensor | None = torch.empty(0, dtype=torch.int64)
    for shard, m in enumerate(source.shard_sizes):
        if not m:
            continue
        block = read_shard(source, shard)
        X = block.X.to(mean)
        shard_mean = X.mean(0)
        step = shard_mean - mean
        squares += (X - shard_mean).square().sum(0) + step.square() * (n * m / (n + m))
        mean += step * (m / (n + m))
        n += m
        is_label = not block.y.is_floating_point() and block.y.ndim == 1
        classes = torch.cat([classes, block.y.cpu()]).unique() if is_label and classes is not None else None
        if classes is not None and len(classes) > MOST_LABELS:
            classes = None
    return Statistics(n, mean, (squares / max(n, 1)).sqrt(), classes)
