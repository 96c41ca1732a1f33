"""Estimates of how long the cells of a study take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bochner.studies.results_file import ResultsFile

# Floating-point operations per second that cells reach on one core and on one data-centre GPU. They are accurate to a
# factor of about three, and are replaced by the durations of stored cells.
SPEEDS = {"cpu": 3e10, "cuda": 1e13}
UNITS = ((86400.0, "days"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))

Operations = Callable[[Any], float]
"""Floating-point operations of a cell."""


@dataclass(frozen=True)
class Cost:
    """The cells of a run, those already stored, and the seconds for the others; None if unknown."""

    num_cells: int
    num_stored: int
    seconds: float | None
    source: str = ""

    def __str__(self) -> str:
        """
        >>> print(Cost(120, 20, 5400.0, "durations of 20 stored cells"))
        120 cells, 20 of them stored; the others take about 1.5 h (durations of 20 stored cells)
        >>> print(Cost(20, 20, 0.0))
        20 cells, all of them stored
        """
        if self.num_stored == self.num_cells:
            return f"{self.num_cells:,} cells, all of them stored"
        stored = f"{self.num_cells:,} cells, {self.num_stored:,} of them stored"
        if self.seconds is None:
            return f"{stored}; the time for the others is unknown"
        return f"{stored}; the others take about {duration_text(self.seconds)} ({self.source})"


def estimate(
    cells: Sequence[Any], results: ResultsFile[Any], operations: Operations | None, *, device: str = "cpu"
) -> Cost:
    """The cost of the cells that `results` does not have.

    Their operations are divided by the speed of the cells in the same file that were measured on the same kind of
    device; if there are none, by that of `SPEEDS`. Without `operations` all cells count equally.
    """
    kind = device.partition(":")[0]
    missing = [cell for cell in cells if results.get(cell) is None]
    durations = results.durations(kind)
    work = operations or (lambda cell: 1.0)
    todo, num_stored = sum(map(work, missing)), len(cells) - len(missing)
    if durations:
        seconds = todo * sum(durations.values()) / sum(map(work, durations))
        return Cost(len(cells), num_stored, seconds, f"durations of {len(durations):,} stored cells")
    speed = SPEEDS.get(kind)
    if operations is None or speed is None:
        return Cost(len(cells), num_stored, None)
    thing = "core" if kind == "cpu" else "GPU"
    return Cost(len(cells), num_stored, todo / speed, f"{todo:.1e} operations, {speed:.0e} per second on one {thing}")


def duration_text(seconds: float) -> str:
    """
    >>> duration_text(0.2), duration_text(75), duration_text(7200), duration_text(200_000)
    ('1 s', '1.2 min', '2 h', '2.3 days')
    """
    for size, unit in UNITS:
        if seconds >= size:
            return f"{seconds / size:.2g} {unit}" if seconds / size < 100 else f"{seconds / size:.0f} {unit}"
    return "1 s"


# -- operations of what the studies do -------------------------------------------------------------------------

# Rows, inputs and classes (or outputs) of the data sets.
SHAPES = {
    "digits": (1_797, 64, 10),
    "a9a": (32_561, 123, 2),
    "covtype": (92_962, 54, 7),
    "covtype, all rows": (581_012, 54, 7),
    "cpu": (6_554, 21, 1),
    "house": (22_784, 16, 1),
    "mnist": (60_000, 784, 10),
    "timit": (20_000, 429, 48),
    "ijcnn1": (49_990, 22, 2),
    "satimage": (4_435, 36, 6),
}
CELL = 6e8  # overhead of any cell, such as reading data: 0.02 s on one core
STOPPED = 0.5  # approximate share of the epochs before early stopping
KMEANS_STEPS = 20


def features(num_rows: float, num_inputs: float, num_features: float) -> float:
    """Z = z(X): a product, and as much again for cosines."""
    return num_rows * num_features * (2 * num_inputs + 20)


def training(
    num_rows: float, num_inputs: float, num_features: float, num_outputs: float, *, epochs: float, per_row: float = 0.0
) -> float:
    """SGD on features that are computed in every step; `per_row` adds the cost of a map beyond a product."""
    heads = 6 * num_rows * num_features * num_outputs
    return epochs * (features(num_rows, num_inputs, num_features) + heads + num_rows * per_row)


def kmeans(num_rows: float, num_inputs: float, num_centres: float) -> float:
    return KMEANS_STEPS * 3 * num_rows * num_inputs * num_centres


def eigenvalues(n: float) -> float:
    """Eigenvalues of a symmetric matrix: 4/3 n^3, at a third of the speed of products."""
    return 4 * n**3
