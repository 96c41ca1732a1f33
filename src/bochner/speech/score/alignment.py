"""Reference and hypothesis side by side: which token stands for which."""

from __future__ import annotations

from collections.abc import Sequence
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
