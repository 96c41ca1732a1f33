"""Two recognisers on the same utterances: which is better, and how sure is that."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bochner import checks
from bochner.speech.score.bootstrap import Interval, resampled_rates
from bochner.speech.score.counts import Counts
from bochner.speech.score.result import Score


class Comparison(NamedTuple):
    """`difference` = rate of the second less that of the first; the share of draws in which the second is better."""

    difference: float
    interval: Interval
    probability_better: float


def compare(
    first: Score, second: Score, *, seed: int, by: str = "utterance", level: float = 0.95, replications: int = 10_000
) -> Comparison:
    """Is the second recogniser better? Both are scored on the same draws of utterances or speakers.

    Source: Bisani and Ney, 2004: the probability of improvement.

    >>> from bochner.speech.score import Protocol, score
    >>> meant = {str(i): "a b c d" for i in range(50)}
    >>> poor = score(meant, {name: "a x c y" for name in meant}, protocol=Protocol())
    >>> good = score(meant, {name: "a b c y" for name in meant}, protocol=Protocol())
    >>> compare(poor, good, seed=0)
    Comparison(difference=-0.25, interval=Interval(low=-0.25, high=-0.25, level=0.95), probability_better=1.0)
    """
    checks.one_of("by", by, ["utterance", "speaker"])
    if first.protocol != second.protocol or _references(first) != _references(second):
        raise ValueError(
            f"first and second must be scored by one protocol on the same references, got {first.protocol.name} on "
            f"{first.counts.tokens} tokens and {second.protocol.name} on {second.counts.tokens}."
        )
    ours, theirs = _units(first, by), _units(second, by)
    errors = [[ours[name].errors for name in ours], [theirs[name].errors for name in ours]]
    rates = resampled_rates(errors, list(ours.values()), replications=replications, seed=seed)
    change = rates[1] - rates[0]
    better = float(np.mean(change < 0) + np.mean(change == 0) / 2)
    return Comparison(second.rate - first.rate, Interval.around(change, level), better)


def _units(score: Score, by: str) -> dict[str, Counts]:
    return score.by_speaker if by == "speaker" else {one.id: one.counts for one in score.utterances}


def _references(score: Score) -> dict[str, tuple[str, list[str]]]:
    return {one.id: (one.speaker, [token for token, _ in one.pairs if token]) for one in score.utterances}
