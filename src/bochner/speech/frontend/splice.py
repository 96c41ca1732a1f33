"""Frames beside their neighbours in time, and linear transforms of them."""

from __future__ import annotations

import numpy as np

from bochner import checks
from bochner.speech.frontend.arrays import Array, frames_of


def splice(frames: Array, *, left: int, right: int) -> Array:
    """Each frame with the `left` before and the `right` after it: row t is x_{t-left} ... x_t ... x_{t+right}.

    [T, d] -> [T, (left + 1 + right) d]. The frames are those of one utterance: beyond its ends the first and last
    frames are repeated, so nothing of another utterance can come in. O(T d (left + right)).

    >>> splice(np.array([[1], [2], [3]]), left=1, right=1).tolist()
    [[1, 1, 2], [1, 2, 3], [2, 3, 3]]
    """
    frames = frames_of(frames)
    return frames[neighbours(len(frames), left=left, right=right)].reshape(len(frames), -1)


def neighbours(num_frames: int, *, left: int, right: int) -> Array:
    """Row t holds max(0, t - left) ... min(T - 1, t + right): int [T, left + 1 + right]."""
    offsets = np.arange(-checks.nonnegative_int("left", left), checks.nonnegative_int("right", right) + 1)
    return (np.arange(num_frames)[:, None] + offsets).clip(0, num_frames - 1)


def transform(frames: Array, matrix: Array) -> Array:
    """A x, or A x + b when `matrix` [r, d + 1] is [A, b]: [T, d] -> [T, r], float32.

    >>> transform(np.array([[1.0, 2.0]]), np.array([[1.0, 1.0, 10.0]])).tolist()
    [[13.0]]
    """
    frames, matrix = frames_of(frames), np.asarray(matrix, np.float64)
    d = frames.shape[1]
    if matrix.ndim != 2 or matrix.shape[1] not in (d, d + 1):
        raise ValueError(f"matrix must have shape [r, {d}] or [r, {d + 1}] for such frames, got {list(matrix.shape)}.")
    moved = frames @ matrix[:, :d].T
    return (moved + matrix[:, d] if matrix.shape[1] > d else moved).astype(np.float32)
