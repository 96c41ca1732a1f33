"""Hypotheses scored against references: counts, by speaker too, who was taken for whom, and how sure the rate is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from bochner import checks
from bochner.speech.score.alignment import Pair, align
from bochner.speech.score.bootstrap import Interval, resampled_rates
from bochner.speech.score.counts import Counts, count
from bochner.speech.score.protocol import Protocol


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
