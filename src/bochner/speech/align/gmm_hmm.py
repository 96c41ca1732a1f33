"""A GMM-HMM: hidden Markov model, mixtures and feature transforms, stored in a directory without pickle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bochner.checks import nonnegative_int
from bochner.speech.align.forced import Alignments, MixtureScores
from bochner.speech.frames import Array, FrameStore, new_directory, write_frames
from bochner.speech.frontend.postprocess import add_deltas, splice, transform
from bochner.speech.hmm.mixtures import Mixtures
from bochner.speech.hmm.model import Hmm
from bochner.speech.text_files import FilePath, parse_json, read_skipped, write_skipped
from bochner.stages import write_json
from bochner.storage import read_tensors, write_tensors

RECORD = "stage.json"
VERSION = 1


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
        X = add_deltas(frames, order=self.deltas) if self.deltas else np.asarray(frames)
        X = splice(X, left=self.context, right=self.context) if self.context else X
        return X if self.matrix is None else transform(X, self.matrix)


@dataclass(frozen=True, eq=False)
class ViewedFrames(Mapping[str, Array]):
    """The frames of each utterance after `view` and, where there is one, the transform of its speaker."""

    frames: Mapping[str, Array]
    view: View
    speaker_of: Mapping[str, str] = field(default_factory=dict)
    transforms: Mapping[str, Array] = field(default_factory=dict)
    cache: dict[str, Array] | None = None  # filled with the outputs of the view

    def __getitem__(self, utterance: str) -> Array:
        X = self._viewed(utterance)
        matrix = self.transforms.get(self.speaker_of.get(utterance, ""))
        return X if matrix is None else transform(X, matrix)

    def _viewed(self, utterance: str) -> Array:
        if self.cache is None:
            return self.view(self.frames[utterance])
        if utterance not in self.cache:
            self.cache[utterance] = self.view(self.frames[utterance])
        return self.cache[utterance]

    def __iter__(self) -> Iterator[str]:
        return iter(self.frames)

    def __len__(self) -> int:
        return len(self.frames)


def blocks(
    frames: Mapping[str, Array], labels: Mapping[str, Array], *, size: int = 100_000
) -> Iterator[tuple[Array, Array]]:
    """Frames [N, d] and labels [N] of many utterances, about `size` frames in each block."""
    names: list[str] = []
    for name, last in zip(labels, reversed(range(len(labels))), strict=True):
        names.append(name)
        if not last or sum(len(labels[name]) for name in names) >= size:
            yield np.concatenate([frames[name] for name in names]), np.concatenate([labels[name] for name in names])
            names = []


@dataclass(frozen=True, eq=False)
class GmmHmm:
    """An Hmm with the mixtures of its pdfs, the view that computes their inputs, and the alignment of its training set.

    `transforms` holds the fMLLR transform of each training speaker (empty before SAT); `history` is the log likelihood
    per frame in each iteration.
    """

    hmm: Hmm
    mixtures: Mixtures
    view: View
    alignments: Alignments = field(default_factory=Alignments)
    transforms: Mapping[str, Array] = field(default_factory=dict)
    history: tuple[float, ...] = ()

    def viewed(self, frames: Mapping[str, Array], speaker_of: Mapping[str, str]) -> ViewedFrames:
        """The inputs of the mixtures."""
        return ViewedFrames(frames, self.view, speaker_of, self.transforms)

    def scores(self, frames: Mapping[str, Array], speaker_of: Mapping[str, str]) -> MixtureScores:
        return MixtureScores(self.mixtures, self.viewed(frames, speaker_of))

    @cached_property
    def labels(self) -> dict[str, Array]:
        """The pdf of each frame of the aligned utterances."""
        return {name: self.hmm.table.pdf[path] for name, path in self.alignments.paths.items()}

    @property
    def silence_pdfs(self) -> frozenset[int]:
        numbers = [self.hmm.phone_ids[name] for name in self.hmm.silence]
        return frozenset(self.hmm.table.pdf[np.isin(self.hmm.table.phone, numbers)].tolist())

    def save(self, directory: FilePath, *, settings: Mapping[str, Any] | None = None) -> None:
        """Write the model completely or, after an error, not at all; `settings` are stored with it as JSON."""
        with new_directory(Path(directory)) as partial:
            self._write(partial, settings or {})

    @classmethod
    def load(cls, directory: FilePath) -> GmmHmm:
        directory = Path(directory)
        stored = read_description(directory)
        tensors, _ = read_tensors(directory / "transforms.safetensors")
        matrices = {name: tensor.numpy() for name, tensor in tensors.items()}
        paths = dict(FrameStore(directory / "alignments")) if (directory / "alignments").exists() else {}
        return cls(
            Hmm.load(directory),
            Mixtures.load(directory / "mixtures.safetensors"),
            View(stored["deltas"], stored["context"], matrices.pop("view", None)),
            Alignments(paths, read_skipped(directory)),
            {name.removeprefix("speaker."): matrix for name, matrix in matrices.items()},
            tuple(stored["history"]),
        )

    def _write(self, directory: Path, settings: Mapping[str, Any]) -> None:
        self.hmm.save(directory)
        self.mixtures.save(directory / "mixtures.safetensors")
        matrices = {f"speaker.{name}": matrix for name, matrix in self.transforms.items()}
        if self.view.matrix is not None:
            matrices["view"] = self.view.matrix
        tensors = {name: torch.from_numpy(np.ascontiguousarray(matrix)) for name, matrix in matrices.items()}
        write_tensors(directory / "transforms.safetensors", tensors, {"transforms": VERSION})
        if self.alignments.paths:
            write_frames(directory / "alignments", self.alignments.paths.items(), about={"labels": "transition ids"})
        write_skipped(directory, self.alignments.skipped)
        about: dict[str, Any] = {"version": VERSION, "deltas": self.view.deltas, "context": self.view.context}
        write_json(directory / RECORD, about | {"history": self.history, "settings": dict(settings)})


def read_description(directory: FilePath) -> dict[str, Any]:
    """The version, view, history and settings of a saved model."""
    path = Path(directory) / RECORD
    try:
        stored: dict[str, Any] = parse_json(path.read_text(encoding="utf-8"))
        if stored["version"] != VERSION:
            raise ValueError(f"version {stored['version']!r}, this bochner reads {VERSION}")
        return stored
    except FileNotFoundError as error:
        raise ValueError(f"{directory} must hold a trained stage, but {RECORD} is missing.") from error
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not the description of a trained stage: {error!r}.") from error
