"""Fitting rows that arrive a few at a time: one pass of minibatch steps for each call of `partial_fit`."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial

import torch
from torch import Generator

from bochner.data.batches import batches
from bochner.data.blocks import BlockSource, MappedSource, Source, num_rows
from bochner.kernels import Kernel
from bochner.models.heads import FeatureModel
from bochner.models.losses import Criterion
from bochner.search.kernel import choose_features, choose_kernel, start_head
from bochner.search.memory import MemoryPlan
from bochner.search.plan import KernelPlan, Task, move_block
from bochner.solvers.learning_rate import START
from bochner.solvers.optimizers import make_optimizer
from bochner.solvers.preconditioner import fit_preconditioner
from bochner.solvers.sgd import DIVERGED
from bochner.solvers.step import compute_precision, evaluate, take_step


def start_online(plan: KernelPlan, task: Task, *, generator: Generator) -> tuple[FeatureModel, Kernel]:
    """A model with kernel and features for the first rows.

    Its bias is 0 for classes, of which others may come, and the mean of the first targets for numbers.
    """
    kernel, _ = choose_kernel(plan, task, MemoryPlan())
    (z,), _ = choose_features(kernel, plan, task, verbose=False, group=None)
    outputs = 1 if task.loss == "logistic" else len(task.mean)
    bias = task.mean if task.loss == "squared" else torch.zeros(outputs)
    model = FeatureModel(z, start_head(z.num_features, z.dtype, bias, plan.params.rank, generator)).to(task.device)
    return model, kernel


def step_online(model: FeatureModel, plan: KernelPlan, source: Source, *, loss: str) -> None:
    """One epoch of minibatch steps over `source`, in place.

    The preconditioner is that of these rows. A learning rate of "auto" is the inverse of the largest curvature that
    the preconditioner leaves, for which no validation rows are needed. If the steps diverge, they are undone and an
    error is raised.
    """
    rows, like = num_rows(source), model.head.bias
    source = MappedSource(source, partial(move_block, device=like.device, dtype=like.dtype))
    settings = plan.params.sgd_settings(loss, alpha=plan.alpha or 0.0, num_rows=rows, seed=0)
    batch_size = min(settings.batch_size, rows)
    settings = replace(settings, batch_size=batch_size)
    preconditioner = fit_preconditioner(model, source, settings)
    rate = settings.learning_rate
    if isinstance(rate, str):
        rate = START[settings.optimizer] if preconditioner is None else preconditioner.rate
    optimizer = make_optimizer(model, settings, rate)
    criterion, before = Criterion("mse" if loss == "squared" else "ce"), copy.deepcopy(model.head.state_dict())
    first = BlockSource(next(batches(source, batch_size=batch_size, seed=0, epoch=0)))
    with compute_precision(settings.precision, like.device):
        initial = criterion.of(evaluate(model, first, loss=loss))
        for block in batches(source, batch_size=batch_size, seed=0, epoch=0):
            take_step(model, optimizer, block, settings, preconditioner)
        last = criterion.of(evaluate(model, first, loss=loss))
    if not last < DIVERGED * max(1.0, initial):
        model.head.load_state_dict(before)
        raise FloatingPointError(
            f"partial_fit diverged with learning_rate={rate:.3g}: the {criterion.name} of the first batch went from "
            f"{initial:.3g} to {last:.3g}. Its steps are undone; give a smaller learning_rate, or 'auto'."
        )
