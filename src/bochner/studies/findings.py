"""What the papers say, and whether rows say the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bochner.report import format_number
from bochner.studies.study import Row

GENERALLY, OFTEN = (
    0.75,
    0.5,
)  # the share of data sets on which something must be seen that a paper says of data in general, or of many


class Verdict(NamedTuple):
    """What was measured, in a few words, and whether it is what the paper says."""

    holds: bool
    measured: str


Judge = Callable[[Sequence[Row]], Verdict | None]


@dataclass(frozen=True)
class Finding:
    """One claim of a paper; `judge` computes the verdict from the rows of `study`, None where they do not suffice."""

    claim: str
    source: str
    study: str
    judge: Judge


def over_sets(
    values: Mapping[str, float | None],
    word: str,
    *,
    below: float = math.inf,
    above: float = -math.inf,
    needed: float = GENERALLY,
) -> Verdict | None:
    """A verdict from one number a data set, None where there is none: on how many it lies between `above` and `below`.

    >>> over_sets({"a9a": 0.5, "cpu": 0.8, "house": None}, "ratio of errors", below=1)
    Verdict(holds=True, measured='ratio of errors < 1 on 2 of 2 sets: a9a 0.5, cpu 0.8')
    >>> over_sets({"a9a": 0.5, "cpu": 2.0}, "ratio of errors", below=1).holds
    False
    >>> over_sets({}, "ratio of errors", below=1) is None
    True
    """
    known = {name: value for name, value in values.items() if value is not None}
    if not known:
        return None
    count = sum(above < value < below for value in known.values())
    limits = (f" > {above:g}" if above > -math.inf else "") + (f" < {below:g}" if below < math.inf else "")
    numbers = ", ".join(f"{name} {format_number(value)}" for name, value in known.items())
    return Verdict(count >= needed * len(known), f"{word}{limits} on {count} of {len(known)} sets: {numbers}")


def by(rows: Sequence[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows in groups of equal values, in order.

    >>> by([{"data": "a", "D": 1}, {"data": "b", "D": 1}, {"data": "a", "D": 2}], "data")[("a",)]
    [{'data': 'a', 'D': 1}, {'data': 'a', 'D': 2}]
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups
