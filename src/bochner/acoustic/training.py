"""From settings and labelled rows to a trained model."""

from __future__ import annotations

import shutil
from pathlib import Path

from bochner import checks
from bochner.acoustic.fitted import MODULE, Trained
from bochner.acoustic.kernel import fit_kernel
from bochner.acoustic.network import fit_network
from bochner.acoustic.settings import KernelSettings, ModelSettings
from bochner.acoustic.task import Task
from bochner.data.blocks import Source
from bochner.speech.pipeline.steps import Say, silent

CHECKPOINT = "checkpoint"


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
    say: Say = silent,
) -> Trained:
    """The model of `settings`, fitted on `train`; all choices (bandwidth, rate, when to stop) look at `heldout` alone.

    Rows are X [N, d] with a state y in 0 .. num_states - 1. With a `folder` the model is kept there when it is
    finished, and the same call only reads it; stopped, the same call goes on from the last checkpoint.

    >>> import torch
    >>> from bochner.data import ArraySource
    >>> from bochner.acoustic.settings import KernelSettings
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
    checkpoint = None if folder is None else folder / CHECKPOINT
    task = Task(train, heldout, num_states, seed, checkpoint, device, progress, say)
    found = fit_kernel(settings, task) if isinstance(settings, KernelSettings) else fit_network(settings, task)
    if folder is not None:
        found.save(folder)
        shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)
    return found
