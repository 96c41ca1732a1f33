"""Agreement between aligned phone segments and reference segments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.checks import positive_float
from bochner.speech.manifest import Segment
from bochner.speech.score.error_rates import align

Array = NDArray[Any]


@dataclass(frozen=True)
class Agreement:
    """Counts over utterances; `boundaries_within` and `frames_right` are the shares of them.

    A boundary is the beginning of a phone other than the utterance's first. It counts as found when the same phone was
    aligned and begins within the tolerance. A frame counts as right when the phone in its middle is.
    """

    boundaries: int = 0
    found_boundaries: int = 0
    frames: int = 0
    right_frames: int = 0

    @property
    def boundaries_within(self) -> float:
        return self.found_boundaries / max(self.boundaries, 1)

    @property
    def frames_right(self) -> float:
        return self.right_frames / max(self.frames, 1)

    def __add__(self, other: Agreement) -> Agreement:
        return Agreement(
            self.boundaries + other.boundaries,
            self.found_boundaries + other.found_boundaries,
            self.frames + other.frames,
            self.right_frames + other.right_frames,
        )


def compare_segments(
    known: Sequence[Segment],
    found: Sequence[Segment],
    *,
    tolerance: float = 0.02,
    frame_shift: float = 0.01,
    fold: Mapping[str, str] | None = None,
) -> Agreement:
    """Agreement of the phones of one utterance; `fold` names labels to be taken for another first.

    The two may differ in their phones (another pronunciation, a silence more): their labels are then matched with as
    few edits as possible.

    >>> known = [Segment("a", 0.0, 0.1), Segment("b", 0.1, 0.2)]
    >>> found = [Segment("a", 0.0, 0.13), Segment("b", 0.13, 0.2)]
    >>> agreement = compare_segments(known, found)
    >>> agreement.boundaries_within, agreement.frames_right
    (0.0, 0.85)
    """
    positive_float("tolerance", tolerance)
    known, found = _folded(known, fold or {}), _folded(found, fold or {})
    pairs = [(i, j) for i, j in _matches([a.label for a in known], [b.label for b in found]) if i > 0]
    near = sum(abs(known[i].start - found[j].start) <= tolerance + 1e-6 for i, j in pairs)
    right, frames = _frames_right(known, found, positive_float("frame_shift", frame_shift))
    return Agreement(max(len(known) - 1, 0), near, frames, right)


def compare_all(pairs: Iterable[tuple[Sequence[Segment], Sequence[Segment]]], **settings: Any) -> Agreement:
    """The sum of `compare_segments` over (known, found) of many utterances."""
    return sum((compare_segments(known, found, **settings) for known, found in pairs), Agreement())


def _folded(segments: Sequence[Segment], fold: Mapping[str, str]) -> list[Segment]:
    return [segment._replace(label=fold.get(segment.label, segment.label)) for segment in segments]


def _matches(known: list[str], found: list[str]) -> list[tuple[int, int]]:
    """The places (i, j) of equal labels where the two are laid side by side."""
    pairs = align(known, found)
    i = np.cumsum([label is not None for label, _ in pairs]) - 1
    j = np.cumsum([other is not None for _, other in pairs]) - 1
    return [(int(i[k]), int(j[k])) for k, (label, other) in enumerate(pairs) if label == other]


def _frames_right(known: Sequence[Segment], found: Sequence[Segment], frame_shift: float) -> tuple[int, int]:
    end = min(known[-1].end, found[-1].end) if known and found else 0.0
    middles = np.arange(int(end / frame_shift + 1e-6)) * frame_shift + frame_shift / 2
    return int((_labels_at(known, middles) == _labels_at(found, middles)).sum()), len(middles)


def _labels_at(segments: Sequence[Segment], times: Array) -> Array:
    if not segments:
        return np.empty(len(times), dtype=str)
    places = np.searchsorted([segment.start for segment in segments], times, side="right") - 1
    return np.array([segment.label for segment in segments])[np.maximum(places, 0)]
