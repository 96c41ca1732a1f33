"""Token error rates: minimum edit alignment, counts by utterance and speaker, bootstrap intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from bochner import checks
from bochner.speech.frames import Array
from bochner.speech.score.protocol import Protocol

Pair = tuple[str | None, str | None]

SUBSTITUTION, GAP = 4, 3


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> list[Pair]:
    """Pairs (reference token, hypothesis token) of least weight; None stands for the missing side.

    Equal tokens weigh nothing, a substitution 4, a deletion (token, None) and an insertion (None, token) 3 each. Where
    several alignments weigh the same, pairs go before insertions and these before deletions, from the end backwards:
    so the counts are those of NIST's sclite, ties included. O(n m). Source: NIST SCTK, sclite.

    >>> align("a b c".split(), "a x b d".split())
    [('a', 'a'), (None, 'x'), ('b', 'b'), ('c', 'd')]
    """
    weights, equal = _weights(reference, hypothesis)
    pairs: list[Pair] = []
    i, j = len(reference), len(hypothesis)
    while i or j:
        here = weights[i, j]
        if i and j and here == weights[i - 1, j - 1] + (0 if equal[i - 1, j - 1] else SUBSTITUTION):
            i, j = i - 1, j - 1
            pairs.append((reference[i], hypothesis[j]))
        elif j and here == weights[i, j - 1] + GAP:
            j -= 1
            pairs.append((None, hypothesis[j]))
        else:
            i -= 1
            pairs.append((reference[i], None))
    return pairs[::-1]


def _weights(reference: Sequence[str], hypothesis: Sequence[str]) -> tuple[Array, Array]:
    """The least weight of each pair of beginnings [n + 1, m + 1], and which tokens are equal [n, m]."""
    codes = {token: code for code, token in enumerate({*reference, *hypothesis})}
    rows, columns = (np.array([codes[token] for token in side], np.int64) for side in (reference, hypothesis))
    equal = rows[:, None] == columns
    gaps = GAP * np.arange(len(columns) + 1)
    weights = np.empty((len(rows) + 1, len(columns) + 1), np.int64)
    weights[0] = gaps
    for i, same in enumerate(equal):
        best = weights[i] + GAP
        best[1:] = np.minimum(best[1:], weights[i, :-1] + np.where(same, 0, SUBSTITUTION))
        # Insertions at the end of a row: min over k <= j of best_k + (j - k) GAP, all j at once.
        weights[i + 1] = np.minimum.accumulate(best - gaps) + gaps
    return weights, equal


@dataclass(frozen=True)
class Counts:
    """Substitutions, deletions and insertions against a reference of so many tokens.

    >>> total = Counts(substitutions=1, deletions=0, insertions=2, tokens=10) + Counts(0, 1, 0, 10)
    >>> total.errors, total.rate
    (4, 0.2)
    """

    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0
    tokens: int = 0

    @property
    def errors(self) -> int:
        return self.substitutions + self.deletions + self.insertions

    @property
    def correct(self) -> int:
        return self.tokens - self.substitutions - self.deletions

    @property
    def rate(self) -> float:
        """(S + D + I) / N: above 1 when much is inserted, NaN for no tokens."""
        return self.errors / self.tokens if self.tokens else math.nan

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.substitutions + other.substitutions,
            self.deletions + other.deletions,
            self.insertions + other.insertions,
            self.tokens + other.tokens,
        )


def count(pairs: Iterable[Pair]) -> Counts:
    """The errors in aligned pairs.

    >>> count([("a", "a"), (None, "x"), ("b", None), ("c", "d")])
    Counts(substitutions=1, deletions=1, insertions=1, tokens=3)
    """
    pairs = list(pairs)
    deletions = sum(said is None for _, said in pairs)
    insertions = sum(meant is None for meant, _ in pairs)
    different = sum(meant != said for meant, said in pairs)
    return Counts(different - deletions - insertions, deletions, insertions, len(pairs) - insertions)


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


@dataclass(frozen=True)
class Scored:
    """One utterance: reference and hypothesis tokens side by side."""

    id: str
    speaker: str
    pairs: tuple[Pair, ...]

    @cached_property
    def counts(self) -> Counts:
        return count(self.pairs)


@dataclass(frozen=True)
class Score:
    """What `score` found. `missing` are utterances without a hypothesis: all their tokens count as deleted."""

    protocol: Protocol
    utterances: tuple[Scored, ...]
    missing: tuple[str, ...]

    @cached_property
    def counts(self) -> Counts:
        return sum((one.counts for one in self.utterances), Counts())

    @property
    def rate(self) -> float:
        return self.counts.rate

    @property
    def wrong_utterances(self) -> int:
        """How many utterances have an error."""
        return sum(one.counts.errors > 0 for one in self.utterances)

    @cached_property
    def by_speaker(self) -> dict[str, Counts]:
        """The counts of each speaker, in order of their names."""
        found: dict[str, Counts] = {}
        for one in self.utterances:
            found[one.speaker] = found.get(one.speaker, Counts()) + one.counts
        return dict(sorted(found.items()))

    @cached_property
    def confusions(self) -> Counter[Pair]:
        """How often each (reference token, hypothesis token) occurs, the right ones too; None for a missing side."""
        return Counter(pair for one in self.utterances for pair in one.pairs)

    def interval(
        self, *, seed: int, by: str = "utterance", level: float = 0.95, replications: int = 10_000
    ) -> Interval:
        """Bounds of the error rate by the bootstrap (Bisani and Ney, 2004).

        Utterances, or with by="speaker" speakers and all they said, are drawn anew with replacement; the bounds hold
        the middle `level` of the rates of the draws. Errors of one speaker resemble each other, so that intervals by
        speaker are the honest ones where there are many speakers. O(replications x units) time.
        """
        checks.one_of("by", by, ["utterance", "speaker"])
        units = list(self.by_speaker.values()) if by == "speaker" else [one.counts for one in self.utterances]
        rates = resampled_rates([[unit.errors for unit in units]], units, replications=replications, seed=seed)
        return Interval.around(rates[0], level)


def score(
    references: Mapping[str, str],
    hypotheses: Mapping[str, str],
    *,
    protocol: Protocol,
    speakers: Mapping[str, str] | None = None,
) -> Score:
    """Score {utterance id: text} against {utterance id: text}; `speakers` is {utterance id: speaker}.

    Without speakers all utterances are of one, called "all". A hypothesis for an utterance that has no reference is an
    error; a reference without a hypothesis counts as deleted and is named in `missing`. O(sum n m).

    >>> found = score({"a": "yes no yes", "b": "no"}, {"a": "yes yes yes"}, protocol=Protocol(unit="words"))
    >>> found.counts
    Counts(substitutions=1, deletions=1, insertions=0, tokens=4)
    >>> found.rate, found.missing, found.protocol.name
    (0.5, ('b',), 'wer')
    """
    if strange := [name for name in hypotheses if name not in references]:
        raise ValueError(f"hypotheses must be of utterances with a reference, got {strange[:10]} besides.")
    if speakers is not None and (lost := [name for name in references if name not in speakers]):
        raise ValueError(f"speakers must name the speaker of each utterance, got none for {lost[:10]}.")
    scored = tuple(
        Scored(name, "all" if speakers is None else speakers[name], pairs)
        for name, pairs in _aligned(references, hypotheses, protocol)
    )
    found = Score(protocol, scored, tuple(name for name in references if name not in hypotheses))
    if not found.counts.tokens:
        raise ValueError(f"references must hold tokens to score, got none in {len(references)} utterances.")
    return found


def _aligned(
    references: Mapping[str, str], hypotheses: Mapping[str, str], protocol: Protocol
) -> Iterable[tuple[str, tuple[Pair, ...]]]:
    for name, text in references.items():
        try:
            pairs = align(protocol.tokens(text), protocol.tokens(hypotheses.get(name, "")))
        except ValueError as error:
            raise ValueError(f"utterance {name!r}: {error}") from error
        yield name, tuple(pairs)
