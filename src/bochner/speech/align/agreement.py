"""Agreement between aligned phone segments and reference segments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass

import numpy as np

from bochner.checks import positive_float
from bochner.speech.frames import Array
from bochner.speech.manifest import Segment
from bochner.speech.score.error_rates import align


@dataclass(frozen=True)
class Agreement:
    """Counts over utterances; `boundaries_within` and `frames_right` are shares of them.

    A boundary is the beginning of a phone other than the utterance's first. It is found if the same phone was aligned
    and begins within the tolerance. A frame is right if the phone at its middle is.
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
        return Agreement(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def compare_segments(
    reference: Sequence[Segment],
    aligned: Sequence[Segment],
    *,
    tolerance: float = 0.02,
    frame_shift: float = 0.01,
) -> Agreement:
    """Agreement of the phones of one utterance.

    Where the two differ in their phones (another pronunciation, an additional silence), their labels are matched with
    the least number of edits.

    >>> reference = [Segment("a", 0.0, 0.1), Segment("b", 0.1, 0.2)]
    >>> aligned = [Segment("a", 0.0, 0.13), Segment("b", 0.13, 0.2)]
    >>> agreement = compare_segments(reference, aligned)
    >>> agreement.boundaries_within, agreement.frames_right
    (0.0, 0.85)
    """
    positive_float("tolerance", tolerance)
    labels = ([segment.label for segment in side] for side in (reference, aligned))
    pairs = [(i, j) for i, j in matching_labels(*labels) if i > 0]
    near = sum(abs(reference[i].start - aligned[j].start) <= tolerance + 1e-6 for i, j in pairs)
    end = min(reference[-1].end, aligned[-1].end) if reference and aligned else 0.0
    positive_float("frame_shift", frame_shift)
    middles = np.arange(int(end / frame_shift + 1e-6)) * frame_shift + frame_shift / 2
    right = int((_labels_at(reference, middles) == _labels_at(aligned, middles)).sum())
    return Agreement(max(len(reference) - 1, 0), near, len(middles), right)


def compare_all(pairs: Iterable[tuple[Sequence[Segment], Sequence[Segment]]], **settings: float) -> Agreement:
    """The sum of `compare_segments` over the (reference, aligned) segments of many utterances."""
    return sum((compare_segments(reference, aligned, **settings) for reference, aligned in pairs), Agreement())


def matching_labels(reference: list[str], aligned: list[str]) -> list[tuple[int, int]]:
    """The places (i, j) of equal labels in the alignment of the two sequences."""
    pairs = align(reference, aligned)
    i = np.cumsum([label is not None for label, _ in pairs]) - 1
    j = np.cumsum([other is not None for _, other in pairs]) - 1
    return [(int(i[k]), int(j[k])) for k, (label, other) in enumerate(pairs) if label == other]


def _labels_at(segments: Sequence[Segment], times: Array) -> Array:
    if not segments:
        return np.empty(len(times), dtype=str)
    places = np.searchsorted([segment.start for segment in segments], times, side="right") - 1
    return np.array([segment.label for segment in segments])[np.maximum(places, 0)]
