"""Files written and read by bochner: models and checkpoints."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from safetensors.torch import load_file, save_file
from torch import distributed as dist

import bochner
from bochner.data import ArraySource
from bochner.data.labels import StoredNames, read_names, write_names
from bochner.features import FourierMap
from bochner.kernels import Gaussian, Kernel, Matern
from bochner.models.heads import FeatureModel, LinearHead
from bochner.solvers import step
from bochner.solvers.optimizers import SGDSettings
from bochner.solvers.parallel import Workers
from bochner.solvers.preconditioner import stored_preconditioner
from bochner.solvers.sgd import train
from bochner.solvers.step import take_steps
from bochner.storage import read_tensors
from tests.fuzz.reader import Reader

RECIPE = SGDSettings(learning_rate=1.0, batch_size=4, max_epochs=2, optimizer="momentum", average=True)
PRECONDITIONED = replace(RECIPE, preconditioner_rank=2)
HEADER = (b"float32", b"F64", b"I32", b"[1]", b"[0,4]", b"-1", b"1e9", b"[]", b"{}")


def header_of(make: Callable[[Path], Path]) -> Callable[[Path], Path]:
    """The header of a file alone: an edit of the file itself is usually detected by its lengths and its checksum."""

    def made(folder: Path) -> Path:
        path = make(folder)
        tensors, header = read_tensors(path)
        save_file(tensors, path.with_suffix(".tensors"))
        path.with_suffix(".header").write_text(json.dumps(header))
        return path.with_suffix(".header")

    return made


def under_header(read: Callable[[Path], object]) -> Callable[[Path], object]:
    """Read the file that has this header, and no checksum."""

    def read_file(header: Path) -> object:
        text, path = header.read_bytes().decode(errors="replace"), header.with_suffix(".safetensors")
        save_file(load_file(header.with_suffix(".tensors")), path, {"bochner": text})
        return read(path)

    return read_file


def kernel(folder: Path) -> Path:
    bochner.save(mixed(), folder / "good.safetensors")
    return folder / "good.safetensors"


def mixed() -> Kernel:
    return 0.5 * Gaussian(bandwidth=2.0) + Matern(scale=torch.ones(3))


def read_the_same(path: Path) -> object:
    """With a checksum, only the content that was written is read."""
    found, X = bochner.load(path), torch.eye(3)
    assert torch.equal(found(X, X), mixed()(X, X)), "a damaged file was accepted"
    return found


def classifier(folder: Path) -> Path:
    X, y = points()
    fitted = bochner.KernelClassifier(
        preset=None, solver="sgd", n_components=4, random_state=0, solver_params={"max_epochs": 1, "learning_rate": 1.0}
    )
    bochner.save(fitted.fit(X, y), folder / "good.safetensors")
    return folder / "good.safetensors"


def read_and_predict(path: Path) -> object:
    X, _ = points()
    return bochner.load(path).predict(X)


@cache
def points() -> tuple[torch.Tensor, torch.Tensor]:
    X = torch.randn(12, 2, generator=torch.Generator().manual_seed(0))
    return X, (X[:, 0] > 0).long()


def resume(folder: Path, *, seconds: float = 60.0, group: Workers | None = None) -> object:
    """The rest of a run of two epochs, of three steps each."""
    rows, options = ArraySource(*points()), {"checkpoint_dir": folder, "checkpoint_seconds": seconds}
    return train(tiny(), rows, rows, RECIPE, **options, verbose=False, group=group)


def resume_copy(path: Path) -> object:
    """`resume` in a copy of the folder: a run that goes on changes its files."""
    run = path.parent.parent if path.parent.name.startswith("parts-") else path.parent
    copy = run.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(run, copy)
    try:
        return resume(copy)
    except ValueError as error:
        raise ValueError(str(error).replace(str(copy), str(run))) from error


class StoppedError(Exception):
    pass


def stopped(name: str) -> Callable[..., Path]:
    """A file of a run that was stopped in its second epoch."""

    def make(folder: Path, group: Workers | None = None) -> Path:
        steps = iter(range(5))

        def stop_or_step(*arguments: Any, **more: Any) -> None:
            if next(steps, None) is None:
                raise StoppedError
            take_steps(*arguments, **more)

        with suppress(StoppedError), patch.object(step, "take_steps", stop_or_step):
            resume(folder / "run", seconds=0.0, group=group)
        return next((folder / "run").rglob(name))

    return make


def by_workers(make: Callable[..., Path]) -> Callable[[Path], Path]:
    """The same by a process group, if only of one process."""

    def made(folder: Path) -> Path:
        dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=0, world_size=1)
        try:
            return make(folder, Workers())
        finally:
            dist.destroy_process_group()

    return made


def tiny() -> FeatureModel:
    z = FourierMap.draw(Gaussian(), num_inputs=2, num_features=4, generator=torch.Generator().manual_seed(1))
    return FeatureModel(z, LinearHead.zeros(num_features=4, num_outputs=2))


def preconditioner(folder: Path) -> Path:
    stored_preconditioner(tiny(), ArraySource(*points()), PRECONDITIONED, folder, {"seed": 0})
    return folder / "preconditioner.safetensors"


def read_preconditioner(path: Path) -> object:
    return stored_preconditioner(tiny(), ArraySource(*points()), PRECONDITIONED, path.parent, {"seed": 0})


def names(folder: Path) -> Path:
    write_names(folder, StoredNames(("no", "yes"), ("age", "hours")))
    return folder / "names.json"


CHECKPOINT, TENSORS = stopped("checkpoint.safetensors"), stopped("*.safetensors")
STORED_READERS: dict[str, Reader] = {
    "model": Reader(kernel, read_the_same, HEADER),
    "model's header": Reader(header_of(kernel), under_header(bochner.load), (*HEADER, b"Gaussian", b"bandwidth")),
    "classifier's header": Reader(header_of(classifier), under_header(read_and_predict), (*HEADER, b"Gaussian")),
    "checkpoint": Reader(CHECKPOINT, resume_copy, HEADER),
    "checkpoint's header": Reader(header_of(CHECKPOINT), under_header(resume_copy), HEADER),
    "preconditioner's header": Reader(header_of(preconditioner), under_header(read_preconditioner), HEADER),
    "checkpoint of workers": Reader(by_workers(stopped("checkpoint.json")), resume_copy, (*HEADER, b"parts-0")),
    "parts of workers": Reader(by_workers(TENSORS), resume_copy, HEADER),
    "names of rows": Reader(names, lambda path: read_names(path.parent), HEADER),
}
