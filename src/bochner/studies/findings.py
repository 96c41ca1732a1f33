"""Findings of the papers, and the criteria that decide from measured rows whether they are reproduced."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bochner.report import format_number
from bochner.studies.intervals import Replicates, intervals
from bochner.studies.study import Row

# The share of data sets that must agree with a claim about data in general, or "in many cases".
GENERALLY, OFTEN = 0.75, 0.5
TAIL = 0.025  # of replicates that may disagree with a decision

Rows = Sequence[Row]
SetValues = Callable[[Rows], Mapping[str, float | None]]
"""One number per data set; None where the rows do not suffice."""


class Decision(NamedTuple):
    """Whether the rows agree with a paper, None if undecided, and a summary of the measured numbers."""

    holds: bool | None
    measured: str


Criterion = Callable[[Rows], Decision | None]
IntervalCriterion = Callable[[Rows, Replicates], Decision | None]


@dataclass(frozen=True)
class Finding:
    """One claim of a paper; `criterion` decides it from the rows of `study`, None where they do not suffice.

    `by_interval` decides it from intervals over seeds; if None, the share of replicates for which the criterion holds
    does. A claim that is `exact`, a theorem or a number of standard errors, needs neither.
    """

    claim: str
    source: str
    study: str
    criterion: Criterion
    by_interval: IntervalCriterion | None = None
    exact: bool = False

    def decide(self, rows: Rows, replicates: Replicates | None) -> Decision | None:
        """The decision with its uncertainty: undecided with too few seeds, or if an interval contains a limit."""
        decision = self.criterion(rows)
        if decision is None or self.exact:
            return decision
        if replicates is None:
            return Decision(None, f"{decision.measured} (fewer than 3 seeds: no interval)")
        if self.by_interval is not None:
            return self.by_interval(rows, replicates)
        decisions = [drawn for rows in replicates.rows if (drawn := self.criterion(rows)) is not None]
        share = sum(bool(drawn.holds) for drawn in decisions) / max(1, len(decisions))
        holds = None if TAIL < share < 1 - TAIL else decision.holds
        return Decision(holds, f"{decision.measured} (in {share:.0%} of resampled seeds)")


def finding(claim: str, source: str, study: str, values: SetValues, quantity: str, **limits: float) -> Finding:
    """A finding that is decided by one number per data set, see `over_sets`."""

    def by_interval(rows: Rows, replicates: Replicates) -> Decision | None:
        numbers = values(rows)
        ends = intervals(numbers, [values(drawn) for drawn in replicates.rows], replicates.num_seeds)
        return over_sets(numbers, quantity, ends, **limits)

    return Finding(claim, source, study, lambda rows: over_sets(values(rows), quantity, **limits), by_interval)


def per_set(number: Callable[[Rows], float | None]) -> SetValues:
    """`number` of the rows of each data set."""
    return lambda rows: {name: number(group) for (name,), group in by(rows, "data").items()}


def over_sets(
    values: Mapping[str, float | None],
    quantity: str,
    ends: Mapping[str, tuple[float, float] | None] | None = None,
    /,
    *,
    below: float = math.inf,
    above: float = -math.inf,
    needed: float = GENERALLY,
) -> Decision | None:
    """Holds if a share of `needed` of the data sets has a number between `above` and `below`.

    With `ends`, intervals of the numbers, a data set counts if its interval lies inside, does not count if it lies
    outside, and is otherwise undecided, also without an interval. The decision is None if the undecided sets could
    change it.

    >>> over_sets({"a9a": 0.5, "cpu": 0.8, "house": None}, "ratio of errors", below=1)
    Decision(holds=True, measured='ratio of errors < 1 on 2 of 2 sets: a9a 0.5, cpu 0.8')
    >>> over_sets({"a9a": 0.5, "cpu": 2.0}, "ratio of errors", below=1).holds
    False
    >>> over_sets({}, "ratio of errors", below=1) is None
    True
    >>> over_sets({"a9a": 0.9}, "ratio of errors", {"a9a": (0.7, 1.1)}, below=1)
    Decision(holds=None, measured='ratio of errors < 1 on 0 of 1 sets, 1 undecided: a9a 0.9 [0.7, 1.1]')
    """
    known = {name: value for name, value in values.items() if value is not None}
    if not known:
        return None
    spans = {name: (value, value) if ends is None else ends.get(name) for name, value in known.items()}
    count = sum(span is not None and above < span[0] and span[1] < below for span in spans.values())
    undecided = sum(span is None or _straddles(span, above, below) for span in spans.values())
    limits = (f" > {above:g}" if above > -math.inf else "") + (f" < {below:g}" if below < math.inf else "")
    numbers = ", ".join(
        f"{name} {format_number(value)}" + ("" if ends is None else _span_text(spans[name]))
        for name, value in known.items()
    )
    open_sets = f", {undecided} undecided" if undecided else ""
    holds = count >= needed * len(known)
    could_change = not holds and count + undecided >= needed * len(known)
    text = f"{quantity}{limits} on {count} of {len(known)} sets{open_sets}: {numbers}"
    return Decision(None if could_change else holds, text)


def _straddles(span: tuple[float, float], above: float, below: float) -> bool:
    """Whether an interval has points both inside and outside of the limits."""
    low, high = span
    return (low <= above < high or low < below <= high) and low < high


def _span_text(span: tuple[float, float] | None) -> str:
    return " [no interval]" if span is None else f" [{format_number(span[0])}, {format_number(span[1])}]"


def by(rows: Rows, *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows grouped by equal values, in order.

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
