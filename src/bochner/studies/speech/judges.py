"""Rows of one task as one number for each thing that the papers say. Error rates in percent points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from bochner.acoustic.settings import KERNELS
from bochner.studies.findings import Judge, Verdict, by, over_sets
from bochner.studies.speech.cells import DEPTH
from bochner.studies.speech.rows import NAMES, averaged, correlations
from bochner.studies.study import Row

Rows = Sequence[Row]
Number = Callable[[Rows], float | None]


def judge_tasks(number: Number, word: str, *, below: float = float("inf"), above: float = float("-inf")) -> Judge:
    """A verdict over tasks, each by its own rows."""

    def judge(rows: Rows) -> Verdict | None:
        values = {name: number(mine) for (name,), mine in by(rows, "data").items()}
        return over_sets(values, word, below=below, above=above)

    return judge


def change_by(trick: str, *, off: object = False, on: object = True) -> Number:
    """The mean change of the error rate by a trick, over pairs of models that differ in nothing else."""

    def number(rows: Rows) -> float | None:
        others = [name for name in NAMES if name != trick]
        found = [{row[trick]: row["ter"] for row in pair} for pair in by(averaged(rows), *others).values()]
        changes = [pair[on] - pair[off] for pair in found if len(pair) == 2]
        return 100 * fmean(changes) if changes else None

    return number


def laplacian_gain(rows: Rows) -> float | None:
    """What selection takes off the error rate with the Laplacian kernel, less the most that it does with another."""
    changes = {kernel: change_by("selection")(_of(rows, kernel)) for kernel in KERNELS}
    known = {kernel: -change for kernel, change in changes.items() if change is not None}
    return known.pop("laplacian") - max(known.values()) if len(known) == len(KERNELS) else None


def sparse_ahead(rows: Rows) -> float | None:
    """The least error rate of Laplacian and sparse Gaussian models, less that of Gaussian ones."""
    best = {kernel: min((row["ter"] for row in averaged(_of(rows, kernel))), default=None) for kernel in KERNELS}
    known = {kernel: value for kernel, value in best.items() if value is not None}
    return 100 * (min(known["laplacian"], known["sparse-gaussian"]) - known["gaussian"]) if len(known) == 3 else None


def kernel_behind(rows: Rows) -> float | None:
    """The error rate of the best kernel on test less that of the best network."""
    found = {row["kind"]: row["test_ter"] for row in rows}
    return 100 * (found["kernel"] - found["network"]) if len(found) == 2 else None


def erll_ahead(rows: Rows) -> float | None:
    """The correlation of ERLL with the error rate less that of the cross-entropy."""
    found = correlations(rows)
    ours, theirs = found["erll:1"], found["erll:0"]
    return None if ours is None or theirs is None else ours - theirs


def features_change(rows: Rows) -> float | None:
    """The mean change of the error rate from the fewest features to the most."""
    kinds = by(averaged(rows), "model", "selection").values()
    changes = [_at(mine, max)["ter"] - _at(mine, min)["ter"] for mine in kinds if len(mine) > 1]
    return 100 * fmean(changes) if changes else None


def four_ahead(rows: Rows) -> float | None:
    """The mean error rate over widths of four layers, less the least of another depth."""
    means = {depth: fmean(row["ter"] for row in mine) for (depth,), mine in by(averaged(rows), "depth").items()}
    four = means.pop(DEPTH, None)
    return 100 * (four - min(means.values())) if four is not None and means else None


def _of(rows: Rows, kernel: str) -> list[Row]:
    return [row for row in rows if row["model"] == kernel]


def _at(rows: Rows, which: Callable[..., Row]) -> Row:
    return which(rows, key=lambda row: row["num_features"])
