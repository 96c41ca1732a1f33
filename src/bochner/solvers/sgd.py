"""The training loop."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor, nn
from tqdm import tqdm

from bochner import checks
from bochner.data.batches import batches, num_batches
from bochner.data.blocks import Block, Source
from bochner.models.criteria import Criterion
from bochner.solvers.checkpoint import trainable
from bochner.solvers.fused import fused_steps
from bochner.solvers.learning_rate import find_rate
from bochner.solvers.optimizers import Optimizer, make_optimizer, optimizer_tensors, restore_optimizer
from bochner.solvers.parallel.group import here
from bochner.solvers.preconditioner import Preconditioner, stored_preconditioner
from bochner.solvers.schedule import Decision, HalvingSchedule
from bochner.solvers.settings import SGDSettings
from bochner.solvers.step import compute_precision, device_of, evaluate, on_device, resident, take_step


@contextmanager
def understood(checkpoint_dir: Path) -> Iterator[None]:
    """Whatever fails within is an error that names the folder of the checkpoint.

    >>> with understood(Path("out/run")):
    ...     {}["epoch"]
    Traceback (most recent call last):
    ...
    ValueError: out/run holds a checkpoint that no run can go on from (KeyError('epoch')); delete it to begin anew.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{checkpoint_dir} holds a checkpoint that no run can go on from ({error!r}); delete it to begin anew."
        ) from error


def stored_schedule(stored: Mapping[str, Any], settings: SGDSettings) -> HalvingSchedule:
    """The schedule of `recipe` where it stood."""
    return HalvingSchedule(
        checks.positive_float("rate", stored["rate"]),
        float(stored["criterion"]),
        settings.improvement,
        settings.max_halvings,
        checks.nonnegative_int("halvings", stored["halvings"]),
    )


def stored_place(
    state: Mapping[str, Any], settings: SGDSettings, source: Source
) -> tuple[int, int, list[dict[str, Any]]]:
    """The epochs and batches that were done, and a record of each epoch."""
    epoch, batch = (checks.nonnegative_int(name, state[name]) for name in ("epoch", "batch"))
    if epoch > settings.max_epochs or batch > num_batches(source, settings.batch_size):
        raise ValueError(f"epoch {epoch}, batch {batch} are beyond the end of the run")
    history = [dict(record) for record in state["history"]]
    if len(history) != epoch or not all({"decision", settings.criterion} <= set(record) for record in history):
        raise ValueError(f"history must be a record for each of {epoch} epochs")
    return epoch, batch, history


def check_alike(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """An error unless each expected tensor is there with its shape and type: others would be stretched in silence."""
    for name, tensor in expected.items():
        if name not in found or (found[name].shape, found[name].dtype) != (tensor.shape, tensor.dtype):
            raise ValueError(f"{name} must be {tensor.dtype} {list(tensor.shape)}")


DIVERGED = 1e6

Record = dict[str, Any]
Writer = Callable[[Record], None]


@dataclass
class Run:
    """One training run: the model, where it stands, and how it came there."""

    model: nn.Module
    source: Source
    validation_data: Source
    settings: SGDSettings
    schedule: HalvingSchedule
    optimizer: Optimizer
    fingerprint: Record
    preconditioner: Preconditioner | None = None
    epoch: int = 0
    batch: int = 0
    history: list[Record] = field(default_factory=list)
    start: dict[str, Tensor] = field(default_factory=dict)  # the state at the beginning of the epoch
    mean: dict[str, Tensor] = field(default_factory=dict)  # of the iterates of the epoch so far, where wanted


def train(
    model: nn.Module,
    source: Source,
    validation_data: Source,
    settings: SGDSettings,
    *,
    checkpoint_dir: Path | None = None,
    checkpoint_seconds: float = 60.0,
    verbose: bool | None = True,
    writers: Sequence[Writer] = (),
) -> list[Record]:
    """Train `model` in place and return one record an epoch.

    With a `folder`, the run is checkpointed there at every epoch and every `checkpoint_seconds`, its history is kept in
    history.jsonl, and the same call made again goes on where the last one stopped; on a CPU the result is
    bit-equal to that of an undisturbed run. `progress` None shows bars on a terminal only. Processes that work together
    (see `bochner.solvers.parallel`) all make the same call, and each ends with the whole model.
    """
    device = device_of(model)
    with compute_precision(settings.precision, device):
        run = _begin(model, resident(source, device), resident(validation_data, device), settings, checkpoint_dir)
        if checkpoint_dir is not None and not run.history and run.batch == 0 and settings.learning_rate == "auto":
            _checkpoint(run, checkpoint_dir)  # keeps the rate that was found
        while not run.schedule.finished and run.epoch < settings.max_epochs:
            _train_epoch(run, checkpoint_dir, checkpoint_seconds, verbose)
            _end_epoch(run)
            for writer in writers if here().is_first else ():
                writer(run.history[-1])
            if checkpoint_dir is not None:
                _write_history(run, checkpoint_dir)
                _checkpoint(run, checkpoint_dir)
    here().gather(run.model, model)
    if all(record["decision"] == Decision.REVERT.value for record in run.history):
        _complain(run)
    return run.history


def _complain(run: Run) -> None:
    """Every epoch was undone: an error if the last was still not a number or beyond all bounds, else a warning."""
    last, start = run.history[-1][run.settings.criterion], run.schedule.criterion
    what = f"training never improved the heldout {run.settings.criterion}, {start:.4g} at the start"
    if last < DIVERGED * max(1.0, abs(start)):
        advice = "the model is the one it began with. Are targets noise, bandwidth far off or learning_rate too large?"
        warnings.warn(f"{what} and {last:.4g} at the end; {advice}", ConvergenceWarning, stacklevel=3)
        return
    raise FloatingPointError(
        f"{what} and {last:.4g} at the end: the learning rate was cut {run.schedule.halvings} times, down to "
        f"{run.schedule.rate:.3g}. Look for huge or constant inputs, or give a smaller learning_rate."
    )


def _begin(
    model: nn.Module, source: Source, validation_data: Source, settings: SGDSettings, checkpoint_dir: Path | None
) -> Run:
    _check_sources(source, validation_data)
    here().align(model)
    fingerprint = _fingerprint(model, source, settings)
    found = None if checkpoint_dir is None else here().read_checkpoint(checkpoint_dir, fingerprint, model)
    preconditioner = (
        stored_preconditioner(model, source, settings, checkpoint_dir, fingerprint) if here().is_first else None
    )
    model, preconditioner = here().split(model, preconditioner)

    def run_by(schedule: HalvingSchedule) -> Run:
        optimizer = make_optimizer(model, settings, schedule.rate)
        return Run(model, source, validation_data, settings, schedule, optimizer, fingerprint, preconditioner)

    if checkpoint_dir is not None and found is not None:
        with understood(checkpoint_dir):
            return _resume(run_by(stored_schedule(found[1]["schedule"], settings)), *found)
    criterion = Criterion.parse(settings.criterion).of(evaluate(model, validation_data, loss=settings.loss))
    given = settings.learning_rate
    rate = find_rate(model, source, validation_data, settings, preconditioner) if isinstance(given, str) else given
    return run_by(HalvingSchedule(rate, criterion, settings.improvement, settings.max_halvings))


def _train_epoch(run: Run, checkpoint_dir: Path | None, checkpoint_seconds: float, verbose: bool | None) -> None:
    settings = run.settings
    if run.batch == 0:
        run.start = _state(run)
        run.mean = {name: torch.zeros_like(p) for name, p in trainable(run.model).items()} if settings.average else {}
    for group in run.optimizer.param_groups:
        group["lr"] = run.schedule.rate
    total = sum(run.source.shard_sizes)
    bar = tqdm(
        total=total,
        initial=run.batch * settings.batch_size,
        desc=f"epoch {run.epoch + 1}",
        unit="row",
        unit_scale=True,
        disable=(None if verbose is None else not verbose) if here().is_first else True,
        leave=False,
    )
    bar.set_postfix({settings.criterion: f"{run.schedule.criterion:.4f}", "rate": f"{run.schedule.rate:.3g}"})
    fused = fused_steps(run.model, settings, run.preconditioner) if here().num_processes == 1 else None
    rows = settings.batch_size if fused is None else fused.rows
    last = time.monotonic()
    with bar:
        for block in on_device(map(here().share, _blocks(run, rows)), device_of(run.model)):
            size = min(rows, total - run.batch * settings.batch_size)
            if fused is None:
                take_step(run.model, run.optimizer, block, settings, run.preconditioner, size=size)
            else:
                fused.take(block, rate=run.schedule.rate)
            taken = -(-size // settings.batch_size)
            run.batch += taken
            for name, mean in run.mean.items():
                mean.lerp_(trainable(run.model)[name].detach(), taken / run.batch)
            bar.update(size)
            if checkpoint_dir is not None and here().agree(time.monotonic() - last) >= checkpoint_seconds:
                _checkpoint(run, checkpoint_dir)
                last = time.monotonic()


def _blocks(run: Run, rows: int) -> Iterator[Block]:
    """What is left of the epoch, `rows` at a time: one batch, or several whole ones."""
    start, ahead = run.batch * run.settings.batch_size // rows, device_of(run.model).type == "cuda"
    return batches(run.source, batch_size=rows, seed=run.settings.seed, epoch=run.epoch, start=start, prefetch=ahead)


def _end_epoch(run: Run) -> None:
    with torch.no_grad():
        for name, mean in run.mean.items():
            trainable(run.model)[name].copy_(mean)
    scores = evaluate(run.model, run.validation_data, loss=run.settings.loss)
    criterion = here().agree(Criterion.parse(run.settings.criterion).of(scores))
    rate = run.schedule.rate
    decision = run.schedule.update(criterion)
    if decision is Decision.REVERT:
        _restore(run, run.start)
    run.epoch, run.batch, run.start, run.mean = run.epoch + 1, 0, {}, {}
    run.history.append(
        {
            "epoch": run.epoch,
            "rate": rate,
            "decision": decision.value,
            run.settings.criterion: criterion,
            **scores.summary(),
        }
    )


def _state(run: Run) -> dict[str, Tensor]:
    """A copy of all that a step changes."""
    current = {f"model.{name}": p for name, p in trainable(run.model).items()} | optimizer_tensors(run.optimizer)
    return {name: tensor.detach().clone() for name, tensor in current.items()}


def _restore(run: Run, state: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for name, parameter in trainable(run.model).items():
            parameter.copy_(state[f"model.{name}"])
    restore_optimizer(run.optimizer, {name: tensor.clone() for name, tensor in state.items()})


def _checkpoint(run: Run, checkpoint_dir: Path) -> None:
    tensors = {f"now.{name}": tensor for name, tensor in _state(run).items()}
    tensors |= {f"start.{name}": tensor for name, tensor in run.start.items()}
    tensors |= {f"mean.{name}": tensor for name, tensor in run.mean.items()}
    state = {
        "fingerprint": run.fingerprint,
        "epoch": run.epoch,
        "batch": run.batch,
        "schedule": asdict(run.schedule),
        "history": run.history,
    }
    here().write_checkpoint(checkpoint_dir, tensors, state, run.model)


def _resume(run: Run, tensors: dict[str, Tensor], state: dict[str, Any]) -> Run:
    run.epoch, run.batch, run.history = stored_place(state, run.settings, run.source)
    device = device_of(run.model)
    now, run.start, run.mean = (_part(tensors, kind, device) for kind in ("now", "start", "mean"))
    weights = {f"model.{name}": p for name, p in trainable(run.model).items()}
    check_alike(now, weights)
    check_alike(run.start, weights if run.batch else {})
    check_alike(run.mean, trainable(run.model) if run.batch and run.settings.average else {})
    _restore(run, now)
    return run


def _part(tensors: dict[str, Tensor], kind: str, device: torch.device) -> dict[str, Tensor]:
    names = [name for name in tensors if name.startswith(f"{kind}.")]
    return {name.removeprefix(f"{kind}."): tensors[name].to(device) for name in names}


def _fingerprint(model: nn.Module, source: Source, settings: SGDSettings) -> dict[str, Any]:
    """What must be the same for a checkpoint to fit: shapes, frozen numbers, data size, recipe."""
    frozen = [p for p in model.parameters() if not p.requires_grad]
    return {
        "model": repr(model),
        "frozen": sum(float(p.double().sum()) for p in frozen),
        "rows": sum(source.shard_sizes),
        "num_inputs": source.num_inputs,
        **asdict(settings),
    }


def _write_history(run: Run, checkpoint_dir: Path) -> None:
    if not here().is_first:
        return
    checkpoint_dir.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(record) + "\n" for record in run.history)
    (checkpoint_dir / "history.jsonl").write_text("".join(lines))


def _check_sources(source: Source, validation_data: Source) -> None:
    if sum(validation_data.shard_sizes) == 0:
        raise ValueError("heldout holds no rows; give it at least one.")
    if validation_data.num_inputs != source.num_inputs:
        raise ValueError(
            f"heldout must have {source.num_inputs} inputs like the training rows, got {validation_data.num_inputs}."
        )
