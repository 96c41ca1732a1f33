"""The same SGD by plain torch and by the training loop."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.step_problem import Problem
from bochner.data.blocks import Block
from bochner.features import FourierMap
from bochner.features.projections import DenseProjection
from bochner.kernels import Gaussian
from bochner.models.heads import BottleneckHead, FeatureModel, LinearHead
from bochner.solvers.fused import FusedSteps, fused_steps
from bochner.solvers.optimizers import SGDSettings, make_optimizer
from bochner.solvers.step import take_step

ALIGNED = 16


class Contender(Protocol):
    """`take` makes the steps of the given rows, ideally `rows` at once; `head` holds the learned float32 weights."""

    head: list[Tensor]
    rows: int

    def take(self, X: Tensor, y: Tensor) -> None: ...


class Plain:
    """The obvious implementation: products in `dtype`, weights in float32, a minibatch per step."""

    def __init__(self, problem: Problem, dtype: torch.dtype, *, compiled: bool = False) -> None:
        shape = problem.shape
        self.head = [part.clone() for part in problem.head]
        self.W, self.b, self.dtype = problem.W.to(dtype), problem.b.to(dtype), dtype
        self.amplitude, self.rate, self.rows = shape.amplitude, shape.rate, shape.batch_size
        step = self._linear if shape.rank is None else self._bottleneck
        self._step: Callable[..., None] = torch.compile(step) if compiled else step

    def take(self, X: Tensor, y: Tensor) -> None:
        for part, targets in zip(X.split(self.rows), y.split(self.rows), strict=True):
            self._step(part, targets, *self.head)

    def _linear(self, X: Tensor, y: Tensor, weights: Tensor, bias: Tensor) -> None:
        Z = self.amplitude * torch.cos(X @ self.W + self.b)
        G = self._residual((Z @ weights.to(self.dtype).T).float() + bias, y)
        weights.sub_(G.to(self.dtype).T @ Z, alpha=self.rate)
        bias.sub_(G.sum(dim=0), alpha=self.rate)

    def _bottleneck(self, X: Tensor, y: Tensor, first: Tensor, second: Tensor, bias: Tensor) -> None:
        Z = self.amplitude * torch.cos(X @ self.W + self.b)
        hidden, short = Z @ first.to(self.dtype).T, second.to(self.dtype)
        G = self._residual((hidden @ short.T).float() + bias, y)
        g = G.to(self.dtype)
        derivative = g @ short
        second.sub_(g.T @ hidden, alpha=self.rate)
        first.sub_(derivative.T @ Z, alpha=self.rate)
        bias.sub_(G.sum(dim=0), alpha=self.rate)

    def _residual(self, scores: Tensor, y: Tensor) -> Tensor:
        return (scores.softmax(dim=1) - F.one_hot(y, scores.shape[1])) / len(y)


class Trained:
    """The steps of the training loop in `precision`, by default with its own number of minibatches at once."""

    def __init__(self, problem: Problem, precision: str = "float32", *, minibatches: int | None = None) -> None:
        shape = problem.shape
        factors = [part.clone() for part in problem.head]
        head = LinearHead(*factors) if shape.rank is None else BottleneckHead(*factors)
        z = FourierMap(Gaussian(), DenseProjection(problem.W), problem.b)
        self.model, self.head = FeatureModel(z, head), [part.detach() for part in head.parameters()]
        self.recipe = SGDSettings(learning_rate=shape.rate, batch_size=shape.batch_size, precision=precision)
        self.optimizer = make_optimizer(self.model, self.recipe, shape.rate)
        self.fused = fused_steps(self.model, self.recipe)
        if minibatches is not None and isinstance(self.fused, FusedSteps):
            self.fused.minibatches = minibatches
        self.rows = shape.batch_size if self.fused is None else self.fused.rows

    def take(self, X: Tensor, y: Tensor) -> None:
        for block in map(Block, X.split(self.rows), y.split(self.rows)):
            if self.fused is None:
                take_step(self.model, self.optimizer, block, self.recipe)
            else:
                self.fused.take(block, rate=self.recipe.learning_rate)


@contextmanager
def tf32(allowed: bool):
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def heldout_ce(problem: Problem, head: list[Tensor], rows: slice) -> float:
    """In float32, whatever the precision of training."""
    losses = []
    for X, y in zip(problem.X[rows].split(1024), problem.y[rows].split(1024), strict=True):
        Z = problem.shape.amplitude * torch.cos(X @ problem.W + problem.b)
        for factor in head[:-1]:
            Z = Z @ factor.T
        losses.append(F.cross_entropy(Z + head[-1], y, reduction="sum"))
    return float(torch.stack(losses).sum() / len(problem.y[rows]))


def padded(part: Tensor, dtype: torch.dtype) -> Tensor:
    """A short copy with zero rows below, so that products with it have aligned results."""
    copy = part.new_zeros(len(part) + -len(part) % ALIGNED, part.shape[1], dtype=dtype)
    copy[: len(part)].copy_(part)
    return copy
