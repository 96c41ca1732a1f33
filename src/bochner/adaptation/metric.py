"""A metric on the inputs, learned from the gradients of fitted models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor, nn

from bochner import checks
from bochner.data.batches import in_order
from bochner.data.blocks import Block, BlockSource, Source, sample_rows
from bochner.kernels import Stationary
from bochner.kernels.stationary import RULE_POINTS
from bochner.models.landmarks import LandmarkModel
from bochner.ops import TILE_ELEMENTS, accurate_squared_distances, row_tiles, tile_size
from bochner.solvers.checkpoint import read_checkpoint, readable, write_checkpoint
from bochner.storage import pack, unpack

FILE_NAME = "metric.safetensors"
ROWS_AT_ONCE = 256  # the graph of their features is kept for all probes: 256 D numbers per layer
LANDMARK_ROWS = 512  # of a landmark model, whose gradients are products


def gradient_outer_product(
    model: nn.Module,
    source: Source,
    *,
    num_rows: int = 8192,
    num_probes: int = 16,
    generator: Generator,
) -> Tensor:
    """Estimate M = E_x(sum_c g_c(x) g_c(x)^T), of shape [d, d], from the gradients g_c of the C scores of `model`.

    x . M x is large along directions in which the scores change and 0 along those they do not depend on. The mean, in
    float64, is over `num_rows` random rows. Up to `num_probes` scores are differentiated separately; for more,
    `num_probes` vectors s of random signs give gradients of s . f(x), and E[g g^T] over signs is the same sum. Time: 2
    min(C, num_probes) evaluations of those rows; memory: the features of 256 rows. The gradients of a landmark model
    whose kernel is a function of the Euclidean distance are products with a matrix like k(x, landmarks), of which a
    tile exists at a time. Source: Radhakrishnan et al. 2024 (the average gradient outer product of recursive feature
    machines).

    >>> from bochner.data import ArraySource
    >>> X = torch.randn(100, 2, generator=Generator().manual_seed(0))
    >>> linear = nn.Linear(2, 1)
    >>> _ = linear.weight.data.copy_(torch.tensor([[3.0, 0.0]]))
    >>> gradient_outer_product(linear, ArraySource(X, torch.zeros(100)), generator=Generator().manual_seed(0))
    tensor([[9., 0.],
            [0., 0.]], dtype=torch.float64)
    """
    sample = sample_rows(source, num_rows, generator=generator)
    if isinstance(model, LandmarkModel) and (radial := model.kernel.radial) is not None and radial.norm == 2:
        total = _landmark_sum(model, sample.X, num_probes, generator)
    else:
        total = _autograd_sum(model, sample, num_probes, generator)
    return total.cpu() / len(sample.X)


def _autograd_sum(model: nn.Module, sample: Block, num_probes: int, generator: Generator) -> Tensor:
    M = torch.zeros(sample.X.shape[1], sample.X.shape[1], dtype=torch.float64, device=sample.X.device)
    for block in in_order(BlockSource(sample), batch_rows=ROWS_AT_ONCE):
        X = block.X.requires_grad_()
        scores = model(X)
        for probe in _probes(scores.shape[1], num_probes, generator).to(scores):
            (gradient,) = torch.autograd.grad((scores @ probe).sum(), X, retain_graph=True)
            M += (gradient.T @ gradient).double()
    return M


def _landmark_sum(model: LandmarkModel, X: Tensor, num_probes: int, generator: Generator) -> Tensor:
    """The same for f(x) = sum_j k(u, v_j) a_j, u and v_j the prepared inputs: with g from `Kernel.slopes` and w = a s,
    the gradient of s . f by u is sum_j g_j w_j v_j - u sum_j g_j w_j. O(n m (d + q d)); no array [n, m].
    """
    kernel, V = model.kernel, model.kernel.prepare(model.landmarks)
    (m, d), center = V.shape, V.mean(dim=0)  # about which gradients are computed: they are differences
    V = V - center
    limit = tile_size(TILE_ELEMENTS, V.device)
    M = torch.zeros(d, d, dtype=torch.float64, device=V.device)
    for rows in X.split(LANDMARK_ROWS):
        U = kernel.prepare(rows.to(model.landmarks)) - center
        weights = model.coefficients @ _probes(model.coefficients.shape[1], num_probes, generator).to(V).T
        for tile in row_tiles(len(U), row_elements=4 * m, tile_elements=limit):
            slopes = kernel.slopes(U[tile], V)
            sums = slopes @ weights
            for probes in row_tiles(weights.shape[1], row_elements=m * d, tile_elements=limit):
                W = weights[:, probes]
                G = (slopes @ (W[:, :, None] * V[:, None, :]).flatten(1)).view(-1, W.shape[1], d)
                G = (G - sums[:, probes, None] * U[tile, None, :]).flatten(0, 1)
                M += (G.T @ G).double()
    return kernel.fold(kernel.fold(M).T)


def _probes(num_scores: int, num_probes: int, generator: Generator) -> Tensor:
    """Vectors s [q, C] with E[s^T s] summing to the identity: the unit vectors, or random signs / sqrt(q)."""
    if num_scores <= num_probes:
        return torch.eye(num_scores)
    signs = torch.randint(2, (num_probes, num_scores), generator=generator, device=generator.device) * 2 - 1
    return signs / num_probes**0.5


@dataclass(frozen=True)
class MetricRound:
    """A kernel and the validation loss of the model fitted with it."""

    kernel: Stationary
    loss: float


def learn_metric(
    kernel: Stationary,
    source: Source,
    fit: Callable[[Stationary], nn.Module],
    evaluate: Callable[[nn.Module], float],
    *,
    rounds: int = 4,
    num_rows: int = 8192,
    generator: Generator,
    checkpoint_dir: Path | None = None,
    fingerprint: Mapping[str, Any] | None = None,
) -> list[MetricRound]:
    """Kernels k(M^{1/2} x, M^{1/2} y), each with the metric M of the model fitted with the previous one.

    A round fits a model with the current kernel, `fit(kernel)`, whose output must be differentiable in its inputs;
    computes its validation loss, `evaluate(model)`; and sets M to the average gradient outer product (AGOP) of the
    model over `source` (see `gradient_outer_product`). M is scaled to keep the median distance, so that the same
    bandwidth applies. The first round uses the given kernel, whose scale becomes part of the metric. The rounds end
    early when the loss rises. Cost: `rounds` + 1 fits. Source: Radhakrishnan et al. 2024 (recursive feature machines).

    With a `checkpoint_dir`, the same call resumes after the last complete round; `fingerprint` identifies everything
    besides the kernel on which the rounds depend.
    """
    checks.positive_int("rounds", rounds)
    points = sample_rows(source, RULE_POINTS, generator=generator).X.cpu()
    typical = _median(kernel.prepare(points))
    tried: list[MetricRound] = []
    inputs = {**(fingerprint or {}), "start": repr(kernel), "rounds": rounds, "rows": num_rows}
    stored = None if checkpoint_dir is None else read_checkpoint(checkpoint_dir, inputs, name=FILE_NAME)
    if checkpoint_dir is not None and stored is not None:
        with readable(checkpoint_dir):
            tried, kernel = _restored(*stored, generator)
    while len(tried) <= rounds:
        model = fit(kernel)
        tried.append(MetricRound(kernel, evaluate(model)))
        if len(tried) > rounds or (len(tried) > 1 and not tried[-1].loss < tried[-2].loss):
            break
        M = gradient_outer_product(model, source, num_rows=num_rows, generator=generator)
        if not M.trace() > 0:  # the model is constant
            break
        kernel = _with_metric(kernel, M / M.trace(), points, typical)
        if checkpoint_dir is not None:
            tensors = {"generator": generator.get_state()}
            trees = [pack(k, f"kernel{i}", tensors) for i, k in enumerate([*(t.kernel for t in tried), kernel])]
            state = {"fingerprint": inputs, "kernels": trees, "losses": [t.loss for t in tried]}
            write_checkpoint(checkpoint_dir, tensors, state, name=FILE_NAME)
    return tried


def _restored(
    tensors: Mapping[str, Tensor], state: Mapping[str, Any], generator: Generator
) -> tuple[list[MetricRound], Stationary]:
    """The rounds of a checkpoint and the kernel of the next one; also restores the state of the generator."""
    kernels = [unpack(tree, tensors) for tree in state["kernels"]]
    if not all(isinstance(kernel, Stationary) for kernel in kernels):
        raise TypeError(f"kernels must be stationary, got {kernels}")
    tried = [MetricRound(kernel, float(loss)) for kernel, loss in zip(kernels[:-1], state["losses"], strict=True)]
    generator.set_state(tensors["generator"])
    return tried, kernels[-1]


def _with_metric(kernel: Stationary, M: Tensor, points: Tensor, typical: float) -> Stationary:
    M = (M + M.T) / 2
    unscaled = kernel.replace(scale=None, metric=M)
    return kernel.replace(scale=None, metric=M * (typical / _median(unscaled.prepare(points))) ** 2)


def _median(points: Tensor) -> float:
    """The median distance between points [n, d] that differ."""
    points = points.double()
    squares = accurate_squared_distances(points, points).triu_(1)  # one product, a third of the time of pdist
    squares = squares.masked_select(squares > 0)  # half the time of squares[squares > 0]
    if len(squares) == 0:
        raise ValueError("source must contain different rows to learn a metric, got identical rows only.")
    middle = (len(squares) - 1) // 2
    return float(np.partition(squares.numpy(), middle)[middle] ** 0.5)  # a fifth of the time of torch.median
