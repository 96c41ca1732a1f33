"""Rounds of random feature selection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Generator, Tensor

from benchmarks.report import Row
from benchmarks.step_contenders import Plain
from benchmarks.step_problem import TIMIT, Problem, make_problem
from benchmarks.suite.race import PLAIN, race
from benchmarks.suite.sizes import Sizes
from bochner.adaptation.selection import select_features
from bochner.data import ArraySource
from bochner.features import FourierMap
from bochner.features.projections import DenseProjection
from bochner.kernels import Gaussian
from bochner.models.heads import LinearHead
from bochner.solvers.optimizers import SGDSettings


def rows(sizes: Sizes) -> Iterator[Row]:
    shape = TIMIT.with_features(sizes.prediction_features)
    problem = make_problem(shape, num_rows=sizes.selection_rows, device=sizes.device)
    table = (
        f"Selection, {sizes.selection_rounds} rounds of {sizes.selection_rows:,} rows: d {shape.num_inputs}, "
        f"D {shape.num_features:,}, C {shape.num_classes}, batch {shape.batch_size}"
    )
    ours = {"select_features": lambda: ours_selected(problem, sizes.selection_rounds)}
    plain = {PLAIN: lambda: plainly_selected(problem, sizes.selection_rounds)}
    yield from race(table, ours, plain, sizes, note="The last round only draws, in both.")


def ours_selected(problem: Problem, rounds: int) -> FourierMap:
    shape = problem.shape

    def draw(count: int, generator: Generator) -> FourierMap:
        W, b = _drawn(problem, count, generator)
        return FourierMap(Gaussian(), DenseProjection(W), b)

    def head(count: int, generator: Generator) -> LinearHead:
        return LinearHead.zeros(num_features=count, num_outputs=shape.num_classes).to(problem.X.device)

    return select_features(
        draw,
        head,
        ArraySource(problem.X, problem.y),
        SGDSettings(learning_rate=shape.rate, batch_size=shape.batch_size),
        num_features=shape.num_features,
        rounds=rounds,
        rows_per_round=len(problem.X),
        generator=_generator(problem),
        verbose=False,
    ).feature_map


def plainly_selected(problem: Problem, rounds: int) -> tuple[Tensor, Tensor]:
    """A straightforward implementation: in every round a pass of plain SGD, then the largest rows of the weights."""
    D, generator = problem.shape.num_features, _generator(problem)
    W, b = _drawn(problem, D, generator)
    for t in range(1, rounds):
        learner = Plain(replace(problem, W=W, b=b), torch.float32)
        order = torch.randperm(len(problem.X), generator=generator, device=problem.X.device)
        learner.take(problem.X[order], problem.y[order])
        keep = learner.head[0].norm(dim=0).topk(D * t // rounds).indices
        fresh, phases = _drawn(problem, D - len(keep), generator)
        W, b = torch.cat([W[:, keep], fresh], dim=1), torch.cat([b[keep], phases])
    return W, b


def _drawn(problem: Problem, count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    d, device = problem.shape.num_inputs, problem.X.device
    W = torch.randn(d, count, generator=generator, device=device).div_((2 * d) ** 0.5)
    return W, torch.rand(count, generator=generator, device=device) * (2 * torch.pi)


def _generator(problem: Problem) -> Generator:
    return Generator(problem.X.device).manual_seed(0)
