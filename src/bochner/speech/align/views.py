"""How a stage sees the frames of a corpus: with deltas, or spliced and projected, then adapted to the speaker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.checks import nonnegative_int
from bochner.speech.frontend.deltas import add_deltas
from bochner.speech.frontend.splice import splice, transform

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
