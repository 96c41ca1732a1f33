"""The n-gram model: for each order a sorted table of n-grams with log probability and back-off."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bochner.speech.lm.sentences import SPECIAL, Ids, Stream, stream

Floats = NDArray[np.float64]
T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True)
class Grams:
    """The n-grams of one order: row i is the (n-1)-gram `context[i]` and `word[i]`, sorted by both; logs to base 10."""

    context: Ids
    word: Ids
    log_prob: Floats
    back_off: Floats

    def __len__(self) -> int:
        return len(self.word)


class NgramModel:
    """log10 p(w | h) = the entry of h w, or else back_off(h) + log10 p(w | h without its first word).

    words: by id; the first three are <unk>, <s>, </s>. levels: the tables of orders 1, 2, ...; those of order 1 are the
    words in order. A model without <unk> (ARPA files allow it) has log probability -inf there.
    """

    def __init__(self, words: Sequence[str], levels: Sequence[Grams]) -> None:
        if tuple(words[: len(SPECIAL)]) != SPECIAL or len(words) != len(levels[0]):
            raise ValueError(f"words must begin with {SPECIAL} and be as many as the {len(levels[0])} unigrams.")
        self.words, self.levels = tuple(words), tuple(levels)

    @property
    def order(self) -> int:
        return len(self.levels)

    @property
    def num_grams(self) -> tuple[int, ...]:
        return tuple(len(level) for level in self.levels)

    def __repr__(self) -> str:
        return f"NgramModel(order={self.order}, num_grams={self.num_grams})"

    @cached_property
    def ids(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    @cached_property
    def _keys(self) -> list[Ids]:
        return [level.context * len(self.words) + level.word for level in self.levels]

    def find(self, order: int, context: Ids, word: Ids) -> Ids:
        """Rows of the n-grams (context row, word) in the table of `order`, -1 where there is none. O(Q log N)."""
        if order == 1:
            return word
        keys, wanted = self._keys[order - 1], context * len(self.words) + word  # below 0 where there is no context
        if not len(keys):
            return np.full_like(word, -1)
        row = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[row] == wanted, row, -1)

    def encode(self, sentences: Iterable[str]) -> Stream:
        """Sentences as ids; unknown words become <unk>."""
        return stream([self.ids.get(word, 0) for word in sentence.split()] for sentence in sentences)

    def score(self, text: Stream) -> Floats:
        """log10 p of each id of the stream given those before it in its sentence, [P]; 0 at <s>. O(P n log N)."""
        return np.where(text.place == 0, 0.0, self._score(text))

    def _score(self, text: Stream) -> Floats:
        row = text.ids
        score = self.levels[0].log_prob[row]
        for n in range(2, self.order + 1):
            context = np.where(text.place >= n - 1, np.roll(row, 1), -1)
            back_off = values_at(self.levels[n - 2].back_off, context, missing=0.0)
            row = self.find(n, context, text.ids)
            score = np.where(row >= 0, values_at(self.levels[n - 1].log_prob, row, missing=0.0), score + back_off)
        return score

    def log_prob(self, word: str, history: Sequence[str] = ()) -> float:
        """log10 p(word | history), for trying out; `score` is for texts. A history from the start begins with <s>."""
        known = [self.ids.get(w, 0) for w in (*history, word)][-self.order :]
        return float(self._score(Stream(np.array(known), np.arange(len(known))))[-1])

    def suffixes(self, order: int) -> list[Ids]:
        """For each n-gram of `order` the row of its last 1, 2, ..., order - 1 words in those tables, -1 where none."""
        level = self.levels[order - 1]
        shorter = self.suffixes(order - 1) if order > 1 else []
        found = [self.find(n + 2, rows[level.context], level.word) for n, rows in enumerate(shorter)]
        return [level.word, *found] if order > 1 else found

    def histories(self, order: int) -> NDArray[np.bool_]:
        """Which n-grams of `order` are followed by something in the table of order + 1."""
        follows = np.zeros(len(self.levels[order - 1]), dtype=bool)
        if order < self.order:
            follows[self.levels[order].context] = True
        return follows


def values_at(column: NDArray[T], rows: Ids, *, missing: float) -> NDArray[T]:
    """column[rows], and `missing` where a row is -1; the column may be empty."""
    values = np.full(len(rows), missing, dtype=column.dtype)
    values[rows >= 0] = column[rows[rows >= 0]]
    return values
