"""What a checkpoint must say for a run to go on from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from bochner import checks
from bochner.data.batches import num_batches
from bochner.data.blocks import Source
from bochner.train.recipe import Recipe
from bochner.train.schedule import HalvingSchedule


@contextmanager
def understood(folder: Path) -> Iterator[None]:
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
            f"{folder} holds a checkpoint that no run can go on from ({error!r}); delete it to begin anew."
        ) from error


def stored_schedule(stored: Mapping[str, Any], recipe: Recipe) -> HalvingSchedule:
    """The schedule of `recipe` where it stood."""
    return HalvingSchedule(
        checks.positive_float("rate", stored["rate"]),
        float(stored["metric"]),
        recipe.improvement,
        recipe.max_halvings,
        checks.nonnegative_int("halvings", stored["halvings"]),
    )


def stored_place(state: Mapping[str, Any], recipe: Recipe, source: Source) -> tuple[int, int, list[dict[str, Any]]]:
    """The epochs and batches that were done, and a record of each epoch."""
    epoch, batch = (checks.nonnegative_int(name, state[name]) for name in ("epoch", "batch"))
    if epoch > recipe.max_epochs or batch > num_batches(source, recipe.batch_size):
        raise ValueError(f"epoch {epoch}, batch {batch} are beyond the end of the run")
    history = [dict(record) for record in state["history"]]
    if len(history) != epoch or not all({"verdict", recipe.metric} <= set(record) for record in history):
        raise ValueError(f"history must be a record for each of {epoch} epochs")
    return epoch, batch, history


def check_alike(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """An error unless each expected tensor is there with its shape and type: others would be stretched in silence."""
    for name, tensor in expected.items():
        if name not in found or (found[name].shape, found[name].dtype) != (tensor.shape, tensor.dtype):
            raise ValueError(f"{name} must be {tensor.dtype} {list(tensor.shape)}")
