"""Minibatch training by the papers' schedule, which halves the rate and undoes epochs, or by one cycle of the rate."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor, nn
from tqdm import tqdm

from bochner import checks
from bochner.data.batches import batches, num_batches
from bochner.data.blocks import Block, Source
from bochner.data.content import content_hashes
from bochner.models.losses import Criterion
from bochner.models.network import Network
from bochner.solvers.checkpoint import Checkpoint, check_alike, read_checkpoint, readable, write_checkpoint
from bochner.solvers.learning_rate import find_rate
from bochner.solvers.optimizers import (
    Optimizer,
    PlainSGD,
    SGDSettings,
    make_optimizer,
    optimizer_tensors,
    restore_optimizer,
    trainable,
)
from bochner.solvers.preconditioner import Preconditioner, fit_preconditioner, stored_preconditioner
from bochner.solvers.signals import HeldSignals
from bochner.solvers.step import compute_precision, evaluate, resident, run_steps
from bochner.storage import write_atomically

if TYPE_CHECKING:
    from bochner.solvers.parallel.workers import Workers

Record = dict[str, Any]  # one epoch: its number, rate, decision and criteria
Callback = Callable[[Record], None]

# A criterion above this many times its initial value (and at least 1) means divergence, not noise.
DIVERGED = 1e6
# One cycle: the share of the steps in which the rate rises, and the first rate as a share of the largest, as in torch's
# OneCycleLR.
RISING, FIRST = 0.3, 0.04
# Training rows for the statistics of batch normalisation in evaluation mode: variances to about 2 %.
STATISTICS_ROWS = 8192


class Decision(Enum):
    """The decision after an epoch."""

    GO_ON = "go on"
    HALVE = "halve"
    REVERT = "revert and halve"


@dataclass
class HalvingSchedule:
    """The papers' rule, on a validation criterion m, lower is better:

    an epoch that improves m by less than `improvement` (1 %, relative) halves the rate; one that raises m, or makes it
    NaN, is also undone; after `max_halvings` (10) training ends. Source: May 2018, Section 4.3.
    """

    rate: float
    criterion: float = math.inf
    improvement: float = 0.01
    max_halvings: int = 10
    halvings: int = 0

    @property
    def finished(self) -> bool:
        return self.halvings >= self.max_halvings

    def update(self, criterion: float) -> Decision:
        """Decide after an epoch that ended with this value of the criterion.

        >>> schedule = HalvingSchedule(rate=1.0, criterion=2.0)
        >>> [schedule.update(m).value for m in (1.5, 1.499, 1.6)], schedule.rate, schedule.criterion
        (['go on', 'halve', 'revert and halve'], 0.25, 1.499)
        """
        worse = math.isnan(criterion) or criterion > self.criterion
        gain = self.criterion - criterion
        if not worse:
            enough = gain >= self.improvement * abs(self.criterion) or math.isinf(self.criterion)
            self.criterion = criterion
            if enough:
                return Decision.GO_ON
        self.rate /= 2
        self.halvings += 1
        return Decision.REVERT if worse else Decision.HALVE


@dataclass
class OneCycleSchedule(HalvingSchedule):
    """A rate that rises from 1/25 of its peak in the first 30 % of the steps and falls to 0 by the last, as cosines.

    The number of epochs is fixed, no epoch is undone, and the criterion is only recorded. Source: Smith & Topin 2019.
    """

    def update(self, criterion: float) -> Decision:
        self.criterion = criterion
        return Decision.GO_ON

    def rate_at(self, progress: float) -> float:
        """The rate after this share of all steps.

        >>> schedule = OneCycleSchedule(rate=1.0)
        >>> [round(schedule.rate_at(progress), 2) for progress in (0, 0.15, 0.3, 0.65, 1)]
        [0.04, 0.52, 1.0, 0.5, 0.0]
        """
        if progress < RISING:
            return self.rate * (FIRST + (1 - FIRST) * (1 - math.cos(math.pi * progress / RISING)) / 2)
        return self.rate * (1 + math.cos(math.pi * (progress - RISING) / (1 - RISING))) / 2


CLASSES: dict[str, type[HalvingSchedule]] = {"halving": HalvingSchedule, "one-cycle": OneCycleSchedule}


@dataclass
class TrainingState:
    """Everything that changes during training, and is stored in a checkpoint."""

    model: nn.Module  # with workers, this process's part of it
    optimizer: Optimizer
    schedule: HalvingSchedule
    epoch: int = 0  # complete epochs
    batch: int = 0  # complete batches of the current epoch
    history: list[Record] = field(default_factory=list)
    start: dict[str, Tensor] = field(default_factory=dict)  # weights and optimizer at the beginning of the epoch
    mean: dict[str, Tensor] = field(default_factory=dict)  # of the weights over the epoch so far, if averaged


def train(
    model: nn.Module,
    source: Source,
    validation_data: Source,
    settings: SGDSettings,
    *,
    checkpoint_dir: Path | None = None,
    checkpoint_seconds: float = 60.0,
    verbose: bool | None = None,
    callbacks: Sequence[Callback] = (),
    group: Workers | None = None,
) -> list[Record]:
    """Train `model` in place and return one record per epoch.

    Minimises mean_i l(y_i, f(x_i)) + alpha / 2 ||weights||^2 by minibatch steps; `validation_data` chooses the learning
    rate ("auto") and drives the schedule. O(N D (d + C)) per epoch for N rows, D features and C outputs.

    Args:
        model: A `FeatureModel`, a `Network` or any module X [n, d] -> scores [n, C].
        source, validation_data: Rows with targets.
        settings: Loss, optimizer, rate and schedule.
        checkpoint_dir: Directory for a checkpoint of every epoch, and of every `checkpoint_seconds` within epochs, and
            for history.jsonl. The same call made again resumes there; on a CPU the result is bit-equal to that of an
            uninterrupted run. SIGTERM and SIGINT take effect after the current block of rows, when a checkpoint is
            stored.
        verbose: Whether to show progress bars; None shows them on a terminal only.
        callbacks: Called with the record of each epoch, such as those of `bochner.solvers.tracking`.
        group: The processes that train together (see `bochner.solvers.parallel`). All of them make the same call, and
            each ends with the whole model.
    """
    if sum(validation_data.shard_sizes) == 0:
        raise ValueError("validation_data must hold at least one row, got none.")
    if validation_data.num_inputs != source.num_inputs:
        raise ValueError(
            f"validation_data must have {source.num_inputs} inputs like the training rows, "
            f"got {validation_data.num_inputs}."
        )
    device, whole = next(model.parameters()).device, model
    if group is not None:
        group.align(model)
    elif device.type == "cuda":
        source, validation_data = resident(source, device), resident(validation_data, device)
    with compute_precision(settings.precision, device):
        fingerprint, stored = {}, None
        if checkpoint_dir is not None:
            fingerprint = _fingerprint(model, source, validation_data, settings, group)
            stored = read_checkpoint(checkpoint_dir, fingerprint, model=model, group=group)

        preconditioner = None
        if settings.preconditioner_rank and (group is None or group.is_first):
            if checkpoint_dir is None:
                preconditioner = fit_preconditioner(model, source, settings)
            else:
                preconditioner = stored_preconditioner(model, source, settings, checkpoint_dir, fingerprint)
        if group is not None:
            model, preconditioner = group.split(model, preconditioner)

        criterion = Criterion.parse(settings.criterion)
        network = model if isinstance(model, Network) and model.scales is not None else None
        if network is not None:  # batch normalisation needs the statistics of some rows
            sample = next(batches(source, batch_size=STATISTICS_ROWS, seed=settings.seed, epoch=0)).X
            sample = sample.to(network.weights[0])
            network.fit_statistics(sample)
        if checkpoint_dir is not None and stored is not None:
            with readable(checkpoint_dir):
                state = _resume(model, source, settings, stored)
            if network is not None:
                network.fit_statistics(sample)
        else:
            initial = criterion.of(evaluate(model, validation_data, loss=settings.loss, group=group))
            rate = settings.learning_rate
            if isinstance(rate, str):
                search: dict[str, Any] = {"checkpoint_dir": checkpoint_dir, "fingerprint": fingerprint, "group": group}
                rate = find_rate(model, source, validation_data, settings, preconditioner, **search)
            schedule = CLASSES[settings.schedule](rate, initial, settings.improvement, settings.max_halvings)
            state = TrainingState(model, make_optimizer(model, settings, rate), schedule)
            if checkpoint_dir is not None and isinstance(settings.learning_rate, str):
                _checkpoint(state, checkpoint_dir, fingerprint, group)  # the search is not repeated

        with HeldSignals() if checkpoint_dir is not None else nullcontext() as held:
            while state.schedule.halvings < settings.max_halvings and state.epoch < settings.max_epochs:
                last = time.monotonic()
                model.train()
                for _ in _epoch(state, source, settings, preconditioner, verbose, group):
                    if checkpoint_dir is not None and held is not None:
                        elapsed = math.inf if held.received else time.monotonic() - last
                        elapsed = elapsed if group is None else group.agree(elapsed)
                        if elapsed >= checkpoint_seconds:
                            _checkpoint(state, checkpoint_dir, fingerprint, group)
                            last = time.monotonic()
                        if math.isinf(elapsed):
                            held.deliver()

                with torch.no_grad():
                    for name, mean in state.mean.items():
                        trainable(model)[name].copy_(mean)
                model.eval()
                if network is not None:
                    network.fit_statistics(sample)
                scores = evaluate(model, validation_data, loss=settings.loss, group=group)
                value, rate = criterion.of(scores), state.schedule.rate
                if group is not None:
                    value = group.agree(value)
                decision = state.schedule.update(value)
                if decision is Decision.REVERT:
                    _restore(state, state.start)
                    if network is not None:
                        network.fit_statistics(sample)
                state.epoch, state.batch, state.start, state.mean = state.epoch + 1, 0, {}, {}
                record = {"epoch": state.epoch, "rate": rate, "decision": decision.value, settings.criterion: value}
                state.history.append({**record, **scores.summary()})

                if group is None or group.is_first:
                    for callback in callbacks:
                        callback(state.history[-1])
                if checkpoint_dir is not None:
                    if group is None or group.is_first:
                        checkpoint_dir.mkdir(parents=True, exist_ok=True)
                        lines = (json.dumps(epoch) + "\n" for epoch in state.history)
                        write_atomically(checkpoint_dir / "history.jsonl", "".join(lines).encode())
                    _checkpoint(state, checkpoint_dir, fingerprint, group)
    if group is not None:
        group.gather(model, whole)
    if settings.schedule == "one-cycle":  # which undoes nothing
        failed = not state.history[-1][settings.criterion] < math.inf
    else:
        failed = all(record["decision"] == Decision.REVERT.value for record in state.history)
    if failed:
        _report_failure(state, settings)
    return state.history


def _epoch(
    state: TrainingState,
    source: Source,
    settings: SGDSettings,
    preconditioner: Preconditioner | None,
    verbose: bool | None,
    group: Workers | None,
) -> Iterator[None]:
    """The steps of an epoch from batch `state.batch` on, with their running mean; yields after every block."""
    model, schedule, device = state.model, state.schedule, next(state.model.parameters()).device
    if state.batch == 0:
        state.start = _copies(state)
        if settings.average:
            state.mean = {name: torch.zeros_like(p) for name, p in trainable(model).items()}

    sizes: deque[int] | None = None if group is None else deque()

    def read(rows: int) -> Iterator[Block]:
        start = state.batch * settings.batch_size // rows
        if group is not None and sizes is not None:
            from bochner.solvers.parallel.rows import shared_batches

            order = {"batch_size": rows, "seed": settings.seed, "epoch": state.epoch, "start": start}
            return shared_batches(source, group, sizes, **order)
        ahead = device.type == "cuda"
        return batches(source, batch_size=rows, seed=settings.seed, epoch=state.epoch, start=start, prefetch=ahead)

    bar = tqdm(
        total=sum(source.shard_sizes),
        initial=state.batch * settings.batch_size,
        desc=f"epoch {state.epoch + 1}",
        unit="row",
        unit_scale=True,
        disable=(None if verbose is None else not verbose) if group is None or group.is_first else True,
        leave=False,
    )
    bar.set_postfix({settings.criterion: f"{schedule.criterion:.4f}", "rate": f"{schedule.rate:.3g}"})
    with bar:
        blocks = run_steps(model, state.optimizer, read, settings, preconditioner, group=group, sizes=sizes)
        while True:
            rate = schedule.rate
            if isinstance(schedule, OneCycleSchedule):
                per_epoch = num_batches(source, settings.batch_size)
                rate = schedule.rate_at((state.epoch + (state.batch + 0.5) / per_epoch) / settings.max_epochs)
            for parameters in state.optimizer.param_groups:
                last = parameters["lr"]  # of Adam on a GPU a tensor, which recorded steps read
                parameters["lr"] = last.fill_(rate) if isinstance(last, Tensor) else rate
            if isinstance(model, Network) and model.dropout:
                model.seed_dropout(settings.seed, state.epoch, state.batch)
            size = next(blocks, 0)
            if size == 0:
                break
            steps = -(-size // settings.batch_size)
            state.batch += steps
            for name, mean in state.mean.items():
                mean.lerp_(trainable(model)[name].detach(), steps / state.batch)
            bar.update(size)
            yield


def _copies(state: TrainingState) -> dict[str, Tensor]:
    """Copies of all tensors that a step changes."""
    tensors = {f"model.{name}": p for name, p in trainable(state.model).items()}
    if not isinstance(state.optimizer, PlainSGD):
        tensors |= optimizer_tensors(state.optimizer)
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def _restore(state: TrainingState, tensors: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, parameter in trainable(state.model).items():
            parameter.copy_(tensors[f"model.{name}"])
    if not isinstance(state.optimizer, PlainSGD):
        restore_optimizer(state.optimizer, {name: tensor.clone() for name, tensor in tensors.items()})


def _fingerprint(
    model: nn.Module, source: Source, validation_data: Source, settings: SGDSettings, group: Workers | None
) -> dict[str, Any]:
    """The values that must be equal for a checkpoint to be used: shapes, the sum of frozen weights, all rows,
    settings. The first process reads all rows."""

    def hashes() -> str:
        return json.dumps([content_hashes(rows) for rows in (source, validation_data)])

    training, validation = json.loads(hashes() if group is None else group.agree_text(hashes))
    frozen = [p for p in model.parameters() if not p.requires_grad]
    return {
        "model": repr(model),
        "frozen": sum(float(p.double().sum()) for p in frozen),
        "rows": sum(source.shard_sizes),
        "num_inputs": source.num_inputs,
        "training_data": training,
        "validation_data": validation,
        **asdict(settings),
    }


def _checkpoint(
    state: TrainingState, checkpoint_dir: Path, fingerprint: Mapping[str, Any], group: Workers | None
) -> None:
    tensors = {f"now.{name}": tensor for name, tensor in _copies(state).items()}
    tensors |= {f"start.{name}": tensor for name, tensor in state.start.items()}
    tensors |= {f"mean.{name}": tensor for name, tensor in state.mean.items()}
    description = {
        "fingerprint": fingerprint,
        "epoch": state.epoch,
        "batch": state.batch,
        "schedule": asdict(state.schedule),
        "history": state.history,
    }
    write_checkpoint(checkpoint_dir, tensors, description, model=state.model, group=group)


def _resume(model: nn.Module, source: Source, settings: SGDSettings, stored: Checkpoint) -> TrainingState:
    """The state of a checkpoint; every part is checked, since a file may be damaged or forged."""
    tensors, description = stored
    saved = description["schedule"]
    rate, halvings = checks.positive_float("rate", saved["rate"]), checks.nonnegative_int("halvings", saved["halvings"])
    schedule = CLASSES[settings.schedule](
        rate, float(saved["criterion"]), settings.improvement, settings.max_halvings, halvings
    )
    epoch, batch = (checks.nonnegative_int(name, description[name]) for name in ("epoch", "batch"))
    if epoch > settings.max_epochs or batch > num_batches(source, settings.batch_size):
        raise ValueError(f"epoch {epoch}, batch {batch} are beyond the end of the run")
    history = [dict(record) for record in description["history"]]
    if len(history) != epoch or not all({"decision", settings.criterion} <= set(record) for record in history):
        raise ValueError(f"history must hold one record for each of {epoch} epochs")
    parts: dict[str, dict[str, Tensor]] = {"now": {}, "start": {}, "mean": {}}
    for name, tensor in tensors.items():
        part, _, key = name.partition(".")
        if part in parts:
            parts[part][key] = tensor.to(next(model.parameters()).device)
    weights = {f"model.{name}": p for name, p in trainable(model).items()}
    check_alike(parts["now"], weights)
    check_alike(parts["start"], weights if batch else {})
    check_alike(parts["mean"], trainable(model) if batch and settings.average else {})
    optimizer = make_optimizer(model, settings, schedule.rate)
    state = TrainingState(model, optimizer, schedule, epoch, batch, history, parts["start"], parts["mean"])
    _restore(state, parts["now"])
    return state


def _report_failure(state: TrainingState, settings: SGDSettings) -> None:
    """Every epoch was undone: raise an error if the last criterion was NaN or far too large, else warn."""
    if settings.schedule == "one-cycle":
        raise FloatingPointError(
            f"training diverged: the validation {settings.criterion} is {state.history[-1][settings.criterion]} at the "
            f"end. Give a learning_rate smaller than {state.schedule.rate:.3g}, or check for huge or constant inputs."
        )
    last, initial = state.history[-1][settings.criterion], state.schedule.criterion
    values = f"{initial:.4g} at the start, {last:.4g} at the end"
    summary = f"training never improved the validation {settings.criterion}: {values}"
    if last < DIVERGED * max(1.0, abs(initial)):
        remedy = "The model is unchanged. Check for targets that are noise, an unsuitable bandwidth or learning_rate."
        warnings.warn(f"{summary}. {remedy}", ConvergenceWarning, stacklevel=3)
        return
    raise FloatingPointError(
        f"{summary}; the learning rate was halved {state.schedule.halvings} times, down to {state.schedule.rate:.3g}. "
        "Check for huge or constant inputs, or give a smaller learning_rate."
    )
