"""The same SGD by plain torch, by the training loop and by the fused superbatches."""

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
from bochner.learn.heads import BottleneckHead, LinearHead
from bochner.learn.model import FeatureModel
from bochner.ops import cosine_features, descend_bottleneck, descend_linear
from bochner.train.fused import fused_steps
from bochner.train.optimizers import make_optimizer
from bochner.train.recipe import Recipe
from bochner.train.step import take_step

ALIGNED = 16


class Contender(Protocol):
    """`take(rows)` makes the steps of those rows; `head` is what it has learned, in float32."""

    head: list[Tensor]

    def take(self, X: Tensor, y: Tensor) -> None: ...


class Plain:
    """What one would write: products in `dtype`, weights in float32, a minibatch a step."""

    def __init__(self, problem: Problem, dtype: torch.dtype, *, compiled: bool = False) -> None:
        shape = problem.shape
        self.head = [part.clone() for part in problem.head]
        self.W, self.b, self.dtype = problem.W.to(dtype), problem.b.to(dtype), dtype
        self.amplitude, self.rate, self.batch_size = shape.amplitude, shape.rate, shape.batch_size
        step = self._linear if shape.rank is None else self._bottleneck
        self._step: Callable[..., None] = torch.compile(step) if compiled else step

    def take(self, X: Tensor, y: Tensor) -> None:
        for rows in range(0, len(X), self.batch_size):
            self._step(X[rows : rows + self.batch_size], y[rows : rows + self.batch_size], *self.head)

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


class Ours:
    """Features of all the rows it is given at once, then superbatches of `minibatches`."""

    def __init__(self, problem: Problem, dtype: torch.dtype, *, minibatches: int) -> None:
        shape = problem.shape
        self.head = [part.clone() for part in problem.head]
        self.W, self.b = problem.W.to(dtype), problem.b
        short = dtype != torch.float32  # products of float32 read the weights themselves
        self.copies = [padded(part, dtype) for part in self.head[:-1]] if short else []
        self.amplitude, self.rate, self.batch_size = shape.amplitude, shape.rate, shape.batch_size
        self.rows = minibatches * shape.batch_size
        self.Z: Tensor | None = None

    def take(self, X: Tensor, y: Tensor) -> None:
        if self.Z is None or len(self.Z) != len(X):
            self.Z = X.new_empty(len(X), self.W.shape[1])
        Z = cosine_features(X, self.W, self.b, amplitude=self.amplitude, out=self.Z)
        for start in range(0, len(X), self.rows):
            rows = slice(start, start + self.rows)
            self._descend(Z[rows], y[rows])

    def _descend(self, Z: Tensor, y: Tensor) -> None:
        settings = {"rate": self.rate, "batch_size": self.batch_size}
        if len(self.head) == 2:
            descend_linear(*self.head, Z, y, copy=self.copies[0] if self.copies else None, **settings)
        else:
            copies = (self.copies[0], self.copies[1]) if self.copies else None
            descend_bottleneck(*self.head, Z, y, copies=copies, **settings)


class Trained:
    """What the training loop does with a minibatch."""

    def __init__(self, problem: Problem) -> None:
        shape = problem.shape
        factors = [part.clone() for part in problem.head]
        head = LinearHead(*factors) if shape.rank is None else BottleneckHead(*factors)
        z = FourierMap(Gaussian(), DenseProjection(problem.W), problem.b)
        self.model, self.head = FeatureModel(z, head), [part.detach() for part in head.parameters()]
        self.recipe = Recipe(learning_rate=shape.rate, batch_size=shape.batch_size)
        self.optimizer = make_optimizer(self.model, self.recipe, shape.rate)
        self.fused = fused_steps(self.model, self.recipe)

    def take(self, X: Tensor, y: Tensor) -> None:
        size = self.recipe.batch_size if self.fused is None else self.fused.rows
        for block in map(Block, X.split(size), y.split(size)):
            if self.fused is None:
                take_step(self.model, self.optimizer, block, self.recipe)
            else:
                self.fused.take(block, rate=self.recipe.learning_rate)


class Replayed:
    """A contender whose work on so many rows is captured once as a CUDA graph and replayed."""

    def __init__(self, contender: Contender, X: Tensor, y: Tensor) -> None:
        self.head, self._X, self._y = contender.head, X.clone(), y.clone()
        before = [part.clone() for part in self.head]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # compiled and allocated before the capture
            contender.take(self._X, self._y)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            contender.take(self._X, self._y)
        for part, start in zip(self.head, before, strict=True):
            part.copy_(start)
        for part, copy in zip(self.head, getattr(contender, "copies", []), strict=False):
            copy[: len(part)].copy_(part)

    def take(self, X: Tensor, y: Tensor) -> None:
        self._X.copy_(X)
        self._y.copy_(y)
        self._graph.replay()


@contextmanager
def tf32(allowed: bool):
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def heldout_ce(problem: Problem, head: list[Tensor], rows: slice) -> float:
    """In float32, whatever the training ran in."""
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
