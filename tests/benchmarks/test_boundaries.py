"""The benchmark of boundaries: folded labels, errors."""

from __future__ import annotations

import numpy as np

from benchmarks.boundaries import boundary_errors, folded, row
from bochner.speech.manifest import Segment


def segments(*labels: str) -> list[Segment]:
    return [Segment(label, float(place), place + 1.0) for place, label in enumerate(labels)]


def test_closures_and_glottal_stops_belong_to_the_phone_after_them() -> None:
    phones = folded(segments("h#", "q", "aa", "tcl", "t", "kcl", "pau", "epi", "dcl", "jh", "q", "h#"))
    assert [(p.label, p.start) for p in phones] == [
        ("SIL", 0.0), ("AA", 1.0), ("T", 3.0), ("K", 5.0), ("SIL", 6.0), ("JH", 8.0), ("SIL", 10.0),
    ]  # fmt: skip


def test_errors_of_matching_phones() -> None:
    reference = segments("a", "b", "c")
    aligned = [Segment("a", 0.0, 1.004), Segment("x", 1.004, 1.5), Segment("c", 2.03, 3.0)]
    np.testing.assert_allclose(boundary_errors([(reference, aligned)]), [30.0])
    assert row("m", "phones", 1, np.array([4.0, -30.0]))[4:] == [
        "50.0 %", "50.0 %", "50.0 %", "100.0 %", "100.0 %", "17.0", "17.0",
    ]  # fmt: skip
