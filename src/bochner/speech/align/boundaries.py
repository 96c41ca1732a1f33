"""Boundaries between the phones of an alignment, from posterior probabilities of frames every 5 ms."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from bochner.speech.frames import Array

SCALE = 0.07  # of log likelihoods, since neighbouring frames are not independent
CHUNK, CONTEXT = 10, 4  # phones whose boundaries are estimated at once, and phones beside them
REACH = 100  # frames of a long phone that its boundary depends on: half a second


def refined_starts(pdfs: Array, starts: Array, num_frames: int, scores: Callable[[int, int, Array], Array]) -> Array:
    """The frame, a fraction, at which each phone of an alignment begins: the median of its posterior distribution.

    `pdfs` [n, S] are the states of each phone, `starts` [n] the frames at which the phones begin by another alignment,
    and `scores(first, last, pdfs)` the log likelihoods [last - first, len(pdfs)]. A state may last for one frame or
    more, at no cost. Between phones of more than a second, such as pauses, the phones are divided into chunks that are
    computed with their neighbours on both sides, which begin and end where the other alignment has them. O(T) in time;
    memory of one chunk.
    """
    edges, refined = np.append(starts, num_frames), np.array(starts, np.float64)
    long = np.flatnonzero(np.diff(edges) > 2 * REACH)
    for first, last in pairwise(sorted({0, *long.tolist(), len(pdfs) - 1})):
        own = edges[first : last + 2].copy()
        own[0], own[-1] = max(own[0], own[1] - REACH), min(own[-1], own[-2] + REACH)
        refined[first + 1 : last + 1] = _chunks(pdfs[first : last + 1], own, scores)[1:]
    return refined


def _chunks(pdfs: Array, edges: Array, scores: Callable[[int, int, Array], Array]) -> Array:
    """The first frames [n] of phones that begin and end at about `edges` [n + 1]."""
    refined = np.array(edges[:-1], np.float64)
    for first in range(0, len(pdfs), CHUNK):
        low, high = max(first - CONTEXT, 0), min(first + CHUNK + CONTEXT, len(pdfs))
        needed, columns = np.unique(pdfs[low:high], return_inverse=True)
        chunk = scores(int(edges[low]), int(edges[high]), needed)[:, columns.reshape(-1)]
        medians = edges[low] + median_starts(SCALE * chunk.astype(np.float64), pdfs.shape[1])
        refined[first : first + CHUNK] = medians[first - low : first - low + CHUNK]
    return refined


def median_starts(scores: Array, num_states: int) -> Array:
    """Medians [n] of the first frames of phones with `num_states` each that follow one another from the first frame.

    p(path) is proportional to exp(sum_t scores[t, state at t]) for scores [T, n num_states]. By the forward-backward
    algorithm, P(phone k begins at t or before) = P(state at t >= k num_states); the probability of each frame is spread
    over the interval that the frame describes. O(T n num_states).

    >>> scores = np.log([[0.9, 0.1], [0.5, 0.5], [0.1, 0.9], [0.1, 0.9]])
    >>> median_starts(scores, 1).round(2)  # the second begins with probability 0, 0.47, 0.47, 0.05 at these frames
    array([0.  , 1.56])
    """
    T, n = scores.shape
    forward, backward = np.full((2, T, n), -np.inf)
    forward[0, 0], backward[-1, -1] = scores[0, 0], 0.0
    for t in range(1, T):
        forward[t] = forward[t - 1]
        forward[t, 1:] = np.logaddexp(forward[t - 1, 1:], forward[t - 1, :-1])
        forward[t] += scores[t]
    for t in range(T - 2, -1, -1):
        after = backward[t + 1] + scores[t + 1]
        backward[t] = after
        backward[t, :-1] = np.logaddexp(after[:-1], after[1:])
    posteriors = np.exp(forward + backward - forward[-1, -1])
    begun = np.cumsum(posteriors[:, ::-1], axis=1)[:, ::-1][:, num_states::num_states]  # [T, phones after the first]
    frame, phone = (begun < 0.5).sum(axis=0), np.arange(begun.shape[1])
    before, there = begun[frame - 1, phone], begun[frame, phone]
    return np.append(0.0, frame - 0.5 + (0.5 - before) / (there - before))
