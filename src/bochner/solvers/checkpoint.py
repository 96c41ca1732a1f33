"""Checkpoints of training: one safetensors file from one process, one directory of parts from several.

This module also writes and reads the preconditioner of a run and the losses of rates that were tried. Several processes
use torch.distributed.checkpoint (DCP) with its safetensors writer: DCP's default writer stores its metadata as a
pickle, which can run code. All other state is JSON.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn

from bochner import checks
from bochner.solvers.signals import HeldSignals
from bochner.storage import read_tensors, sync_directory, write_atomically, write_tensors

if TYPE_CHECKING:
    from bochner.solvers.parallel.workers import Workers

FILE_NAME = "checkpoint.safetensors"
SHARED_NAME = "checkpoint.json"  # written by several processes: names the directory of parts that is complete
PREFIX = "parts-"
BY_FEATURE = "by_feature"  # the key under which the state lists the tensors that are divided by features

Checkpoint = tuple[dict[str, Tensor], dict[str, Any]]  # tensors, and the rest of the state


def write_checkpoint(
    checkpoint_dir: Path,
    tensors: Mapping[str, Tensor],
    state: Mapping[str, Any],
    *,
    name: str = FILE_NAME,
    model: nn.Module | None = None,
    group: Workers | None = None,
) -> None:
    """Replace the checkpoint in `checkpoint_dir` atomically: an interruption or a full disk leaves the previous one.

    With a `group`, all its processes make this call; `model` is this process's part of the model.
    """
    checkpoint_dir.mkdir(parents=True, exist_ok=True)
    path = checkpoint_dir / (name if group is None else SHARED_NAME)
    try:
        if group is None:
            write_tensors(path, tensors, state)
            if name == FILE_NAME and (checkpoint_dir / SHARED_NAME).exists():  # a single process has taken over
                (checkpoint_dir / SHARED_NAME).unlink()
                _remove_parts(checkpoint_dir)
        else:
            assert model is not None
            _write_parts(checkpoint_dir, tensors, state, model, group)
    except OSError as error:
        raise OSError(
            error.errno,
            f"could not write a checkpoint ({os.strerror(error.errno or 0)}); the last complete one is kept. Free some "
            "space and run the same command again to resume",
            str(path),
        ) from error


def read_checkpoint(
    checkpoint_dir: Path,
    fingerprint: Mapping[str, Any],
    *,
    name: str = FILE_NAME,
    model: nn.Module | None = None,
    group: Workers | None = None,
) -> Checkpoint | None:
    """The latest checkpoint in `checkpoint_dir`, or None; a ValueError if it was written by another configuration.

    Any number of processes may have written it. With a `group` and the whole `model`, tensors divided by features are
    returned as the columns of this process.
    """
    single = _read_single(checkpoint_dir / name, fingerprint)
    if single is not None and group is not None and model is not None:
        single = (group.own_columns(single[0], model), single[1])
    if name != FILE_NAME or not (checkpoint_dir / SHARED_NAME).exists():
        return single
    shared = read_parts(checkpoint_dir, fingerprint, group=group)
    if single is None:
        return shared
    try:  # an interruption between two writes may leave both
        return max(single, shared, key=lambda checkpoint: (checkpoint[1]["epoch"], checkpoint[1]["batch"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"{checkpoint_dir} holds a checkpoint without a position ({error!r}); delete it.") from error


class SolverCheckpoints:
    """Checkpoints of an iterative solver, as a context manager.

    `keep` writes one every `seconds`, and when SIGTERM or SIGINT was received, which takes effect afterwards. Without a
    `checkpoint_dir` it does nothing.
    """

    def __init__(self, checkpoint_dir: Path | None, fingerprint: Mapping[str, Any], *, seconds: float) -> None:
        self._directory, self._fingerprint, self._seconds = checkpoint_dir, dict(fingerprint), seconds
        self._held, self._last = HeldSignals(), time.monotonic()

    def read(self, expected: Mapping[str, Tensor], *positive: str) -> Checkpoint | None:
        """The last checkpoint or None; its tensors must have the expected shapes and dtypes, and the named numbers must
        be positive."""
        stored = None if self._directory is None else read_checkpoint(self._directory, self._fingerprint)
        if self._directory is None or stored is None:
            return None
        with readable(self._directory):
            tensors = {name: stored[0][name].to(like.device) for name, like in expected.items()}
            check_alike(tensors, expected)
            numbers = {name: checks.positive_float(name, stored[1][name]) for name in positive}
        return tensors, numbers

    def keep(self, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        if self._directory is None:
            return
        ends = self._held.received is not None
        if ends or time.monotonic() - self._last >= self._seconds:
            write_checkpoint(self._directory, tensors, {**state, "fingerprint": self._fingerprint})
            self._last = time.monotonic()
        if ends:
            self._held.deliver()

    def __enter__(self) -> Self:
        if self._directory is not None:
            self._held.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._held.__exit__(*error)


def check_alike(tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Raise an error unless each expected tensor has its shape and dtype: others would be broadcast silently."""
    for name, like in expected.items():
        if name not in tensors or (tensors[name].shape, tensors[name].dtype) != (like.shape, like.dtype):
            raise ValueError(f"{name} must be {like.dtype} {list(like.shape)}")


class StoredValues:
    """A mapping from numbers to numbers, such as the loss of each learning rate tried, stored as they are computed.

    The same configuration reads them again. In a `group`, whose processes compute the same numbers, the first one
    writes.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     StoredValues(Path(name), {"seed": 0}, name="rates.safetensors").add({0.5: 1.25})
    ...     StoredValues(Path(name), {"seed": 0}, name="rates.safetensors").values
    {0.5: 1.25}
    """

    def __init__(
        self, checkpoint_dir: Path, fingerprint: Mapping[str, Any], *, name: str, group: Workers | None = None
    ) -> None:
        self._directory, self._fingerprint, self._name = checkpoint_dir, dict(fingerprint), name
        self._is_writer = group is None or group.is_first
        self.values: dict[float, float] = {}
        stored = read_checkpoint(checkpoint_dir, fingerprint, name=name)
        if stored is not None:
            with readable(checkpoint_dir):
                self.values = dict(zip(*(stored[0][key].tolist() for key in ("arguments", "values")), strict=True))

    def add(self, values: Mapping[float, float]) -> None:
        self.values |= values
        if self._is_writer:
            columns = {"arguments": list(self.values), "values": list(self.values.values())}
            tensors = {key: torch.tensor(column, dtype=torch.float64) for key, column in columns.items()}
            write_checkpoint(self._directory, tensors, {"fingerprint": self._fingerprint}, name=self._name)


@contextmanager
def readable(checkpoint_dir: Path) -> Iterator[None]:
    """Turn any failure within into a ValueError that names the directory of the checkpoint.

    >>> with readable(Path("out/run")):
    ...     {}["epoch"]
    Traceback (most recent call last):
    ...
    ValueError: out/run holds a checkpoint from which training cannot resume (KeyError('epoch')); delete it to restart.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{checkpoint_dir} holds a checkpoint from which training cannot resume ({error!r}); delete it to restart."
        ) from error


def _read_single(path: Path, fingerprint: Mapping[str, Any]) -> Checkpoint | None:
    if not path.exists():
        return None
    tensors, state = read_tensors(path)
    _check_fingerprint(path, state, fingerprint)
    return tensors, state


def _check_fingerprint(path: Path, state: Mapping[str, Any], fingerprint: Mapping[str, Any]) -> None:
    stored = state.get("fingerprint")
    if not isinstance(stored, dict):
        raise ValueError(f"{path} is not a training checkpoint.")
    differing = sorted(key for key in {*stored, *fingerprint} if stored.get(key) != fingerprint.get(key))
    if differing:
        changes = ", ".join(f"{key}: {stored.get(key)!r} there, {fingerprint.get(key)!r} here" for key in differing)
        raise ValueError(f"{path} belongs to another configuration ({changes}); use another directory or delete it.")


def _write_parts(
    checkpoint_dir: Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any], model: nn.Module, group: Workers
) -> None:
    """Each process writes its part into a new directory; then one file, replaced atomically, names that directory.

    Tensors divided by features, [lead, D / parts], are stored as parts of [lead, forms, P], P the number of frequencies
    and forms 2 where each has a cosine and a sine: the position of an entry does not depend on the number of parts.
    """
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    name = f"{PREFIX}{int(group.agree(secrets.randbits(48))):012x}"
    by_feature, forms = group.divided(tensors, model)
    parts = {
        key: _as_shard(tensor.reshape(len(tensor), forms, -1), group) if key in by_feature else tensor.contiguous()
        for key, tensor in tensors.items()
    }
    try:
        save(parts, storage_writer=HuggingFaceStorageWriter(str(checkpoint_dir / name), save_distributed=True))
    except CheckpointException as error:
        cause = next(iter(error.failures.values()))[0]  # of any process
        if isinstance(cause, OSError):
            raise cause from error
        raise
    if group.is_first:
        for part in (checkpoint_dir / name).iterdir():  # on disk before a file names them
            with part.open("rb") as file:
                os.fsync(file.fileno())
        sync_directory(checkpoint_dir / name)
        description = {"directory": name, **state, BY_FEATURE: sorted(by_feature)}
        write_atomically(checkpoint_dir / SHARED_NAME, json.dumps(description).encode())
        _remove_parts(checkpoint_dir, keep=name)
        (checkpoint_dir / FILE_NAME).unlink(missing_ok=True)
    group.wait()  # a process that ends now ends with the others


def read_parts(checkpoint_dir: Path, fingerprint: Mapping[str, Any], *, group: Workers | None = None) -> Checkpoint:
    """Read the checkpoint of several processes: whole tensors, or with a `group` this process's columns of divided
    ones."""
    path = checkpoint_dir / SHARED_NAME
    try:
        state = dict(json.loads(path.read_text()))
        by_feature, directory = set(map(str, state[BY_FEATURE])), Path(state["directory"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{path} is not a checkpoint of several processes: {error!r}") from error
    if directory.name != str(directory) or not directory.name.startswith(PREFIX):
        raise ValueError(f"{path} must name a directory next to it, got {str(directory)!r}.")
    _check_fingerprint(path, state, fingerprint)
    try:
        return _load_parts(checkpoint_dir / directory, by_feature, group), state
    except Exception as error:  # a damaged file can fail in any way
        raise ValueError(f"{checkpoint_dir / directory} does not hold the parts of a checkpoint: {error}") from error


def _load_parts(directory: Path, by_feature: set[str], group: Workers | None) -> dict[str, Tensor]:
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.metadata import BytesStorageMetadata
    from torch.distributed.checkpoint.state_dict_loader import load

    reader = HuggingFaceStorageReader(str(directory))
    tensors: dict[str, Tensor] = {}
    targets: dict[str, Tensor] = {}
    for key, data in reader.read_metadata().state_dict_metadata.items():
        if isinstance(data, BytesStorageMetadata):
            raise TypeError(f"{key} must be a tensor")
        *lead, last = data.size
        divided = group if group is not None and group.num_parts > 1 and key in by_feature else None
        size = data.size if divided is None else (*lead, last // divided.num_parts)
        tensors[key] = torch.empty(*size, dtype=data.properties.dtype)
        targets[key] = tensors[key] if divided is None else _as_shard(tensors[key], divided)
    with warnings.catch_warnings():  # that torch.distributed is disabled, in a single process
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        load(targets, storage_reader=reader, no_dist=group is None)
    return {key: tensor.flatten(1) if key in by_feature else tensor for key, tensor in tensors.items()}


def _as_shard(part: Tensor, group: Workers) -> Tensor:
    """A part as a shard for DCP: one of several along the last axis, the same for all shares of the rows."""
    from torch.distributed.tensor import DTensor, Replicate, Shard

    return DTensor.from_local(part.contiguous(), group.grid, [Replicate(), Shard(part.ndim - 1)])


def _remove_parts(checkpoint_dir: Path, keep: str = "") -> None:
    for path in checkpoint_dir.glob(f"{PREFIX}*"):
        if path.name != keep and path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
