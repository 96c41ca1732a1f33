"""Which recordings are of the same speaker and microphone, by agglomerative clustering."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bochner.speech.frames import Array
from bochner.speech.frontend.speaker_prior import PRIOR_FRAMES, SpeakerPrior

OFFSET, SLOPE = 80.0, 0.7  # of the penalty; chosen on digits of 0.4 s and sentences of 3 s
BLOCK = 500  # recordings that are compared with one another at once


@dataclass(frozen=True)
class _Clusters:
    """The recordings of each cluster; sums of `SpeakerPrior.affine_statistics` [n, 5, d], frames and weights [n]."""

    members: list[list[int]]
    statistics: Array
    counts: Array
    weights: Array


def cluster_recordings(prior: SpeakerPrior, recordings: Iterable[Array]) -> list[list[int]]:
    """The places of the recordings of each speaker, from their cepstra [T, d] before normalisation.

    With l(C) the log likelihood of the frames of a cluster, normalised by the moments that fit them best, clusters A
    and B are united as long as

        l(A) + l(B) - l(A + B) < d (80 + 0.7 W_A W_B / (W_A + W_B)),    W = sum of sqrt(T) over the recordings,

    the pair for which the difference is smallest first. The second term is the variation between recordings of one
    speaker, which divides a large cluster otherwise. The mixture of the prior explains what is said, so that words of
    half a second can be compared. O(n^2 d) time for n recordings, in blocks of 500; O(n d) memory.

    Source: Chen & Gopalakrishnan 1998, with another penalty.

    >>> from bochner.speech.frontend.postprocess import Moments
    >>> generator = np.random.default_rng(0)
    >>> prior = SpeakerPrior.fit(Moments(1000, np.zeros(2), np.ones(2)), [generator.standard_normal((1000, 2))])
    >>> cluster_recordings(prior, [generator.standard_normal((200, 2)) + shift for shift in (0.0, 2.0, 0.0, 2.0)])
    [[0, 2], [1, 3]]
    """
    rows = [(prior.affine_statistics(frames), len(frames)) for frames in recordings]
    if not rows:
        return []
    statistics, counts = np.stack([row[0] for row in rows]), np.array([row[1] for row in rows], np.float64)
    clusters = _Clusters([], statistics[:0], counts[:0], counts[:0])
    for first in range(0, len(rows), BLOCK):
        block = slice(first, first + BLOCK)
        joined = _Clusters(
            [*clusters.members, *([place] for place in range(len(rows))[block])],
            np.concatenate([clusters.statistics, statistics[block]]),
            np.concatenate([clusters.counts, counts[block]]),
            np.concatenate([clusters.weights, np.sqrt(counts[block])]),
        )
        clusters = _united(prior, joined)
    return sorted(sorted(members) for members in clusters.members)


def _united(prior: SpeakerPrior, clusters: _Clusters) -> _Clusters:
    """Unite the nearest clusters until the likelihood lost exceeds the penalty for all pairs."""
    members, statistics = list(clusters.members), clusters.statistics.copy()
    counts, weights = clusters.counts.copy(), clusters.weights.copy()
    likelihoods = _likelihoods(prior, statistics, counts)
    costs = np.full((len(members), len(members)), np.inf)  # of uniting clusters i < j

    def costs_with(i: int, others: slice) -> Array:
        joint = _likelihoods(prior, statistics[i] + statistics[others], counts[i] + counts[others])
        between = weights[i] * weights[others] / (weights[i] + weights[others])
        cost: Array = likelihoods[i] + likelihoods[others] - joint - statistics.shape[-1] * (OFFSET + SLOPE * between)
        return cost

    for i in range(len(members)):
        costs[i, i + 1 :] = costs_with(i, slice(i + 1, None))
    active = np.ones(len(members), dtype=bool)
    while active.sum() > 1:
        i, j = divmod(int(costs.argmin()), len(members))
        if costs[i, j] >= 0:
            break
        members[i] = members[i] + members[j]
        for sums in (statistics, counts, weights):
            sums[i] += sums[j]
        likelihoods[i] = _likelihoods(prior, statistics[i], counts[i])
        active[j] = False
        costs[j, :] = costs[:, j] = np.inf
        costs[i, i + 1 :] = np.where(active[i + 1 :], costs_with(i, slice(i + 1, None)), np.inf)
        costs[:i, i] = np.where(active[:i], costs_with(i, slice(0, i)), np.inf)
    kept = np.flatnonzero(active)
    return _Clusters([members[place] for place in kept], statistics[kept], counts[kept], weights[kept])


def _likelihoods(prior: SpeakerPrior, statistics: Array, counts: Array) -> Array:
    """The log likelihood [...] by the moments that fit best, up to a constant, from sums [..., 5, d] and [...]."""
    return prior.best_affine(statistics, counts, prior_frames=PRIOR_FRAMES)[1]
