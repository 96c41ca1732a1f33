"""Classes or numbers: what a target holds."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from bochner.data import labels_of
from bochner.data.blocks import Source, read_targets

Task = Literal["auto", "classify", "regress"]
MOST_INTEGER_CLASSES = 100


class Choice(NamedTuple):
    """A task, and why it was chosen."""

    task: Literal["classify", "regress"]
    reason: str


def choose_task(asked: Task, source: Source) -> Choice:
    """What "auto" stands for: text is classes, integers are with at most 100 different values, other numbers are not.

    At most one pass over the targets, which ends when more than 100 integers are seen.

    >>> from bochner.data import ArraySource
    >>> choose_task("auto", ArraySource(np.eye(3), ["yes", "no", "yes"]))
    Choice(task='classify', reason='text is taken for classes')
    >>> choose_task("auto", ArraySource(np.eye(3), [0.5, 1.5, 0.5])).task
    'regress'
    """
    has_text = labels_of(source) is not None
    if asked == "regress" and has_text:
        raise ValueError("task must not be 'regress' for a target that is text; choose another --target.")
    if asked != "auto":
        return Choice(asked, "as asked")
    if has_text:
        return Choice("classify", "text is taken for classes")
    count = _count_integers(source)
    if count is None:
        return Choice("regress", "the targets are not all integers; --task classify makes classes of them")
    if count > MOST_INTEGER_CLASSES:
        return Choice(
            "regress", f"more than {MOST_INTEGER_CLASSES} different integers; --task classify makes classes of them"
        )
    return Choice("classify", f"{count} different integers; --task regress takes them for numbers")


def _count_integers(source: Source) -> int | None:
    """How many different integers y holds, counted to a little more than 100; None when it holds other numbers."""
    seen: np.ndarray[tuple[int], np.dtype[np.int64]] = np.empty(0, np.int64)
    for shard, size in enumerate(source.shard_sizes):
        if not size:
            continue
        y = read_targets(source, shard)
        if y.is_floating_point() or y.ndim != 1:
            return None
        seen = np.union1d(seen, y.cpu().numpy())
        if len(seen) > MOST_INTEGER_CLASSES:
            break
    return len(seen)
