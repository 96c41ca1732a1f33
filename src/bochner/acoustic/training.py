"""Training of acoustic models by `bochner.search`, and their scores on heldout frames."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bochner import checks
from bochner.acoustic.settings import KernelSettings, ModelSettings
from bochner.data.batches import in_order
from bochner.data.blocks import Source
from bochner.models.losses import Scores
from bochner.search import Task, fit_model, make_task
from bochner.search.kernel import choose_kernel
from bochner.search.memory import MemoryPlan
from bochner.solvers.step import rows_at_once
from bochner.stages import write_json
from bochner.storage import load, save

MODULE, HISTORY, CHOICES, SELECTION = "module.safetensors", "history.json", "choices.json", "selection.json"
CHECKPOINT = "checkpoint"
TILE_ROWS = 4096  # rows read at once to count states


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A module from rows [N, d] to logits [N, states], and the record of its training.

    `history` has one record per epoch with epoch, rate, and ce, ent, erll, err and perplexity on heldout. `choices` are
    those made on heldout, such as the bandwidth. `selection` has the survival rates of selected features, those by
    chance, and the relative weight of each input.
    """

    module: nn.Module
    history: list[dict[str, Any]]
    choices: dict[str, Any] = field(default_factory=dict)
    selection: dict[str, list[float]] | None = None

    def save(self, directory: Path) -> None:
        """Write all files; a directory with a module, which is written last, is complete."""
        write_json(directory / HISTORY, self.history)
        write_json(directory / CHOICES, self.choices)
        if self.selection is not None:
            write_json(directory / SELECTION, self.selection)
        save(self.module, directory / MODULE)

    @classmethod
    def load(cls, directory: Path, *, device: str = "cpu") -> TrainedModel:
        selection = json.loads((directory / SELECTION).read_bytes()) if (directory / SELECTION).exists() else None
        history, choices = (json.loads((directory / name).read_bytes()) for name in (HISTORY, CHOICES))
        return cls(load(directory / MODULE, device=device), history, choices, selection)


def train_model(
    settings: ModelSettings,
    train: Source,
    heldout: Source,
    *,
    num_states: int,
    seed: int,
    output_dir: Path | None = None,
    device: str = "cpu",
    verbose: bool = False,
) -> TrainedModel:
    """Fit the model of `settings` on `train`; bandwidth, learning rate and early stopping use `heldout` alone.

    Rows are X [N, d] with a state y in 0 .. num_states - 1. With an `output_dir` the finished model is stored there,
    and the same call then only reads it; after an interruption the same call continues from the last checkpoint.

    >>> from bochner.data import ArraySource
    >>> X = torch.randn(400, 2, generator=torch.Generator().manual_seed(0))
    >>> rows = ArraySource(X, (X.norm(dim=1) > 1).long() + 2 * (X[:, 0] > 0))
    >>> small = KernelSettings(num_features=128, bandwidth=1.0, batch_size=32, max_epochs=5)
    >>> trained = train_model(small, rows, rows, num_states=4, seed=0)
    >>> trained.history[-1]["err"] < 0.2
    True
    """
    if output_dir is not None and (output_dir / MODULE).exists():
        return TrainedModel.load(output_dir, device=device)
    plan = settings.plan(device=device, checkpoint_dir=None if output_dir is None else output_dir / CHECKPOINT)
    fitted = fit_model(plan, _task(settings, train, heldout, num_states, seed, device), verbose=verbose)
    bandwidth = getattr(fitted.kernel, "bandwidth", None)
    choices = fitted.choices if bandwidth is None else {"bandwidth": bandwidth, **fitted.choices}
    trained = TrainedModel(fitted.model, fitted.history, choices, fitted.selection)
    if output_dir is not None:
        trained.save(output_dir)
        shutil.rmtree(output_dir / CHECKPOINT, ignore_errors=True)
    return trained


def tune_bandwidth(
    settings: KernelSettings, train: Source, heldout: Source, *, num_states: int, seed: int, device: str = "cpu"
) -> dict[str, Any]:
    """The bandwidth that `train_model` chooses on heldout rows, with the loss of each multiple of the median rule."""
    task = _task(settings, train, heldout, num_states, seed, device)
    return choose_kernel(settings.plan(device=device), task, MemoryPlan())[1]


def _task(settings: ModelSettings, train: Source, heldout: Source, num_states: int, seed: int, device: str) -> Task:
    """The classification task; models start from the relative frequencies of the states."""
    counts = torch.ones(checks.positive_int("num_states", num_states), dtype=torch.float64)  # so that no frequency is 0
    for block in in_order(train, batch_rows=TILE_ROWS):
        counts += torch.bincount(block.y.cpu(), minlength=num_states)
    return make_task(
        train, heldout, train, num_classes=num_states, seed=seed, params=settings.plan(device=device).params,
        loss="softmax", mean=counts / counts.sum(),
    )  # fmt: skip


def frame_scores(module: nn.Module, rows: Source, *, silence_states: Collection[int] = ()) -> dict[str, float]:
    """ce, perplexity, ent, erll = ce + ent, err, and the perplexity with all silence states merged into one.

    Silence has many states that are easy to recognise, and the decoder does not distinguish them. With the states in
    `silence_states` merged, p(silence | x) is the sum of their posteriors. Source: May 2018, Section 4.1.

    >>> from bochner.data import ArraySource
    >>> scores = frame_scores(nn.Linear(1, 3), ArraySource(torch.ones(2, 1), torch.tensor([0, 1])))
    >>> sorted(scores)
    ['ce', 'ent', 'erll', 'err', 'perplexity', 'perplexity_silence_collapsed']
    """
    like = next(module.parameters())
    parts, merged = [], []
    with torch.no_grad():
        for block in in_order(rows, batch_rows=rows_at_once(module)):
            logits, y = module(block.X.to(like)), block.y.to(like.device)
            parts.append(Scores.of_batch("softmax", logits, y))
            merged.append(_log_posteriors(logits, y, silence_states))
    mean = float(torch.cat(merged).mean())
    return {**Scores.join(parts).summary(), "perplexity_silence_collapsed": math.exp(min(700.0, -mean))}


def _log_posteriors(logits: Tensor, y: Tensor, silence_states: Collection[int]) -> Tensor:
    """log p of the states y, or of silence where y is a silence state; [N]."""
    logs = logits.double().log_softmax(dim=1)
    correct = logs.gather(1, y[:, None]).squeeze(1)
    if not silence_states:
        return correct
    silence = torch.tensor(sorted(silence_states), device=y.device)
    return torch.where(torch.isin(y, silence), logs[:, silence].logsumexp(dim=1), correct)
