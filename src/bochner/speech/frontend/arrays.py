"""The arrays of the front end, and the check that they are frames."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def frames_of(frames: Array) -> Array:
    """`frames` once they are seen to be [T, d] with at least one of each."""
    frames = np.asarray(frames)
    if frames.ndim != 2 or 0 in frames.shape:
        raise ValueError(f"frames must have shape [T, d] with T and d at least 1, got {list(frames.shape)}.")
    return frames
