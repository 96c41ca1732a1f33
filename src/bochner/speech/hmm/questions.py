"""Questions that a tree may ask about phones, found by clustering the phones' own statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.speech.hmm.contexts import CENTRE, STATE
from bochner.speech.hmm.events import EventStatistics, gaussian_log_likelihood

Array = NDArray[Any]
Phones = frozenset[int]


def cluster_phones(statistics: EventStatistics) -> tuple[Phones, ...]:
    """Sets of phones that sound alike: "is the neighbour one of these?" is then a good question.

    Phones are merged two at a time, those first whose common Gaussian loses the least likelihood against their own;
    every phone and every merger but the last is a question. Each phone is heard in its second state (of its only one
    where it has no other), where its neighbours matter least. O(n^3 + n^2 d) for n phones. Deterministic.

    In place of Kaldi's `cluster-phones`, which splits from above by k-means.
    """
    clusters, sums = _phone_sums(statistics)
    questions = list(clusters)
    losses = np.full((len(clusters), len(clusters)), np.inf)
    for row in range(len(clusters)):
        losses[row, :row] = _losses(sums, row)[:row]
    while len(clusters) > 2:
        high, low = np.unravel_index(int(np.argmin(losses)), losses.shape)
        clusters[low] |= clusters[high]
        sums[low] += sums[high]
        del clusters[high]
        sums = np.delete(sums, high, axis=0)
        losses = np.delete(np.delete(losses, high, axis=0), high, axis=1)
        renewed = _losses(sums, int(low))
        losses[low, :low] = renewed[:low]
        losses[low + 1 :, low] = renewed[low + 1 :]
        questions.append(clusters[low])
    return tuple(dict.fromkeys(questions))


def _losses(sums: Array, row: int) -> Array:
    """What likelihood is lost when `row` is merged with each of the others."""
    apart = gaussian_log_likelihood(sums)
    return apart + apart[row] - gaussian_log_likelihood(sums + sums[row])


def _phone_sums(statistics: EventStatistics) -> tuple[list[Phones], Array]:
    phones = np.unique(statistics.events[:, CENTRE])
    sums = []
    for phone in phones:
        rows = statistics.events[:, CENTRE] == phone
        middle = rows & (statistics.events[:, STATE] == 1)
        sums.append(statistics.sums[middle if middle.any() else rows].sum(axis=0))
    return [frozenset({int(phone)}) for phone in phones], np.array(sums)
