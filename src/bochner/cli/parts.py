"""Rows to learn from, and rows to judge by."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from bochner.cli.rows import open_alike
from bochner.data import cache_to_disk, split
from bochner.data.blocks import Source, num_rows


class Parts(NamedTuple):
    """`learned` rows are trained on; `judged` are not, and `protocol` says which those are."""

    learned: Source
    judged: Source
    protocol: str


def set_aside(rows: Source, model: Any) -> Parts:
    """A part of the rows, by the estimator's fraction and seed.

    The estimator would set rows aside itself, but some of its solvers learn from them once they have chosen, and then
    no metric on them is honest. The heldout part is cached on disk: it is read often and lies
    scattered over the file.
    """
    learned, judged = split(rows, model.heldout_fraction, model.random_state)
    protocol = f"{num_rows(judged):,} of the {num_rows(rows):,} rows, drawn with seed {model.random_state}"
    return Parts(learned, cache_to_disk(judged), protocol)


def hold_out(rows: Source, heldout: Path, *, target: str | None, weight: str | None) -> Parts:
    """All rows of another file."""
    judged = open_alike(heldout, rows, target=target, weight=weight)
    return Parts(rows, judged, f"all {num_rows(judged):,} rows of {heldout}")
