"""Labelled frames as rows of a training set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from bochner.data import ShardedSource, cache_to_disk
from bochner.speech.frames import Array, FilePath, FrameStore
from bochner.speech.frontend.postprocess import splice


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
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = write_frames(folder + "/frames", [("ann-1", np.eye(3)), ("bob-1", np.ones((2, 3)))])
    ...     rows = export_labelled(store, {"ann-1": np.array([0, 0, 1])}, folder + "/rows", left=1, right=1)
    ...     rows.source.num_inputs, rows.source.read(0).y, rows.without_labels
    (9, tensor([0, 0, 1]), ('bob-1',))
    """
    if unknown := [name for name in labels if name not in frames]:
        raise ValueError(f"labels must be of utterances in {frames.directory}, got {unknown[:10]} besides.")
    ids = [name for name in frames.ids if name in labels]
    if not ids:
        raise ValueError(f"labels must name utterances of {frames.directory}, got none.")
    blocks = _rows(frames, labels, ids, left, right)
    source = cache_to_disk(blocks, directory)
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
