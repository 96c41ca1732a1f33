"""Errors counted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Pair = tuple[str | None, str | None]
Array = np.ndarray[Any, Any]

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
