"""Findings of the papers, and the criteria that decide from rows whether they are observed here, too."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bochner.report import format_number
from bochner.studies.study import Row

# The share of data sets that must show what a paper claims of data in general, or "in many cases".
GENERALLY, OFTEN = 0.75, 0.5

Rows = Sequence[Row]
SetValues = Callable[[Rows], Mapping[str, float | None]]
"""One number per data set; None where the rows do not suffice."""


class Decision(NamedTuple):
    """Whether the rows agree with a paper, and the measured numbers in a few words."""

    holds: bool
    measured: str


Criterion = Callable[[Rows], Decision | None]


@dataclass(frozen=True)
class Finding:
    """One claim of a paper; `criterion` decides it from the rows of `study`, None where they do not suffice."""

    claim: str
    source: str
    study: str
    criterion: Criterion


def finding(claim: str, source: str, study: str, values: SetValues, quantity: str, **limits: float) -> Finding:
    """A finding that is decided by one number per data set, see `over_sets`."""
    return Finding(claim, source, study, lambda rows: over_sets(values(rows), quantity, **limits))


def per_set(number: Callable[[Rows], float | None]) -> SetValues:
    """`number` of the rows of each data set."""
    return lambda rows: {name: number(group) for (name,), group in by(rows, "data").items()}


def over_sets(
    values: Mapping[str, float | None],
    quantity: str,
    *,
    below: float = math.inf,
    above: float = -math.inf,
    needed: float = GENERALLY,
) -> Decision | None:
    """Holds if a share of `needed` of the data sets has a number between `above` and `below`.

    >>> over_sets({"a9a": 0.5, "cpu": 0.8, "house": None}, "ratio of errors", below=1)
    Decision(holds=True, measured='ratio of errors < 1 on 2 of 2 sets: a9a 0.5, cpu 0.8')
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
    return Decision(count >= needed * len(known), f"{quantity}{limits} on {count} of {len(known)} sets: {numbers}")


def by(rows: Rows, *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows in groups of equal values, in order.

    >>> by([{"data": "a", "D": 1}, {"data": "b", "D": 1}, {"data": "a", "D": 2}], "data")[("a",)]
    [{'data': 'a', 'D': 1}, {'data': 'a', 'D': 2}]
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups


def sets_of(rows: Rows) -> list[tuple[str, list[Row]]]:
    """The data sets and their rows."""
    return [(name, group) for (name,), group in by(rows, "data").items()]
