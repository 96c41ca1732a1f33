"""Rows that arrive a few at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor, nn

from bochner.data import MappedSource
from bochner.data.batches import batches
from bochner.data.blocks import Source, seeded
from bochner.estimators.arrays import as_tensor, checked_weights, make_generator, resolve_device
from bochner.estimators.machine import KernelMachine, Moved, resolves
from bochner.models.heads import FeatureModel
from bochner.search.fit import bias_of, loss_for, start_head
from bochner.solvers.learning_rate import START
from bochner.solvers.optimizers import make_optimizer
from bochner.solvers.preconditioner import fit_preconditioner
from bochner.solvers.step import compute_precision, take_step


def can_step(machine: KernelMachine) -> bool:
    """Whether `partial_fit` exists: only weights on one map of features can go on from where they are."""
    if machine.solver not in ("auto", "sgd") or machine.num_blocks != 1:
        raise ValueError(
            f"partial_fit needs solver 'auto' or 'sgd' and num_blocks=1, got {machine.solver!r} and "
            f"{machine.num_blocks}; use fit."
        )
    if machine.adapt is not None:
        raise ValueError(f"partial_fit cannot learn a metric, adapt must be None, got {machine.adapt!r}; use fit.")
    if hasattr(machine, "model_") and not isinstance(machine.model_, FeatureModel):
        raise ValueError(f"partial_fit cannot go on from a fit with solver_={machine.solver_!r}; use solver='sgd'.")
    return True


def step_through(machine: KernelMachine, X: Any, y: Tensor, sample_weight: Any, *, num_classes: int | None) -> None:
    """One epoch of minibatch steps over X [n, d] and y; the first call draws the features.

    The preconditioner is that of these rows. A rate of "auto" is the inverse of the curvature it leaves, which does not
    wait for heldout rows; weights count as they are given.
    """
    generator = make_generator(machine.random_state)
    rows = machine._permuted(X, y, _weights(sample_weight, len(y)), torch.randperm(len(y), generator=generator))
    machine.solver_ = "sgd"
    plan = machine._plan(rows, y[:1].numel() if num_classes is None else num_classes)
    if not hasattr(machine, "model_"):
        machine.model_ = _new_model(machine, rows, y, num_classes, generator)
    like = bias_of(machine.model_)
    source = MappedSource(rows, Moved(like.device, like.dtype))
    recipe = machine._recipe(loss_for(num_classes), plan, seed=0, batch_size=min(machine.batch_size, len(y)))
    preconditioner = fit_preconditioner(machine.model_, source, recipe)
    rate = recipe.learning_rate
    if isinstance(rate, str):
        rate = START[recipe.optimizer] if preconditioner is None else preconditioner.rate
    optimizer = make_optimizer(machine.model_, recipe, rate)
    with compute_precision(recipe.precision, like.device):
        for block in batches(source, batch_size=recipe.batch_size, seed=0, epoch=0):
            take_step(machine.model_, optimizer, block, recipe, preconditioner)


def _weights(sample_weight: Any, num_rows: int) -> Tensor | None:
    weight, _ = checked_weights(sample_weight, num_rows)
    return None if weight is None else as_tensor(np.asarray(sample_weight, dtype=np.float64)).expand(num_rows)


def _new_model(
    machine: KernelMachine, source: Source, y: Tensor, num_classes: int | None, generator: Generator
) -> nn.Module:
    """Weights at 0, and the bias: at 0 for classes, of which others may come, at the mean of the first numbers."""
    seed = generator.initial_seed()
    machine.kernel_, machine.history_ = machine._resolved_kernel(source, seeded(seed, "kernel")), []
    z = machine._draw_maps(source, seed)[0]
    columns = y.reshape(len(y), -1)
    mean = columns.mean(dim=0) if num_classes is None else None
    outputs = columns.shape[1] if num_classes is None else 1 if num_classes == 2 else num_classes
    model = FeatureModel(z, start_head(z, outputs, None, machine.rank, generator)).to(resolve_device(machine.device))
    if mean is not None:
        model = model if resolves(mean, columns.std(dim=0, correction=0)) else model.double()
        model.head.bias.data.copy_(mean)
    return model
