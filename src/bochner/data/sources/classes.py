"""The classes that targets fall into, and targets as places among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from bochner.data.blocks import Source
from bochner.data.sources.labels import MOST_LABELS, labels_of, shown
from bochner.data.sources.mapped import EncodeLabels, MappedSource
from bochner.data.sources.rows import read_targets

Classes = np.ndarray[Any, Any]


def classes_of(source: Source) -> Classes:
    """The classes [C] of a source: its labels, or the sorted different numbers in y.

    Labels cost nothing; numbers cost one pass over the targets, O(N log N) time and O(shard + C) memory.

    >>> from bochner.data.sources import ArraySource
    >>> classes_of(ArraySource(np.eye(3), ["yes", "no", "yes"])), classes_of(ArraySource(np.eye(3), [3, -1, 3]))
    (array(['no', 'yes'], dtype='<U3'), array([-1,  3]))
    """
    labels = labels_of(source)
    return seen_targets(source) if labels is None else np.array(labels)


def check_classes(train: Source, heldout: Source | None = None) -> Classes:
    """The classes of `train`, once its rows are seen to have two at least, and `heldout` none besides theirs.

    A class that `heldout` lacks is no error. One pass over the targets of both.

    >>> from bochner.data.sources import ArraySource
    >>> check_classes(ArraySource(np.eye(2), [0, 1]), ArraySource(np.eye(2), [1, 5]))
    Traceback (most recent call last):
        ...
    ValueError: heldout must hold classes of the training rows only, got [5] besides; ...
    """
    classes, seen = classes_of(train), seen_targets(train)
    if len(seen) < 2:
        raise ValueError(f"the training rows must hold at least two classes, got {_words(seen, train)} only.")
    if heldout is not None:
        _check_same_labels(train, heldout)
        strange = np.setdiff1d(seen_targets(heldout), seen)
        if len(strange):
            raise ValueError(
                f"heldout must hold classes of the training rows only, got {_words(strange, train)} besides; "
                f"leave their rows out, or hold out other rows."
            )
    return classes


def with_classes(source: Source, classes: Classes | Sequence[Any]) -> Source:
    """`source` with y as places in `classes`, sorted numbers or the labels that it was opened with.

    >>> from bochner.data.sources import ArraySource
    >>> with_classes(ArraySource(np.eye(3), [3, -1, 3]), [-1, 3]).read(0).y
    tensor([1, 0, 1])
    """
    wanted, labels = np.asarray(classes), labels_of(source)
    is_text = wanted.dtype.kind == "U"
    if labels is None and not is_text:
        return MappedSource(source, EncodeLabels(torch.as_tensor(wanted)))
    if labels is None:
        raise ValueError(f"source must have the labels {shown(wanted.tolist())}, got numbers; open it with labels=.")
    if not is_text:
        raise ValueError(f"source must hold the classes {shown(wanted.tolist())}, got the labels {shown(labels)}.")
    if labels != tuple(wanted.tolist()):
        raise ValueError(
            f"source must have the labels {shown(wanted.tolist())}, got {shown(labels)}; open it with labels=."
        )
    return source


def seen_targets(source: Source) -> Classes:
    """The different values in y, sorted: numbers, or places of labels."""
    seen: Classes = np.empty(0, np.int64)
    for shard, size in enumerate(source.shard_sizes):
        if size:
            y = read_targets(source, shard)
            if y.ndim != 1:
                raise ValueError(f"y must have shape [rows] to hold classes, got rows of shape {tuple(y.shape[1:])}.")
            found = np.unique(y.cpu().numpy())
            seen = np.union1d(seen, found) if len(seen) else found
        if len(seen) > MOST_LABELS:
            raise ValueError(f"y must hold classes, got more than {MOST_LABELS} different numbers.")
    return seen


def _check_same_labels(train: Source, heldout: Source) -> None:
    ours, theirs = labels_of(train), labels_of(heldout)
    if ours != theirs:
        raise ValueError(
            f"heldout must have the labels of the training rows, {_kind(ours)}, got {_kind(theirs)}; "
            f"open it with labels=classes_of(train)."
        )


def _kind(labels: tuple[str, ...] | None) -> str:
    return "numbers" if labels is None else shown(labels)


def _words(seen: Classes, source: Source) -> str:
    labels = labels_of(source)
    return shown([place if labels is None else labels[place] for place in seen.tolist()])
