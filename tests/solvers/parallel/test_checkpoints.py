"""Checkpoints are read by other process groups; every row is used once; files cannot run code."""

from __future__ import annotations

import json
import resource
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch import distributed as dist

from bochner.data import ArraySource
from bochner.data.batches import batches
from bochner.solvers import step
from bochner.solvers.checkpoint import read_parts
from bochner.solvers.optimizers import SGDSettings
from bochner.solvers.parallel.workers import Workers, share
from bochner.solvers.sgd import train
from bochner.solvers.step import take_steps
from tests.solvers.parallel.ranks import run_ranks
from tests.solvers.parallel.test_equality import SETTINGS, linear, numbers, sources

LONG = replace(SETTINGS, optimizer="momentum", learning_rate=0.5, preconditioner_rank=3, max_epochs=4, average=True)
ONCE = SGDSettings(learning_rate=0.1, batch_size=50, max_epochs=1)


class StoppedError(Exception):
    pass


@contextmanager
def stopped_after(steps: int) -> Iterator[None]:
    """Fail after a number of steps, as a machine may."""
    left = iter(range(steps))

    def stop_or_step(*arguments: Any, **more: Any) -> None:
        if next(left, None) is None:
            raise StoppedError
        take_steps(*arguments, **more)

    with suppress(StoppedError), patch.object(step, "take_steps", stop_or_step):
        yield


def go_on(folder: Path, steps: int, group: Workers | None = None) -> dict[str, np.ndarray]:
    """Train for a number of steps with a checkpoint after each, then fail."""
    model = linear()
    options = {"checkpoint_dir": folder, "checkpoint_seconds": 0.0, "verbose": False}
    with stopped_after(steps):
        train(model, *sources(), LONG, **options, group=group)
        return numbers(model)
    return {}


def test_saved_by_four_resumed_by_two_and_by_one(tmp_path: Path) -> None:
    """4 = 2 x 2, then 2 by features, then 1, then 2 by rows, then 1 to the end: the model of an undisturbed run."""
    expected = linear()
    train(expected, *sources(), LONG, verbose=False)
    folder = tmp_path / "run"
    assert run_ranks(go_on, 4, tmp_path / "a", folder, 3, features=2) == [{}] * 4
    assert not (folder / "checkpoint.safetensors").exists()
    assert run_ranks(go_on, 2, tmp_path / "b", folder, 4, features=2) == [{}] * 2
    assert len(list(folder.glob("parts-*"))) == 1
    assert go_on(folder, 4) == {}
    assert not list(folder.glob("parts-*"))
    assert run_ranks(go_on, 2, tmp_path / "c", folder, 2) == [{}] * 2
    assert (folder / "checkpoint.json").exists()
    for name, values in go_on(folder, 10**9).items():
        np.testing.assert_allclose(values, numbers(expected)[name], rtol=0, atol=1e-10)
    assert len((folder / "history.jsonl").read_text().splitlines()) == LONG.max_epochs


class Watching(nn.Module):
    """A linear model that keeps the rows it learns from."""

    def __init__(self) -> None:
        super().__init__()
        self.weights, self.seen = nn.Parameter(torch.zeros(3, 1)), []

    def forward(self, X: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            self.seen += X[:, 0].int().tolist()
        return X @ self.weights.T / 203


def watch(folder: Path, steps: int, group: Workers | None = None) -> list[int]:
    model, source = Watching(), ArraySource(torch.arange(203.0)[:, None], torch.arange(203) % 3, shard_rows=16)
    with stopped_after(steps):
        options = {"checkpoint_dir": folder, "checkpoint_seconds": 0.0, "verbose": False}
        train(model, source, source, ONCE, **options, group=group)
    return model.seen


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_row_is_learned_from_once_also_after_a_stop(tmp_path: Path) -> None:
    """203 rows in batches of 50: two by four processes, which then stop, and the rest by three."""
    first = run_ranks(watch, 4, tmp_path / "a", tmp_path / "run", 2)
    assert [len(rows) for rows in first] == [24, 26, 24, 26]
    rest = run_ranks(watch, 3, tmp_path / "b", tmp_path / "run", 10**9)
    assert Counter(row for rows in [*first, *rest] for row in rows) == Counter(range(203))


def write_too_much(folder: Path, group: Workers) -> str:
    """The last process may write no file of more than a few bytes, as if its disk were full."""
    if dist.get_rank() == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
    try:
        go_on(folder, 1, group)
    except OSError as error:
        return str(error)
    return ""


def test_a_full_disk_of_one_process_is_reported_by_all(tmp_path: Path) -> None:
    for message in run_ranks(write_too_much, 2, tmp_path / "a", tmp_path / "run", features=2):
        assert "could not write a checkpoint (File too large); the last" in message
    assert not (tmp_path / "run" / "checkpoint.json").exists()


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 64])
def test_shares_are_each_row_of_each_batch_once(count: int) -> None:
    source = ArraySource(torch.arange(203.0)[:, None], torch.arange(203), shard_rows=16)
    for start in (0, 3):
        for batch in batches(source, batch_size=50, seed=0, epoch=1, start=start):
            parts = [batch.y[share(len(batch.y), number, count)].tolist() for number in range(count)]
            assert [row for part in parts for row in part] == batch.y.tolist()
            assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_hostile_or_damaged_checkpoint_is_an_error(tmp_path: Path) -> None:
    run_ranks(go_on, 2, tmp_path / "a", tmp_path / "run", 2, features=2)
    pointer = tmp_path / "run" / "checkpoint.json"
    state = json.loads(pointer.read_text())
    assert not list((tmp_path / "run").rglob(".metadata"))  # DCP's usual metadata is a pickle
    with pytest.raises(ValueError, match=r"belongs to another configuration \(seed: 0 there, 1 here\)"):
        read_parts(tmp_path / "run", {**state["fingerprint"], "seed": 1})
    file = next((tmp_path / "run" / state["directory"]).iterdir())
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ValueError, match="does not hold the parts of a checkpoint"):
        read_parts(tmp_path / "run", state["fingerprint"])
    for text in (
        "{",
        "[]",
        "3",
        json.dumps({**state, "directory": "../elsewhere"}),
        json.dumps({"directory": 1}),
    ):
        pointer.write_text(text)
        with pytest.raises(ValueError, match=r"checkpoint\.json"):
            read_parts(tmp_path / "run", state["fingerprint"])
