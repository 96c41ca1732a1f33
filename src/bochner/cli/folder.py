"""The folder of a training run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from bochner.cli.models import MODEL_FILE
from bochner.storage import Storable

Options = dict[str, Any]


class RunFolder:
    """What a run leaves: config.json at its start, checkpoint/ on its way, and at its end history.jsonl,
    heldout_metrics.json, the model's card and, last of all, model.safetensors, which marks the run as finished."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.model, self.config = path / MODEL_FILE, path / "config.json"
        self.history, self.metrics = path / "history.jsonl", path / "heldout_metrics.json"
        self.card, self.page = path / "model_card.json", path / "model_card.md"
        self.checkpoint = path / "checkpoint"

    def refuse_finished(self) -> None:
        if self.model.exists():
            raise ValueError(
                f"output_dir: {self.path} holds a finished model; choose another --output_dir, or give --overwrite."
            )

    def begin(self, options: Options, *, overwrite: bool) -> None:
        """Make the folder for these options, or find it as a run with the same options left it when it was stopped."""
        if not overwrite and self.has_checkpoint():
            _check_same(self.config, options)
        else:  # a run that ended before its first checkpoint has nothing to keep
            self.clear()
        self.path.mkdir(parents=True, exist_ok=True)
        self.config.write_text(json.dumps(options, indent=1) + "\n")

    def finish(self) -> None:
        """What was for resuming goes; the model is there."""
        shutil.rmtree(self.checkpoint, ignore_errors=True)

    def clear(self) -> None:
        """Remove a run's files, and nothing else that may be in the folder."""
        for file in (self.model, self.config, self.history, self.metrics, self.card, self.page):
            file.unlink(missing_ok=True)
        shutil.rmtree(self.checkpoint, ignore_errors=True)

    def has_checkpoint(self) -> bool:
        """That of a single process, or of several."""
        return any(self.checkpoint.rglob("checkpoint.safetensors")) or any(self.checkpoint.rglob("checkpoint.json"))

    def epochs_done(self) -> int:
        """Epochs that an earlier start of this run has finished."""
        return sum(len(file.read_text().splitlines()) for file in self.checkpoint.rglob("history.jsonl"))


def as_options(arguments: Mapping[str, Any]) -> Options:
    """Arguments as `--config` reads them, but for how progress is shown."""
    return {name: _plain(value) for name, value in arguments.items() if name != "verbose"}


def _plain(value: Any) -> Any:
    if isinstance(value, Path | torch.device):
        return str(value)
    if isinstance(value, Storable):
        arguments = {name: _plain(part) for name, part in value.arguments().items()}
        return {"class_path": f"bochner.kernels.{type(value).__name__}", "init_args": arguments}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return {key: _plain(part) for key, part in value.items()} if isinstance(value, dict) else value


def _check_same(config: Path, options: Options) -> None:
    try:
        found = dict(json.loads(config.read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(f"{config} must be the configuration of the run beside it: {error}") from error
    wanted = json.loads(json.dumps(options))  # keys of dictionaries become text there too
    names = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
    if names:
        changes = ", ".join(f"{name}: {found.get(name)!r} there, {wanted.get(name)!r} here" for name in names)
        raise ValueError(
            f"output_dir: {config.parent} holds an unfinished run of another configuration ({changes}); choose another "
            f"--output_dir, or give --overwrite."
        )
