"""Errors counted."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from bochner.speech.score.alignment import Pair


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
