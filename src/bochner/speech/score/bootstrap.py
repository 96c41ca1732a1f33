"""How sure an error rate is: the bootstrap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bochner import checks
from bochner.speech.score.counts import Counts

BLOCK = 4_000_000  # draws held at once


class Interval(NamedTuple):
    """The rate is between `low` and `high` in that share of the draws."""

    low: float
    high: float
    level: float

    @classmethod
    def around(cls, values: np.ndarray[Any, Any], level: float) -> Interval:
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {level!r}.")
        low, high = np.nanquantile(values, [(1 - level) / 2, (1 + level) / 2])
        return cls(float(low), float(high), level)


def resampled_rates(
    errors: Sequence[Sequence[int]], units: Sequence[Counts], *, replications: int, seed: int
) -> np.ndarray[Any, Any]:
    """Error rates [systems, replications] of units drawn with replacement; `errors` [systems, units].

    All systems see the same draws. O(replications units) time, bounded memory.
    """
    checks.positive_int("replications", replications)
    generator = np.random.default_rng(checks.nonnegative_int("seed", seed))
    table = np.array([*errors, [unit.tokens for unit in units]], np.float64)
    sums = np.empty((len(table), replications))
    step = max(1, BLOCK // len(units))
    for start in range(0, replications, step):
        size = min(step, replications - start)
        drawn = generator.integers(len(units), size=(size, len(units)))
        sums[:, start : start + size] = table[:, drawn].sum(2)
    with np.errstate(invalid="ignore", divide="ignore"):  # a draw of empty references has no rate
        return sums[:-1] / sums[-1]
