"""CTM files: one line `utterance channel start duration label` for each segment."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from bochner.speech.lines import numbered_lines
from bochner.speech.manifest import Segment
from bochner.storage import write_atomically


def write_ctm(path: str | os.PathLike[str], segments: Iterable[tuple[str, Sequence[Segment]]]) -> None:
    """Write (utterance id, segments) pairs, whole or not at all.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_ctm(folder + "/words.ctm", [("ann-1", [Segment("yes", 0.25, 0.5)])])
    ...     print(Path(folder, "words.ctm").read_text())
    ...     read_ctm(folder + "/words.ctm")
    ann-1 1 0.250 0.250 yes
    <BLANKLINE>
    {'ann-1': (Segment(label='yes', start=0.25, end=0.5),)}
    """
    lines = [
        f"{name} 1 {one.start:.3f} {one.end - one.start:.3f} {one.label}\n" for name, row in segments for one in row
    ]
    write_atomically(Path(path), "".join(lines).encode())


def read_ctm(path: str | os.PathLike[str]) -> dict[str, tuple[Segment, ...]]:
    """Segments by utterance id; a line that is not one is an error that names file and line."""
    found: dict[str, list[Segment]] = {}
    for number, line in numbered_lines(path):
        try:
            name, _, start, duration, label = line.split()[:5]
            segment = Segment(label, float(start), round(float(start) + float(duration), 6))
            if not 0 <= segment.start <= segment.end < math.inf:
                raise ValueError("no time")
        except ValueError as error:
            raise ValueError(
                f"{path}, line {number}: a CTM line is `utterance channel start duration label`, got {line!r}."
            ) from error
        found.setdefault(name, []).append(segment)
    return {name: tuple(row) for name, row in found.items()}
