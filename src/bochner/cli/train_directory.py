"""The output directory of `bochner train`: its files, its configuration, and the model in it."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from bochner.estimators.base import BaseModel
from bochner.remote import AnyPath, Mirror, is_url, path_of
from bochner.search.plan import resolve_device
from bochner.stages import changed_inputs, check_inputs, locked, write_json
from bochner.storage import Storable, load

Options = dict[str, Any]
MODEL_FILE, CARD_FILE = "model.safetensors", "model_card.json"


class TrainDirectory:
    """Files of a training run.

    `config.json` is written at the start and `checkpoint/` during training; at the end come `history.jsonl`,
    `validation_scores.json`, `model_card.json` and `.md`, and last `model.safetensors`: a run with a model is finished.
    The files of a directory at a URL are in the local `path`, and are uploaded as they are written.
    """

    def __init__(self, location: str | Path) -> None:
        self._mirror = Mirror(str(location)) if is_url(location) else None
        self.location = str(location) if self._mirror is None else self._mirror.url
        self.path = path = Path(location) if self._mirror is None else self._mirror.path
        if path.exists() and not path.is_dir():
            raise ValueError(f"output_dir must be a directory, got the file {path}.")
        self.model, self.config = path / MODEL_FILE, path / "config.json"
        self.history, self.scores = path / "history.jsonl", path / "validation_scores.json"
        self.card, self.card_page = path / CARD_FILE, path / "model_card.md"
        self.checkpoint = path / "checkpoint"

    def is_finished(self, options: Options) -> bool:
        """Whether the model of these options and data files exists; a model of others is an error."""
        if not self.model.exists():
            return False
        try:
            changes = changed_inputs(self._stored_options(), json.loads(json.dumps(options)))
            if not changes:
                stored = dict(json.loads(self.card.read_bytes())["data"]["sha256"])
                changes = changed_inputs(stored, data_checksums(options))
        except (OSError, ValueError, KeyError, TypeError) as error:
            changes = str(error)
        if changes:
            raise ValueError(
                f"output_dir: {self.location} holds a finished model of another run ({changes}); choose another "
                "--output_dir, or give --overwrite."
            )
        return True

    @contextmanager
    def run(self, options: Options, *, overwrite: bool) -> Iterator[None]:
        """Hold the lock of the directory during a run with these options, which resumes an interrupted one.

        An interrupted run with other options is an error unless `overwrite` is set.
        """
        with locked(self.path):
            if not overwrite and self.model.exists():
                raise ValueError(f"output_dir: another process has finished a run in {self.location} just now.")
            if not overwrite and self.has_checkpoint():
                check_inputs(self.location, self._stored_options(), json.loads(json.dumps(options)))
            else:
                self.clear()
            for unfinished in self.path.glob("*.part"):  # of a process that was killed while it wrote
                unfinished.unlink()
            write_json(self.config, options)
            yield
            self._remove(self.checkpoint)

    def clear(self) -> None:
        """Remove the files of a run, and no others."""
        self._remove(self.model, self.config, self.history, self.scores, self.card, self.card_page, self.checkpoint)

    def _remove(self, *paths: Path) -> None:
        for path in paths:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        if self._mirror is not None:
            self._mirror.finish()

    def has_checkpoint(self) -> bool:
        """Whether there is a checkpoint of one process or of several, or what a stage such as a search has finished."""
        return any(
            path.suffix == ".safetensors" or path.name == "checkpoint.json" for path in self.checkpoint.rglob("*")
        )

    def epochs_done(self) -> int:
        """The number of epochs that an interrupted run has finished."""
        return sum(len(file.read_text().splitlines()) for file in self.checkpoint.rglob("history.jsonl"))

    def _stored_options(self) -> Options:
        try:
            return dict(json.loads(self.config.read_text()))
        except (OSError, ValueError, TypeError) as error:
            raise ValueError(f"{self.config} is not the configuration of a run: {error}") from error


def plain_options(arguments: Mapping[str, Any]) -> Options:
    """Arguments as plain values that `--config` reads."""
    return {name: _plain(value) for name, value in arguments.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Path | torch.device):
        return str(value)
    if isinstance(value, Storable):
        arguments = {name: _plain(argument) for name, argument in value.arguments().items()}
        return {"class_path": f"bochner.kernels.{type(value).__name__}", "init_args": arguments}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return {key: _plain(item) for key, item in value.items()} if isinstance(value, dict) else value


def data_checksums(options: Options) -> dict[str, str]:
    """The SHA-256 of the files that the rows came from; target and weight may be separate files."""
    names = [Path(str(options[name])) for name in ("target", "weight") if options.get(name) is not None]
    arrays = [path for path in names if path.suffix == ".npy" and path.is_file()]
    data = [str(options[name]) for name in ("data", "validation_data") if options.get(name)]
    return {path: checksum(path_of(path)) for path in (*data, *map(str, arrays))}


def checksum(path: AnyPath) -> str:
    """SHA-256 of a file, as sha256sum prints it; of a directory, that of one line "CHECKSUM  NAME" per file in it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     _ = Path(directory, "a").write_bytes(b"abc")
    ...     checksum(Path(directory, "a"))[:16], checksum(Path(directory))[:16]
    ('ba7816bf8f01cfea', '60eb527cba799edb')
    """
    if not path.is_dir():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    files: dict[str, Any] = (
        {file.relative_to(path).as_posix(): file for file in path.rglob("*") if file.is_file()}
        if isinstance(path, Path)
        else path.files()
    )
    lines = (f"{checksum(file)}  {name}\n" for name, file in sorted(files.items()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def model_file(model: Path) -> Path:
    """The path of a model file: `model` itself, or the one in the output directory of `bochner train`."""
    if model.is_dir() and not (model / MODEL_FILE).exists():
        raise ValueError(f"{model} holds no {MODEL_FILE}: it is not the directory of a finished `bochner train`.")
    return model / MODEL_FILE if model.is_dir() else model


def load_model(model: Path, *, device: str = "auto") -> Any:
    """Load the fitted classifier or regressor in a file or directory onto a device."""
    path = model_file(model)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    estimator = load(path, device=resolve_device(device))
    if not isinstance(estimator, BaseModel):
        raise ValueError(f"{path} must hold a classifier or regressor, got {type(estimator).__name__}.")
    return estimator
