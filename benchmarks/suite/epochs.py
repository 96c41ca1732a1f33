"""A step of SGD in the papers' two shapes, and the resulting epoch."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from benchmarks.measure import Run
from benchmarks.report import Row
from benchmarks.step_contenders import Contender, Plain, Trained
from benchmarks.step_problem import BN50, TIMIT, Problem, Shape, make_problem
from benchmarks.suite.race import CEILING, PLAIN, race_with_ceiling
from benchmarks.suite.sizes import Sizes

SHARE = 0.7  # of the product's ceiling: the target for TIMIT's shape on a CPU


def rows(sizes: Sizes) -> Iterator[Row]:
    cases = [(TIMIT, batch_size, sizes.step_rows) for batch_size in sizes.batches]
    for shape, batch_size, num_rows in [*cases, (BN50, BN50.batch_size, sizes.wide_rows)]:
        shape = replace(shape, batch_size=batch_size)
        shape = shape if sizes.step_features is None else shape.with_features(sizes.step_features)
        yield from _shape_rows(make_problem(shape, num_rows=num_rows, device=sizes.device), sizes)


def _shape_rows(problem: Problem, sizes: Sizes) -> Iterator[Row]:
    shape = problem.shape
    steps, target = len(problem.X) // shape.batch_size, SHARE if shape.rank is None else None
    flops = steps * shape.flops
    found = race_with_ceiling(_title(shape, steps), _ours(problem), _plain(problem), sizes, flops=flops, target=target)
    for row in found:
        epoch = statistics.median(row.ours) * shape.steps / steps
        note = f"Such steps make an epoch of {shape.num_rows:,} rows in {epoch:,.0f} s."
        yield row if row.peer == CEILING else replace(row, note=note)


def _title(shape: Shape, steps: int) -> str:
    head = f"C {shape.num_classes:,}" if shape.rank is None else f"rank {shape.rank:,}, C {shape.num_classes:,}"
    size = f"d {shape.num_inputs}, D {shape.num_features:,}, {head}, batch {shape.batch_size:,}"
    return f"{steps} steps, {shape.name}: {size}"


def _ours(problem: Problem) -> dict[str, Run]:
    """The steps of `train`, on a GPU with bfloat16 products."""
    precision = "bf16" if problem.X.is_cuda else "float32"
    return {f"train, {precision}": _run(Trained(problem, precision), problem.X, problem)}


def _plain(problem: Problem) -> dict[str, Run]:
    found = {PLAIN: _run(Plain(problem, torch.float32), problem.X, problem)}
    if problem.X.is_cuda:
        found[f"{PLAIN}, bf16"] = _run(Plain(problem, torch.bfloat16), problem.X.bfloat16(), problem)
    return found


def _run(contender: Contender, X: Tensor, problem: Problem) -> Run:
    return lambda: contender.take(X, problem.y)
