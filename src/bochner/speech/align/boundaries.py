"""Boundaries between the phones of an alignment, from posterior probabilities of frames every 5 ms.

    p(path) proportional to prod_t p(x_t | state at t)^0.05 prod_k c(t_k)^e_k

c(t) is the change of the spectrum at the beginning of frame t, and phone k begins with frame t_k. The exponent e_k is
EXPONENT, or 0 where one phone passes gradually into the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import numpy as np

from bochner.speech.audio import Samples
from bochner.speech.frames import Array
from bochner.speech.frontend import Fbank

SCALE = 0.05  # of log likelihoods, since neighbouring frames are not independent
CHUNK, CONTEXT = 10, 4  # phones whose boundaries are estimated at once, and phones beside them
REACH = 100  # frames of a long phone that its boundary depends on: half a second
EXPONENT = 2.5  # of spectral changes
WINDOW, SHIFT, LAG = 0.02, 0.005, 4  # seconds; the two spectra that are compared are LAG shifts apart
POWER = 0.2  # of energies: like a logarithm, but changes of faint sounds count less
FLOOR = 1e-3  # of changes; those of speech are about 1


class SpectralChange:
    """The change of the spectrum of samples that pass through it, every 5 ms.

    c(t) = ||s(t + 10 ms) - s(t - 10 ms)||, s(t) = the mel energies of the 20 ms around t, to the power of 0.2
    """

    def __init__(self, rate: int) -> None:
        high = min(7000.0, rate / 2)
        self._fbank = Fbank(rate=rate, frame_length=WINDOW, frame_shift=SHIFT, num_bins=26, low=100.0, high=high)
        self._changes: list[Array] = []

    def through(self, blocks: Iterable[Samples]) -> Iterator[Samples]:
        """The same blocks."""
        rate, rest = self._fbank.rate, np.zeros(0, np.float32)
        needed, shift = round((WINDOW + LAG * SHIFT) * rate), round(SHIFT * rate)
        for block in blocks:
            rest = np.concatenate([rest, block])
            if len(rest) >= needed:
                spectra = np.exp(POWER * self._fbank(rest))
                self._changes.append(np.linalg.norm(spectra[LAG:] - spectra[:-LAG], axis=1))
                rest = rest[len(self._changes[-1]) * shift :]
            yield block

    def log_changes(self, times: Array) -> Array:
        """log c(t) at these seconds; near the ends, the nearest."""
        if not self._changes:
            return np.zeros(len(times))
        changes = np.concatenate(self._changes)
        places = np.rint((times - (WINDOW + LAG * SHIFT) / 2) / SHIFT).astype(int)
        return np.log(changes[places.clip(0, len(changes) - 1)] + FLOOR)


def refined_starts(
    pdfs: Array,
    starts: Array,
    scores: Callable[[int, int, Array], Array],
    log_changes: Array,
    exponents: Array,
) -> Array:
    """The frame, a fraction, at which each phone of an alignment begins: the median of its posterior distribution.

    `pdfs` [n, S] are the states of each phone, `starts` [n] the frames at which the phones begin by another alignment,
    `scores(first, last, pdfs)` the log likelihoods [last - first, len(pdfs)], `log_changes` [T] those of the spectrum
    and `exponents` [n] theirs at the beginning of each phone. A state may last for one frame or more, at no cost.
    Between phones of more than a second, such as pauses, the phones are divided into chunks that are computed with
    their neighbours on both sides, which begin and end where the other alignment has them. O(T) in time; memory of one
    chunk.
    """
    edges, refined = np.append(starts, len(log_changes)), np.array(starts, np.float64)
    long = np.flatnonzero(np.diff(edges) > 2 * REACH)
    for first, last in pairwise(sorted({0, *long.tolist(), len(pdfs) - 1})):
        own = edges[first : last + 2].copy()
        own[0], own[-1] = max(own[0], own[1] - REACH), min(own[-1], own[-2] + REACH)
        phones = slice(first, last + 1)
        refined[first + 1 : last + 1] = _chunks(pdfs[phones], own, scores, log_changes, exponents[phones])[1:]
    return refined


def _chunks(
    pdfs: Array, edges: Array, scores: Callable[[int, int, Array], Array], log_changes: Array, exponents: Array
) -> Array:
    """The first frames [n] of phones that begin and end at about `edges` [n + 1]."""
    refined = np.array(edges[:-1], np.float64)
    for first in range(0, len(pdfs), CHUNK):
        low, high = max(first - CONTEXT, 0), min(first + CHUNK + CONTEXT, len(pdfs))
        needed, columns = np.unique(pdfs[low:high], return_inverse=True)
        start, end = int(edges[low]), int(edges[high])
        chunk = scores(start, end, needed)[:, columns.reshape(-1)]
        begins = exponents[low:high] * log_changes[start:end, None]
        medians = start + median_starts(SCALE * chunk.astype(np.float64), begins)
        refined[first : first + CHUNK] = medians[first - low : first - low + CHUNK]
    return refined


def median_starts(scores: Array, begins: Array) -> Array:
    """Medians [n] of the first frames of phones with S states each that follow one another from the first frame.

    p(path) is proportional to exp(sum_t scores[t, state at t] + sum_k begins[first frame of k, k]) for scores [T, n S]
    and begins [T, n], k >= 1. By the forward-backward algorithm, P(phone k begins at t or before) = P(state at t >= k
    S); the probability of each frame is spread over the interval that the frame describes. O(T n S).

    >>> scores = np.log([[0.9, 0.1], [0.5, 0.5], [0.1, 0.9], [0.1, 0.9]])
    >>> median_starts(scores, np.zeros((4, 2))).round(2)  # the second begins with probability 0, 0.47, 0.47, 0.05
    array([0.  , 1.56])
    """
    T, n = scores.shape
    num_states = n // begins.shape[1]
    enters = np.zeros((T, n))
    enters[:, ::num_states] = begins
    forward, backward = np.full((2, T, n), -np.inf)
    forward[0, 0], backward[-1, -1] = scores[0, 0], 0.0
    for t in range(1, T):
        forward[t] = forward[t - 1]
        forward[t, 1:] = np.logaddexp(forward[t - 1, 1:], forward[t - 1, :-1] + enters[t, 1:])
        forward[t] += scores[t]
    for t in range(T - 2, -1, -1):
        after = backward[t + 1] + scores[t + 1]
        backward[t] = after
        backward[t, :-1] = np.logaddexp(after[:-1], after[1:] + enters[t + 1, 1:])
    posteriors = np.exp(forward + backward - forward[-1, -1])
    begun = np.cumsum(posteriors[:, ::-1], axis=1)[:, ::-1][:, num_states::num_states]  # [T, phones after the first]
    frame, phone = (begun < 0.5).sum(axis=0), np.arange(begun.shape[1])
    before, there = begun[frame - 1, phone], begun[frame, phone]
    return np.append(0.0, frame - 0.5 + (0.5 - before) / (there - before))
