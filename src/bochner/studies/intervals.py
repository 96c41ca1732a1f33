"""Uncertainty of values computed from rows: bootstrap replicates of the measured seeds."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any, NamedTuple

from scipy.stats import t as student

from bochner.studies.study import Row

MIN_SEEDS = 3  # of most cells; with two a standard deviation has one degree of freedom
REPLICATES = 100  # standard errors are then accurate to 7 %
LEVEL = 0.95


class Replicates(NamedTuple):
    """Rows of resampled seeds, and the number of seeds of most cells, infinite where tokens were resampled."""

    rows: Sequence[Sequence[Row]]
    num_seeds: float


def resample(rows: Sequence[Row], fields: Sequence[str], *, count: int = REPLICATES) -> Replicates | None:
    """Bootstrap replicates of the rows of a study, None if most of its cells have fewer than three seeds.

    `fields` are those of a cell. Rows that differ only in the field `seed` are drawn with replacement, with the same
    draws for all cells with the same number of seeds, so that comparisons stay paired. For a row with `per_seed`,
    numbers or lists of numbers of several seeds by name, the means of as many draws replace its own. An error rate
    `test_ter` of a row without seeds has the standard error given by its number of `tokens`.

    >>> rows = [{"data": "a", "seed": seed, "error": float(seed)} for seed in range(3)]
    >>> replicates = resample(rows, ["data", "seed"], count=2)
    >>> [len(drawn) for drawn in replicates.rows], replicates.num_seeds
    ([3, 3], 3)
    >>> resample(rows[:2], ["data", "seed"]) is None
    True
    """
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(repr([row.get(name) for name in fields if name != "seed"]), []).append(row)
    sizes = Counter(_num_seeds(group) for group in groups.values())
    num_seeds = sizes.most_common(1)[0][0] if sizes else 0
    if num_seeds < MIN_SEEDS:
        return None
    generator = random.Random(0)
    return Replicates([_replicate(groups.values(), generator.random()) for _ in range(count)], num_seeds)


def _num_seeds(group: Sequence[Row]) -> float:
    if "per_seed" in group[0]:
        return len(next(iter(group[0]["per_seed"].values())))
    return math.inf if "tokens" in group[0] and "seed" not in group[0] else len(group)


def _replicate(groups: Iterable[Sequence[Row]], seed: float) -> list[Row]:
    drawn: list[Row] = []
    for group in groups:
        row, size = group[0], _num_seeds(group)
        if math.isinf(size):
            generator = random.Random(f"{seed} {row}")  # noise is independent across test sets
            spread = math.sqrt(row["test_ter"] * (1 - row["test_ter"]) / row["tokens"])
            drawn.append({**row, "test_ter": row["test_ter"] + generator.gauss(0, spread)})
            continue
        generator = random.Random(seed)
        places = [generator.randrange(int(size)) for _ in range(int(size))]
        if "per_seed" in row:
            values = row["per_seed"].items()
            drawn.append(row | {name: _mean([of_seeds[place] for place in places]) for name, of_seeds in values})
        else:
            drawn += [group[place] for place in places]
    return drawn


def _mean(values: Sequence[Any]) -> Any:
    """The mean of numbers, or of each entry of lists of the same length."""
    if isinstance(values[0], Sequence):
        return [fmean(entries) for entries in zip(*values, strict=True)]
    return fmean(values)


def intervals(
    values: Mapping[str, float | None], replicates: Sequence[Mapping[str, float | None]], num_seeds: float
) -> dict[str, tuple[float, float] | None]:
    """95 % intervals of `values` from the same values of replicates; None where those are missing.

    value ± t sqrt(n / (n - 1)) s, s the standard deviation over replicates, which is too small by that root for n
    seeds, and t Student's quantile for n - 1 degrees of freedom.

    >>> low, high = intervals({"a": 1.0}, [{"a": 0.9}, {"a": 1.1}], 3)["a"]
    >>> round(low, 2), round(high, 2)
    (0.25, 1.75)
    """
    quantile = float(student.ppf((1 + LEVEL) / 2, num_seeds - 1 if math.isfinite(num_seeds) else 1e9))
    correction = math.sqrt(num_seeds / (num_seeds - 1)) if math.isfinite(num_seeds) else 1.0
    ends: dict[str, tuple[float, float] | None] = {}
    for name, value in values.items():
        drawn = [number for replicate in replicates if (number := replicate.get(name)) is not None]
        if value is None or len(drawn) < max(2, len(replicates) // 2):
            ends[name] = None
        else:
            half = quantile * correction * stdev(drawn)
            ends[name] = (value - half, value + half)
    return ends
