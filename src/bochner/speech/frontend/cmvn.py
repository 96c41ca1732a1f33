"""Mean and variance normalisation, by speaker or by utterance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from bochner.speech.frames import FilePath, Frames, FrameStore, write_frames
from bochner.speech.frontend.arrays import frames_of

FLAT = 1e-5  # a spread below this share of the mean's size is rounding, not speech


class Moments(NamedTuple):
    """`mean` [d] and `std` [d] (over the number of frames, not one less), float64."""

    num_frames: int
    mean: Frames
    std: Frames


def group_moments(arrays: Iterable[tuple[str, Frames]]) -> dict[str, Moments]:
    """The moments of each group's frames, from a stream of (group, frames [T, d]) in any order.

    A group is a speaker, an utterance, or one word for all. Sums are merged without cancellation (Chan, Golub and
    LeVeque, 1983). O(N d) time, O(groups d) memory.

    >>> found = group_moments([("ann", np.array([[1.0]])), ("bob", np.array([[5.0]])), ("ann", np.array([[3.0]]))])
    >>> found["ann"]
    Moments(num_frames=2, mean=array([2.]), std=array([1.]))
    """
    found: dict[str, Moments] = {}
    for group, frames in arrays:
        X = frames_of(frames).astype(np.float64)
        here = Moments(len(X), X.mean(0), X.std(0))
        found[group] = _merged(found[group], here) if group in found else here
    return found


def normalize(frames: Frames, moments: Moments, *, variance: bool = True) -> Frames:
    """(x - mean) / std, float32 [T, d]; without `variance`, and where nothing varies, x - mean."""
    centred = frames_of(frames) - moments.mean
    if variance:
        varies = moments.std > FLAT * np.maximum(1.0, np.abs(moments.mean))
        centred /= np.where(varies, moments.std, 1.0)
    return centred.astype(np.float32)


def write_normalized(
    store: FrameStore, directory: FilePath, *, groups: Mapping[str, str] | None = None, variance: bool = True
) -> FrameStore:
    """The frames of `store` normalised by group, as a new store: one pass for the moments and one to write.

    `groups` says whose each utterance is, {utterance id: speaker}; without it each utterance is its own group.
    """
    group_of = {name: name for name in store.ids} if groups is None else groups
    if missing := [name for name in store.ids if name not in group_of]:
        raise ValueError(f"groups must name the speaker of each utterance, got none for {missing[:10]}.")
    moments = group_moments((group_of[name], store[name]) for name in store.ids)
    about = {**store.about, "cmvn": {"by": "utterance" if groups is None else "group", "variance": variance}}
    arrays = ((name, normalize(store[name], moments[group_of[name]], variance=variance)) for name in store.ids)
    return write_frames(directory, arrays, about=about)


def _merged(a: Moments, b: Moments) -> Moments:
    num_frames, step = a.num_frames + b.num_frames, b.mean - a.mean
    share = b.num_frames / num_frames
    variance = (1 - share) * a.std**2 + share * b.std**2 + share * (1 - share) * step**2
    return Moments(num_frames, a.mean + share * step, np.sqrt(variance))
