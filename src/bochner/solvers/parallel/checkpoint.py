"""Checkpoints of several processes, by torch.distributed.checkpoint: each writes its part, any number reads them.

The parts are safetensors files, by DCP's own writer for that format: DCP's usual one keeps what it must know of the
parts as a pickle, and a file that is unpickled can run code. What a run must know besides tensors is JSON.
"""

from __future__ import annotations

import json
import secrets
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.tensor import DTensor, Replicate, Shard

from bochner.solvers.checkpoint import check_fingerprint, unwritable
from bochner.solvers.parallel.group import SHARED_NAME, Found
from bochner.storage import write_atomically

if TYPE_CHECKING:
    from bochner.solvers.parallel.mesh import Mesh


PREFIX = "parts-"
BY_FEATURE = "by_feature"  # the key under which a state names the tensors that are divided by features


def write_shared(
    checkpoint_dir: Path,
    tensors: Mapping[str, Tensor],
    state: Mapping[str, Any],
    *,
    by_feature: set[str],
    forms: int,
    mesh: Mesh,
) -> None:
    """All processes write their parts into a new folder; then one file, replaced atomically, names that folder.

    A kill at any moment leaves the last complete one. `by_feature` tensors [lead, D / parts] are stored as parts of
    [lead, forms, P]: a number has the same place there however many parts there are.
    """
    name = f"{PREFIX}{int(mesh.agree(secrets.randbits(48))):012x}"
    shared = {
        key: _divided(tensor.reshape(len(tensor), forms, -1), mesh) if key in by_feature else tensor.contiguous()
        for key, tensor in tensors.items()
    }
    checkpoint_dir.mkdir(parents=True, exist_ok=True)
    try:
        save(shared, storage_writer=HuggingFaceStorageWriter(str(checkpoint_dir / name), save_distributed=True))
        if mesh.is_first:
            named = {"directory": name, **state, BY_FEATURE: sorted(by_feature)}
            write_atomically(checkpoint_dir / SHARED_NAME, json.dumps(named).encode())
            _remove_others(checkpoint_dir, name)
    except (OSError, CheckpointException) as error:
        cause = error if isinstance(error, OSError) else next(iter(error.failures.values()))[0]  # of any process
        if not isinstance(cause, OSError):
            raise
        raise unwritable(checkpoint_dir / SHARED_NAME, cause) from error


def read_shared(checkpoint_dir: Path, fingerprint: Mapping[str, Any], *, mesh: Mesh | None = None) -> Found | None:
    """What `write_shared` wrote, whole or for this process's part; None where there is nothing."""
    path = checkpoint_dir / SHARED_NAME
    if not path.exists():
        return None
    state = _read_state(path)
    check_fingerprint(path, state, fingerprint)
    try:
        return _read_parts(checkpoint_dir / state["directory"], set(state[BY_FEATURE]), mesh), state
    except Exception as error:  # a damaged file can fail in any way
        raise ValueError(
            f"{checkpoint_dir / state['directory']} does not hold the parts of a checkpoint: {error}"
        ) from error


def remove_shared(checkpoint_dir: Path) -> None:
    """Forget the checkpoint of a team: a single process went on."""
    (checkpoint_dir / SHARED_NAME).unlink(missing_ok=True)
    _remove_others(checkpoint_dir, keep="")


def _read_state(path: Path) -> dict[str, Any]:
    try:
        state = dict(json.loads(path.read_text()))
        names, name = list(map(str, state[BY_FEATURE])), Path(state["directory"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{path} is not the checkpoint of a team: {error!r}") from error
    if name.name != str(name) or not name.name.startswith(PREFIX):
        raise ValueError(f"{path} must name a folder beside it, got {state['directory']!r}.")
    return state | {BY_FEATURE: names}


def _read_parts(checkpoint_dir: Path, by_feature: set[str], mesh: Mesh | None) -> dict[str, Tensor]:
    reader = HuggingFaceStorageReader(str(checkpoint_dir))
    known = reader.read_metadata().state_dict_metadata
    divided = by_feature if mesh is not None and mesh.num_parts > 1 else set()
    tensors = {key: _room(data, mesh if key in divided else None) for key, data in known.items()}
    targets = {key: _divided(tensor, mesh) if key in divided and mesh else tensor for key, tensor in tensors.items()}
    with warnings.catch_warnings():  # that there is one process, where there is one
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        load(targets, storage_reader=reader, no_dist=mesh is None)
    return {key: tensor.flatten(1) if key in by_feature else tensor for key, tensor in tensors.items()}


def _room(data: Any, mesh: Mesh | None) -> Tensor:
    """An empty tensor for a stored one, or for this process's part of its last axis."""
    *lead, last = data.size
    return torch.empty(*data.size if mesh is None else (*lead, last // mesh.num_parts), dtype=data.properties.dtype)


def _divided(part: Tensor, mesh: Mesh) -> DTensor:
    """A part as DCP sees it: one of several along the last axis, the same for every share of the rows."""
    return DTensor.from_local(part.contiguous(), mesh.grid, [Replicate(), Shard(part.ndim - 1)])


def _remove_others(checkpoint_dir: Path, keep: str) -> None:
    for path in checkpoint_dir.glob(f"{PREFIX}*"):
        if path.name != keep and path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
