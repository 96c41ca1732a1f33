"""Token error rates: minimum edit alignment, counts by utterance and speaker, bootstrap intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from bochner import checks
from bochner.speech.frames import Array
from bochner.speech.score.protocol import Protocol

Pair = tuple[str | None, str | None]

SUBSTITUTION, GAP = 4, 3
BLOCK = 4_000_000  # resampled indices in memory at once


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> list[Pair]:
    """Pairs (reference token, hypothesis token) of least weight; None is the missing side.

    A substitution has weight 4, a deletion (token, None) and an insertion (None, token) 3 each. Of alignments of equal
    weight, pairs are preferred to insertions and these to deletions, from the end backwards, which gives the counts of
    NIST's sclite. O(n m). Source: NIST SCTK, sclite.

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
    """The least weight of each pair of prefixes [n + 1, m + 1], and which tokens are equal [n, m]."""
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
    """Substitutions, deletions and insertions, and the number of tokens of the reference.

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
    def rate(self) -> float:
        """(S + D + I) / N, which may exceed 1; NaN for no tokens."""
        return self.errors / self.tokens if self.tokens else math.nan

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def count(pairs: Iterable[Pair]) -> Counts:
    """The errors in aligned pairs.

    >>> count([("a", "a"), (None, "x"), ("b", None), ("c", "d")])
    Counts(substitutions=1, deletions=1, insertions=1, tokens=3)
    """
    pairs = list(pairs)
    deletions = sum(hypothesis is None for _, hypothesis in pairs)
    insertions = sum(reference is None for reference, _ in pairs)
    different = sum(reference != hypothesis for reference, hypothesis in pairs)
    return Counts(different - deletions - insertions, deletions, insertions, len(pairs) - insertions)


class Interval(NamedTuple):
    """Bounds that contain the rate of the share `level` of the bootstrap replications."""

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
    errors: Sequence[Sequence[float]], units: Sequence[Counts], *, replications: int, seed: int
) -> np.ndarray[Any, Any]:
    """Error rates [systems, replications] of units drawn with replacement; `errors` [systems, units].

    All systems share the draws. O(replications units) time, bounded memory.
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
    with np.errstate(invalid="ignore", divide="ignore"):  # replications of empty references only have no rate
        return sums[:-1] / sums[-1]


@dataclass(frozen=True)
class Scored:
    """One utterance: aligned reference and hypothesis tokens."""

    id: str
    speaker: str
    pairs: tuple[Pair, ...]

    @cached_property
    def counts(self) -> Counts:
        return count(self.pairs)


@dataclass(frozen=True)
class Score:
    """The result of `score`. `missing` are utterances without a hypothesis, whose tokens count as deleted."""

    protocol: Protocol
    utterances: tuple[Scored, ...]
    missing: tuple[str, ...]

    @cached_property
    def counts(self) -> Counts:
        return sum((scored.counts for scored in self.utterances), Counts())

    @property
    def rate(self) -> float:
        return self.counts.rate

    @property
    def wrong_utterances(self) -> int:
        """The number of utterances with an error."""
        return sum(scored.counts.errors > 0 for scored in self.utterances)

    @cached_property
    def by_speaker(self) -> dict[str, Counts]:
        """The counts of each speaker, sorted by name."""
        totals: dict[str, Counts] = {}
        for scored in self.utterances:
            totals[scored.speaker] = totals.get(scored.speaker, Counts()) + scored.counts
        return dict(sorted(totals.items()))

    @cached_property
    def confusions(self) -> Counter[Pair]:
        """The number of each (reference token, hypothesis token), including equal ones; None for a missing side."""
        return Counter(pair for scored in self.utterances for pair in scored.pairs)

    def interval(
        self, *, seed: int, by: str = "utterance", level: float = 0.95, replications: int = 10_000
    ) -> Interval:
        """Bootstrap interval of the error rate (Bisani and Ney, 2004).

        Utterances, or with by="speaker" speakers with all their utterances, are resampled with replacement; the bounds
        contain the central share `level` of the resulting rates. Errors of one speaker are correlated, so intervals by
        speaker are more reliable if there are many speakers. O(replications x units) time.
        """
        checks.one_of("by", by, ["utterance", "speaker"])
        if not self.counts.tokens:
            return Interval(math.nan, math.nan, level)
        units = list(_units(self, by).values())
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

    Without speakers all utterances belong to one, called "all". A hypothesis without a reference is an error; a
    reference without a hypothesis counts as deleted and is named in `missing`. A reference may be empty, as that of a
    recording of noise; if all are, the rate is NaN and the insertions are counted. O(sum n m).

    >>> result = score({"a": "yes no yes", "b": "no"}, {"a": "yes yes yes"}, protocol=Protocol(unit="words"))
    >>> result.counts
    Counts(substitutions=1, deletions=1, insertions=0, tokens=4)
    >>> result.rate, result.missing, result.protocol.name
    (0.5, ('b',), 'wer')
    """
    if unknown := [name for name in hypotheses if name not in references]:
        raise ValueError(f"hypotheses must be of utterances with a reference, got {unknown[:10]} besides.")
    if speakers is not None and (missing := [name for name in references if name not in speakers]):
        raise ValueError(f"speakers must name the speaker of each utterance, got none for {missing[:10]}.")
    scored = tuple(
        Scored(name, "all" if speakers is None else speakers[name], pairs)
        for name, pairs in _aligned(references, hypotheses, protocol)
    )
    return Score(protocol, scored, tuple(name for name in references if name not in hypotheses))


def _aligned(
    references: Mapping[str, str], hypotheses: Mapping[str, str], protocol: Protocol
) -> Iterable[tuple[str, tuple[Pair, ...]]]:
    for name, text in references.items():
        try:
            pairs = align(protocol.tokens(text), protocol.tokens(hypotheses.get(name, "")))
        except ValueError as error:
            raise ValueError(f"utterance {name!r}: {error}") from error
        yield name, tuple(pairs)


class Comparison(NamedTuple):
    """`difference` = second rate - first rate, its interval, and the share of replications in which it is negative."""

    difference: float
    interval: Interval
    probability_better: float


def compare(
    first: Score, second: Score, *, seed: int, by: str = "utterance", level: float = 0.95, replications: int = 10_000
) -> Comparison:
    """Paired bootstrap of two systems over the same resampled utterances or speakers.

    Source: Bisani and Ney, 2004: the probability of improvement.

    >>> from bochner.speech.score import Protocol, score
    >>> references = {str(i): "a b c d" for i in range(50)}
    >>> first = score(references, {name: "a x c y" for name in references}, protocol=Protocol())
    >>> second = score(references, {name: "a b c y" for name in references}, protocol=Protocol())
    >>> compare(first, second, seed=0)
    Comparison(difference=-0.25, interval=Interval(low=-0.25, high=-0.25, level=0.95), probability_better=1.0)
    """
    checks.one_of("by", by, ["utterance", "speaker"])
    if first.protocol != second.protocol or _references(first) != _references(second):
        raise ValueError(
            f"first and second must be scored by one protocol on the same references, got {first.protocol.name} on "
            f"{first.counts.tokens} tokens and {second.protocol.name} on {second.counts.tokens}."
        )
    units = [_units(score, by) for score in (first, second)]
    errors = [[counts[name].errors for name in units[0]] for counts in units]
    rates = resampled_rates(errors, list(units[0].values()), replications=replications, seed=seed)
    change = rates[1] - rates[0]
    better = float(np.mean(change < 0) + np.mean(change == 0) / 2)
    return Comparison(second.rate - first.rate, Interval.around(change, level), better)


def _units(score: Score, by: str) -> dict[str, Counts]:
    return score.by_speaker if by == "speaker" else {scored.id: scored.counts for scored in score.utterances}


def _references(score: Score) -> dict[str, tuple[str, list[str]]]:
    return {scored.id: (scored.speaker, [token for token, _ in scored.pairs if token]) for scored in score.utterances}
