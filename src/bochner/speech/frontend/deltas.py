"""How the frames change in time."""

from __future__ import annotations

import numpy as np

from bochner import checks
from bochner.speech.frontend.arrays import Array, frames_of
from bochner.speech.frontend.splice import neighbours


def add_deltas(frames: Array, *, order: int = 2, window: int = 2) -> Array:
    """Frames beside their slopes: delta_t = sum_j j x_{t+j} / sum_j j^2, j = -window ... window, and those of deltas.

    [T, d] -> [T, (order + 1) d]. The k-th delta is one filter of 2 k window + 1 taps, and beyond the ends of the
    utterance its first and last frames go on, as in Kaldi. O(T d order^2 window). Source: Furui, 1986.

    >>> add_deltas(np.array([[0.0], [1.0], [2.0], [3.0], [4.0]]), order=1)[2]
    array([2., 1.])
    """
    frames = frames_of(frames)
    parts = [_filtered(frames, taps) for taps in delta_filters(order=order, window=window)]
    return np.concatenate(parts, axis=1).astype(frames.dtype)


def delta_filters(*, order: int, window: int) -> list[Array]:
    """The filters of the frames themselves and of each delta: odd lengths, middle tap at the frame.

    >>> delta_filters(order=1, window=2)
    [array([1.]), array([-0.2, -0.1,  0. ,  0.1,  0.2])]
    """
    steps = np.arange(-checks.positive_int("window", window), window + 1)
    filters = [np.ones(1)]
    for _ in range(checks.nonnegative_int("order", order)):
        filters.append(np.convolve(filters[-1], steps / np.sum(steps**2)))
    return filters


def _filtered(frames: Array, taps: Array) -> Array:
    reach = len(taps) // 2
    rows = neighbours(len(frames), left=reach, right=reach)
    return np.einsum("j,tjd->td", taps, frames[rows].astype(np.float64))
