"""Checkpoints with impossible content are refused, even if their checksum is valid."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bochner.solvers.checkpoint import read_checkpoint, write_checkpoint
from bochner.solvers.optimizers import SGDSettings
from bochner.solvers.sgd import train
from bochner.storage import read_tensors, write_tensors
from tests.solvers.runs import model, sources

SETTINGS = SGDSettings(learning_rate=0.5, batch_size=32, max_epochs=2, optimizer="momentum")
Change = Callable[[dict[str, Tensor], dict[str, Any]], object]
CHANGES: dict[str, Change] = {
    "epoch must be an integer of at least 0": lambda tensors, state: state.update(epoch=-5),
    "epoch 7, batch 0 are beyond the end": lambda tensors, state: state.update(epoch=7),
    "batch 99 are beyond the end": lambda tensors, state: state.update(batch=99),
    "history must hold .* 2 epochs": lambda tensors, state: state["history"].pop(),
    "rate must be a positive finite number": lambda tensors, state: state["schedule"].update(rate="fast"),
    "KeyError.*schedule": lambda tensors, state: state.pop("schedule"),
    r"model.head.weights must be torch.float32 \[3, 64\]": lambda tensors, state: tensors.update(
        {"now.model.head.weights": torch.ones(64)}  # it would be repeated for every output
    ),
    "model.head.bias must be": lambda tensors, state: tensors.pop("now.model.head.bias"),
    "optimizer.0 does not fit SGD": lambda tensors, state: tensors.update(
        {"now.optimizer.0.momentum_buffer": torch.ones(1, 64)}
    ),
}


@pytest.mark.parametrize("message", CHANGES)
def test_impossible_content_is_refused(message: str, tmp_path: Path) -> None:
    train(model(), *sources(), SETTINGS, checkpoint_dir=tmp_path, verbose=False)
    path = tmp_path / "checkpoint.safetensors"
    tensors, state = read_tensors(path)
    CHANGES[message](tensors, state)
    write_tensors(path, tensors, state)
    with pytest.raises(ValueError, match=f"(?s){tmp_path.name}.*{message}.*delete it"):
        train(model(), *sources(), SETTINGS, checkpoint_dir=tmp_path, verbose=False)


def test_tensors_of_a_checkpoint_are_aligned_as_fresh_ones(tmp_path: Path) -> None:
    """Products with unaligned operands round differently: a resumed run would differ in the last bit."""
    tensors = {f"t{size}": torch.ones(size) for size in range(1, 12)}
    write_checkpoint(tmp_path, tensors, {"fingerprint": {}})
    stored = read_checkpoint(tmp_path, {})
    assert stored is not None
    assert all(tensor.data_ptr() % 64 == 0 for tensor in stored[0].values())
