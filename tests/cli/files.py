"""Small data files, and a function that runs the command line in tests."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from bochner.cli import main

NAMES = ["red", "green", "blue, dark"]  # a comma, since CSV must quote it


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


def run(capsys: pytest.CaptureFixture[str], *words: object) -> Outcome:
    """Run `bochner words...` in this process; returns the exit code and the output."""
    capsys.readouterr()
    code = 0
    try:
        main([str(word) for word in words])
    except SystemExit as stopped:
        code = stopped.code if isinstance(stopped.code, int) else 1
    return Outcome(code, *capsys.readouterr())


def rings(num_rows: int, *, seed: int = 0) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Points in the plane, and the one of three rings in which each lies."""
    X = np.random.default_rng(seed).normal(size=(num_rows, 2))
    return X, np.digitize(np.linalg.norm(X, axis=1), [0.8, 1.5])


def write_csv(path: Path, columns: dict[str, Sequence[Any]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def rings_csv(path: Path, num_rows: int, *, seed: int = 0) -> Path:
    X, y = rings(num_rows, seed=seed)
    return write_csv(path, {"east": X[:, 0], "north": X[:, 1], "ring": [NAMES[place] for place in y]})


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))
