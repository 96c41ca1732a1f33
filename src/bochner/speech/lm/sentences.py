"""Sentences as one stream of word ids: <s> w1 ... wn </s> <s> ..."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

UNKNOWN, BEGIN, END = 0, 1, 2
SPECIAL = ("<unk>", "<s>", "</s>")
Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Stream:
    """ids [P] of all sentences one after the other, and each id's place [P] in its own sentence (0 at <s>)."""

    ids: Ids
    place: Ids

    @property
    def num_sentences(self) -> int:
        return int(np.count_nonzero(self.place == 0))


def stream(sentences: Iterable[Iterable[int]]) -> Stream:
    """Sentences of word ids, each between <s> and </s>; an empty sentence is <s> </s>.

    >>> stream([[5, 6], []]).ids.tolist()
    [1, 5, 6, 2, 1, 2]
    """
    content: list[int] = []
    ends = []
    for sentence in sentences:
        content.extend(sentence)
        ends.append(len(content))
    bounds = np.array([0, *ends], dtype=np.int64)
    lengths = bounds[1:] - bounds[:-1] + 2
    starts = np.cumsum(lengths) - lengths
    ids = np.full(lengths.sum(), -2, dtype=np.int64)
    ids[starts], ids[starts + lengths - 1] = BEGIN, END
    ids[ids == -2] = content
    return Stream(ids, np.arange(len(ids)) - np.repeat(starts, lengths))
