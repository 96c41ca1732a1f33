"""Deltas, splicing, transforms, normalisation, and the export of labelled frames as rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bochner import checks
from bochner.data import ShardedSource, cache_to_disk
from bochner.speech.frames import Array, FrameStore, check_frames, write_frames
from bochner.speech.text_files import FilePath

PRIOR_FRAMES = 100  # weight of the average speaker in the moments of one: a second of speech
FLAT = 1e-5  # a spread below this share of the mean's size is rounding, not speech


def add_deltas(frames: Array, *, order: int = 2, window: int = 2) -> Array:
    """Frames beside their slopes: delta_t = sum_j j x_{t+j} / sum_j j^2, j = -window ... window, and those of deltas.

    [T, d] -> [T, (order + 1) d]. The k-th delta is a filter of 2 k window + 1 taps; the first and last frames of the
    utterance are repeated beyond its ends, as in Kaldi. O(T d order^2 window). Source: Furui, 1986.

    >>> add_deltas(np.array([[0.0], [1.0], [2.0], [3.0], [4.0]]), order=1)[2]
    array([2., 1.])
    """
    frames = check_frames(frames)
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


def splice(frames: Array, *, left: int, right: int) -> Array:
    """Each frame with the `left` before and the `right` after it: row t is x_{t-left} ... x_t ... x_{t+right}.

    [T, d] -> [T, (left + 1 + right) d]. The frames are those of one utterance, whose first and last frames are repeated
    beyond its ends. O(T d (left + right)).

    >>> splice(np.array([[1], [2], [3]]), left=1, right=1).tolist()
    [[1, 1, 2], [1, 2, 3], [2, 3, 3]]
    """
    frames = check_frames(frames)
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
    frames, matrix = check_frames(frames), np.asarray(matrix, np.float64)
    d = frames.shape[1]
    if matrix.ndim != 2 or matrix.shape[1] not in (d, d + 1):
        raise ValueError(f"matrix must have shape [r, {d}] or [r, {d + 1}] for such frames, got {list(matrix.shape)}.")
    moved = frames @ matrix[:, :d].T
    return (moved + matrix[:, d] if matrix.shape[1] > d else moved).astype(np.float32)


class Moments(NamedTuple):
    """`mean` [d] and `std` [d] (over the number of frames, not one less), float64."""

    num_frames: int
    mean: Array
    std: Array


def group_moments(arrays: Iterable[tuple[str, Array]]) -> dict[str, Moments]:
    """The moments of each group's frames, from a stream of (group, frames [T, d]) in any order.

    A group is a speaker, an utterance, or one word for all. Sums are merged without cancellation (Chan, Golub and
    LeVeque, 1983). O(N d) time, O(groups d) memory.

    >>> moments = group_moments([("ann", np.array([[1.0]])), ("bob", np.array([[5.0]])), ("ann", np.array([[3.0]]))])
    >>> moments["ann"]
    Moments(num_frames=2, mean=array([2.]), std=array([1.]))
    """
    moments: dict[str, Moments] = {}
    for group, frames in arrays:
        X = check_frames(frames).astype(np.float64)
        part = Moments(len(X), X.mean(0), X.std(0))
        moments[group] = _merged(moments[group], part) if group in moments else part
    return moments


def average_moments(moments: Iterable[Moments]) -> Moments:
    """Those of the average speaker: the mean of the means, and the root mean square of the standard deviations."""
    groups = list(moments)
    mean = np.mean([group.mean for group in groups], axis=0)
    std = np.sqrt(np.mean([group.std**2 for group in groups], axis=0))
    return Moments(sum(group.num_frames for group in groups), mean, std)


def smoothed(moments: Moments, prior: Moments, *, prior_frames: float = PRIOR_FRAMES) -> Moments:
    """Mean and variance as weighted means of those of N frames and of a prior, with weights N and `prior_frames`.

    The mean of a short recording is that of its words more than that of its speaker and microphone.

    >>> smoothed(Moments(300, np.array([4.0]), np.ones(1)), Moments(0, np.zeros(1), np.ones(1)), prior_frames=100).mean
    array([3.])
    """
    share = moments.num_frames / (moments.num_frames + prior_frames)
    variance = share * moments.std**2 + (1 - share) * prior.std**2
    return Moments(moments.num_frames, prior.mean + share * (moments.mean - prior.mean), np.sqrt(variance))


def normalize(frames: Array, moments: Moments, *, variance: bool = True) -> Array:
    """(x - mean) / std, float32 [T, d]; without `variance`, and where nothing varies, x - mean."""
    centred = check_frames(frames) - moments.mean
    if variance:
        varies = moments.std > FLAT * np.maximum(1.0, np.abs(moments.mean))
        centred /= np.where(varies, moments.std, 1.0)
    return centred.astype(np.float32)


def write_normalized(
    store: FrameStore,
    directory: FilePath,
    *,
    groups: Mapping[str, str] | None = None,
    variance: bool = True,
    prior: Moments | None = None,
) -> FrameStore:
    """The frames of `store` normalised by group, as a new store, in two passes.

    `groups` maps utterance ids to speakers; without it each utterance is its own group. With a `prior` the moments of
    groups are `smoothed`; `stored_prior` reads it from the new store.
    """
    group_of = {name: name for name in store.ids} if groups is None else groups
    if missing := [name for name in store.ids if name not in group_of]:
        raise ValueError(f"groups must name the speaker of each utterance, got none for {missing[:10]}.")
    moments = group_moments((group_of[name], store[name]) for name in store.ids)
    about = {**store.about, "cmvn": {"by": "utterance" if groups is None else "group", "variance": variance}}
    if prior is not None:
        moments = {group: smoothed(own, prior) for group, own in moments.items()}
        about["prior"] = {"mean": prior.mean.tolist(), "std": prior.std.tolist(), "num_frames": prior.num_frames}
    arrays = ((name, normalize(store[name], moments[group_of[name]], variance=variance)) for name in store.ids)
    return write_frames(directory, arrays, about=about)


def stored_prior(store: FrameStore) -> Moments | None:
    """The prior that `write_normalized` used, or None."""
    stored = store.about.get("prior")
    return stored and Moments(stored["num_frames"], np.array(stored["mean"]), np.array(stored["std"]))


def _merged(a: Moments, b: Moments) -> Moments:
    num_frames, step = a.num_frames + b.num_frames, b.mean - a.mean
    share = b.num_frames / num_frames
    variance = (1 - share) * a.std**2 + share * b.std**2 + share * (1 - share) * step**2
    return Moments(num_frames, a.mean + share * step, np.sqrt(variance))


class Exported(NamedTuple):
    """The rows on disk, and the utterances without labels, which they leave out."""

    source: ShardedSource
    without_labels: tuple[str, ...]


def export_labelled(
    frames: FrameStore,
    labels: Mapping[str, Array],
    directory: FilePath,
    *,
    left: int = 0,
    right: int = 0,
) -> Exported:
    """Write every labelled frame as a row: X the frame with its `left` and `right` neighbours, y its label.

    `labels` maps utterance ids to integers [T]. Rows are in the order of `frames`, with context from the same utterance
    only. `directory` must be new or empty; it is written completely or, after an error, not at all, and
    `open_source(directory)` reads it. O(N d (left + 1 + right)) on disk, memory of one utterance and one shard.

    >>> import tempfile, numpy as np
    >>> from bochner.speech.frames import write_frames
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     store = write_frames(directory + "/frames", [("ann-1", np.eye(3)), ("bob-1", np.ones((2, 3)))])
    ...     rows = export_labelled(store, {"ann-1": np.array([0, 0, 1])}, directory + "/rows", left=1, right=1)
    ...     rows.source.num_inputs, rows.source.read(0).y, rows.without_labels
    (9, tensor([0, 0, 1]), ('bob-1',))
    """
    if unknown := [name for name in labels if name not in frames]:
        raise ValueError(f"labels must be of utterances in {frames.directory}, got {unknown[:10]} besides.")
    ids = [name for name in frames.ids if name in labels]
    if not ids:
        raise ValueError(f"labels must name utterances of {frames.directory}, got none.")
    source = cache_to_disk(_rows(frames, labels, ids, left, right), directory)
    return Exported(source, tuple(name for name in frames.ids if name not in labels))


def _rows(
    frames: FrameStore, labels: Mapping[str, Array], ids: Sequence[str], left: int, right: int
) -> Iterator[tuple[Array, Array]]:
    for name in ids:
        X, y = frames[name], labels[name]
        if y.shape != (len(X),) or y.dtype.kind not in "iu":
            raise ValueError(
                f"the labels of {name!r} must be integers [{len(X)}], one per frame, got {y.dtype} {list(y.shape)}; "
                f"align it again with these frames."
            )
        yield splice(X, left=left, right=right), y
