"""Checkpoints: everything a run needs to go on exactly where it was."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from bochner.storage import read_tensors, write_tensors

FILE_NAME = "checkpoint.safetensors"


def trainable(model: nn.Module) -> dict[str, Tensor]:
    """The parameters that training changes; frozen ones are redrawn or stored with the model, not here."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def write_checkpoint(checkpoint_dir: Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    """One file, replaced atomically: a kill or a full disk leaves the last good one."""
    checkpoint_dir.mkdir(parents=True, exist_ok=True)
    try:
        write_tensors(checkpoint_dir / FILE_NAME, tensors, state)
    except OSError as error:
        raise unwritable(checkpoint_dir / FILE_NAME, error) from error


def unwritable(path: Path, error: OSError) -> OSError:
    """What went wrong, what is left, and what to do."""
    return OSError(
        error.errno,
        f"could not write a checkpoint ({os.strerror(error.errno or 0)}); the last good one is kept. Free some "
        "space and start the same command again to resume",
        str(path),
    )


def read_checkpoint(
    checkpoint_dir: Path, fingerprint: Mapping[str, Any]
) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The last checkpoint, None if there is none, an error if it belongs to another configuration."""
    path = checkpoint_dir / FILE_NAME
    if not path.exists():
        return None
    tensors, state = read_tensors(path)
    check_fingerprint(path, state, fingerprint)
    return tensors, state


def check_fingerprint(path: Path, state: Mapping[str, Any], fingerprint: Mapping[str, Any]) -> None:
    """An error where the state in `path` is that of another configuration."""
    found = state.get("fingerprint")
    if not isinstance(found, dict):
        raise ValueError(f"{path} is not a training checkpoint.")
    differing = sorted(key for key in {*found, *fingerprint} if found.get(key) != fingerprint.get(key))
    if differing:
        changes = ", ".join(f"{key}: {found.get(key)!r} there, {fingerprint.get(key)!r} here" for key in differing)
        raise ValueError(f"{path} belongs to another configuration ({changes}); use another folder or delete it.")
