"""A GMM-HMM: hidden Markov model, mixtures and feature transforms, stored in a directory without pickle."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bochner.checks import nonnegative_int
from bochner.speech.align.forced import Alignments, MixtureScores
from bochner.speech.frames import FrameStore, write_frames
from bochner.speech.frontend.postprocess import add_deltas, splice, transform
from bochner.speech.hmm.mixtures import Mixtures
from bochner.speech.hmm.model import Hmm
from bochner.speech.text_files import parse_json, read_skipped, write_skipped
from bochner.storage import read_tensors, write_atomically, write_tensors

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class View:
    """Frames [T, d] with `deltas` orders of deltas, `context` neighbours on each side, projected by `matrix`.

    >>> View(deltas=2)(np.zeros((5, 13), "float32")).shape
    (5, 39)
    """

    deltas: int = 0
    context: int = 0
    matrix: Array | None = None

    def __post_init__(self) -> None:
        nonnegative_int("deltas", self.deltas)
        nonnegative_int("context", self.context)

    def __call__(self, frames: Array) -> Array:
        seen = add_deltas(frames, order=self.deltas) if self.deltas else np.asarray(frames)
        seen = splice(seen, left=self.context, right=self.context) if self.context else seen
        return seen if self.matrix is None else transform(seen, self.matrix)


@dataclass(frozen=True, eq=False)
class ViewedFrames(Mapping[str, Array]):
    """The frames of each utterance as `view` shows them, then moved by its speaker's own transform, if it has one."""

    frames: Mapping[str, Array]
    view: View
    speaker_of: Mapping[str, str] = field(default_factory=dict)
    transforms: Mapping[str, Array] = field(default_factory=dict)
    kept: dict[str, Array] | None = None  # filled with what the view made

    def __getitem__(self, utterance: str) -> Array:
        seen = self._viewed(utterance)
        matrix = self.transforms.get(self.speaker_of.get(utterance, ""))
        return seen if matrix is None else transform(seen, matrix)

    def _viewed(self, utterance: str) -> Array:
        if self.kept is None:
            return self.view(self.frames[utterance])
        if utterance not in self.kept:
            self.kept[utterance] = self.view(self.frames[utterance])
        return self.kept[utterance]

    def __iter__(self) -> Iterator[str]:
        return iter(self.frames)

    def __len__(self) -> int:
        return len(self.frames)


def blocks(
    frames: Mapping[str, Array], labels: Mapping[str, Array], *, size: int = 100_000
) -> Iterator[tuple[Array, Array]]:
    """Frames [N, d] and labels [N] of many utterances at once, about `size` frames in each block."""
    held: list[str] = []
    for name in labels:
        held.append(name)
        if sum(len(labels[one]) for one in held) >= size:
            yield _block(frames, labels, held)
            held = []
    if held:
        yield _block(frames, labels, held)


def _block(frames: Mapping[str, Array], labels: Mapping[str, Array], names: Iterable[str]) -> tuple[Array, Array]:
    return np.concatenate([frames[name] for name in names]), np.concatenate([labels[name] for name in names])


ABOUT = "stage.json"
VERSION = 1


@dataclass(frozen=True, eq=False)
class GmmHmm:
    """An Hmm with the mixtures of its pdfs, how they see frames, and the alignment of the corpus they made.

    `transforms` holds the fMLLR transform of each training speaker (empty before SAT); `history` is the log likelihood
    a frame in each iteration.
    """

    hmm: Hmm
    mixtures: Mixtures
    view: View
    alignments: Alignments = field(default_factory=Alignments)
    transforms: Mapping[str, Array] = field(default_factory=dict)
    history: tuple[float, ...] = ()

    def seen(self, frames: Mapping[str, Array], speaker_of: Mapping[str, str]) -> ViewedFrames:
        """Frames as this stage's mixtures want them."""
        return ViewedFrames(frames, self.view, speaker_of, self.transforms)

    def scores(self, frames: Mapping[str, Array], speaker_of: Mapping[str, str]) -> MixtureScores:
        return MixtureScores(self.mixtures, self.seen(frames, speaker_of))

    @cached_property
    def labels(self) -> dict[str, Array]:
        """The pdf of each frame of the aligned utterances."""
        return {name: self.hmm.table.pdf[path] for name, path in self.alignments.paths.items()}

    @property
    def silence_pdfs(self) -> frozenset[int]:
        numbers = [self.hmm.phone_ids[name] for name in self.hmm.silence]
        return frozenset(self.hmm.table.pdf[np.isin(self.hmm.table.phone, numbers)].tolist())

    def save(self, directory: str | os.PathLike[str], *, settings: Mapping[str, Any] | None = None) -> None:
        """Write all of it or, after an error, nothing. `settings` is kept beside it as JSON."""
        final = Path(directory)
        partial = final.with_name(f"{final.name}.{secrets.token_hex(8)}.part")
        partial.mkdir(parents=True)
        try:
            self._write(partial, settings or {})
            partial.replace(final)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> GmmHmm:
        folder = Path(directory)
        about = read_about(folder)
        tensors, _ = read_tensors(folder / "transforms.safetensors")
        matrices = {name: tensor.numpy() for name, tensor in tensors.items()}
        paths = dict(FrameStore(folder / "alignments")) if (folder / "alignments").exists() else {}
        return cls(
            Hmm.load(folder),
            Mixtures.load(folder / "mixtures.safetensors"),
            View(about["deltas"], about["context"], matrices.pop("view", None)),
            Alignments(paths, read_skipped(folder)),
            {name.removeprefix("speaker."): matrix for name, matrix in matrices.items()},
            tuple(about["history"]),
        )

    def _write(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.hmm.save(folder)
        self.mixtures.save(folder / "mixtures.safetensors")
        matrices = {f"speaker.{name}": matrix for name, matrix in self.transforms.items()}
        if self.view.matrix is not None:
            matrices["view"] = self.view.matrix
        tensors = {name: torch.from_numpy(np.ascontiguousarray(matrix)) for name, matrix in matrices.items()}
        write_tensors(folder / "transforms.safetensors", tensors, {"transforms": VERSION})
        if self.alignments.paths:
            write_frames(folder / "alignments", self.alignments.paths.items(), about={"labels": "transition ids"})
        write_skipped(folder, self.alignments.skipped)
        about: dict[str, Any] = {"version": VERSION, "deltas": self.view.deltas, "context": self.view.context}
        about |= {"history": self.history, "settings": dict(settings)}
        write_atomically(folder / ABOUT, json.dumps(about, indent=1).encode())


def read_about(directory: str | os.PathLike[str]) -> dict[str, Any]:
    """The JSON beside a saved stage."""
    path = Path(directory) / ABOUT
    try:
        about: dict[str, Any] = parse_json(path.read_text(encoding="utf-8"))
        if about["version"] != VERSION:
            raise ValueError(f"version {about['version']!r}, this bochner reads {VERSION}")
        return about
    except FileNotFoundError as error:
        raise ValueError(f"{directory} must hold a trained stage, but {ABOUT} is missing.") from error
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not the description of a trained stage: {error!r}.") from error
