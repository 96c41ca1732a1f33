"""From model settings and labelled frames to a trained model, by the common assembly of `bochner.search`."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bochner import checks
from bochner.acoustic.fitted import MODULE, Trained
from bochner.acoustic.settings import KernelSettings, ModelSettings
from bochner.data.batches import in_order
from bochner.data.blocks import Source
from bochner.search import (
    AdaptParams,
    KernelPlan,
    NetworkPlan,
    SelectionParams,
    SolverParams,
    Task,
    fit_model,
    make_task,
)
from bochner.search.kernel import choose_kernel
from bochner.search.memory import MemoryPlan

CHECKPOINT = "checkpoint"
ROWS_AT_ONCE = 4096
# One round: the metric of a second round no longer distinguishes rare states.
METRIC = AdaptParams(method="agop", rounds=1, num_landmarks=1024, num_rows=2**15)
# Frames have hundreds of inputs; the papers' dense frequencies are what the fused GPU steps are made for.
PROJECTIONS = {"gaussian": "orthogonal", "laplacian": "iid", "sparse-gaussian": "sparse"}
PRECONDITIONER_ROWS = 2048


def train_model(
    settings: ModelSettings,
    train: Source,
    heldout: Source,
    *,
    num_states: int,
    seed: int,
    folder: Path | None = None,
    device: str = "cpu",
    progress: bool = False,
) -> Trained:
    """Fit the model of `settings` on `train`; all choices (bandwidth, rate, when to stop) use `heldout` alone.

    Rows are X [N, d] with a state y in 0 .. num_states - 1. With a `folder` the model is stored there when it is
    finished, and the same call only reads it; a call that was stopped continues from the last checkpoint.

    >>> from bochner.data import ArraySource
    >>> X = torch.randn(400, 2, generator=torch.Generator().manual_seed(0))
    >>> rows = ArraySource(X, (X.norm(dim=1) > 1).long() + 2 * (X[:, 0] > 0))
    >>> small = KernelSettings(num_features=128, bandwidth=1.0, batch_size=32, max_epochs=5)
    >>> trained = train_model(small, rows, rows, num_states=4, seed=0)
    >>> trained.history[-1]["err"] < 0.2
    True
    """
    checks.positive_int("num_states", num_states)
    if folder is not None and (folder / MODULE).exists():
        return Trained.load(folder, device=device)
    plan = model_plan(settings, device=device, checkpoint_dir=None if folder is None else folder / CHECKPOINT)
    task = frame_task(plan, train, heldout, num_states=num_states, seed=seed)
    fitted = fit_model(plan, task, verbose=progress)
    trained = Trained(fitted.model, fitted.history, fitted.choices, fitted.selection)
    if folder is not None:
        trained.save(folder)
        shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)
    return trained


def tune_bandwidth(
    settings: KernelSettings, train: Source, heldout: Source, *, num_states: int, seed: int, device: str = "cpu"
) -> dict[str, Any]:
    """The bandwidth that `train_model` would choose, the median rule, and the losses of all that were tried."""
    plan = model_plan(settings, device=device, checkpoint_dir=None)
    assert isinstance(plan, KernelPlan)
    return choose_kernel(plan, frame_task(plan, train, heldout, num_states=num_states, seed=seed), MemoryPlan())[1]


def frame_task(plan: KernelPlan | NetworkPlan, train: Source, heldout: Source, *, num_states: int, seed: int) -> Task:
    """Frames and their states as a task; each state is counted once more, so that none is impossible."""
    counts = torch.ones(num_states, dtype=torch.float64)
    for block in in_order(train, batch_rows=ROWS_AT_ONCE):
        counts += torch.bincount(block.y.cpu(), minlength=num_states)
    shares = counts / counts.sum()
    shared: dict[str, Any] = {"num_classes": num_states, "seed": seed, "loss": "softmax", "mean": shares}
    return make_task(train, heldout, train, params=plan.params, **shared)


def model_plan(settings: ModelSettings, *, device: str, checkpoint_dir: Path | None) -> KernelPlan | NetworkPlan:
    """Model settings of a recipe as a plan."""
    shared = SolverParams(
        device=device,
        precision=settings.precision,
        max_epochs=settings.max_epochs,
        rank=settings.rank,
        learning_rate=settings.learning_rate,
        batch_size=settings.batch_size,
        preconditioner_rank=0,
        preconditioner_rows=PRECONDITIONER_ROWS,
        average=False,
        criterion=settings.criterion,
        improvement=settings.improvement,
        max_halvings=settings.max_halvings,
        checkpoint_dir=checkpoint_dir,
    )
    if not isinstance(settings, KernelSettings):
        return NetworkPlan(
            hidden=settings.hidden,
            activation=settings.activation,
            pretrain=settings.pretrain,
            standardize=False,  # frames are normalised already
            params=replace(shared, optimizer=settings.optimizer),
        )
    adapt = METRIC if settings.adapt == "agop" else settings.adapt and AdaptParams(method=settings.adapt)
    selection = settings.selection and SelectionParams(
        rounds=settings.selection.rounds, rows_per_round=settings.selection.rows_per_round
    )
    return KernelPlan(
        kernel=settings.kernel,
        bandwidth="search" if settings.bandwidth is None else settings.bandwidth,
        n_components=settings.num_features,
        adapt=adapt or None,
        selection=selection or None,
        solver="sgd",
        params=replace(
            shared,
            preconditioner_rank=settings.preconditioner_rank,
            average=settings.average,
            projection=PROJECTIONS.get(settings.kernel, "auto"),
        ),
    )
