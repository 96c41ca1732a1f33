"""The grammar that knows nothing: every word as likely as any other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

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


@dataclass(frozen=True)
class Perplexity:
    """10^(-log10 p / tokens), the </s> of each sentence being a token.

    `value` counts unknown words with the probability of <unk>; `value_without_unknown` leaves them out of both sums,
    and is the one to compare models of different vocabularies with, beside the number of unknown words.
    """

    value: float
    value_without_unknown: float
    num_tokens: int
    num_sentences: int
    num_unknown: int


def perplexity(model: NgramModel, sentences: Iterable[str]) -> Perplexity:
    """The model's perplexity on a text. O(P n log N) for P tokens.

    >>> from bochner.speech.lm import estimate
    >>> model = estimate(["a b", "a c", "b"], order=2, fallback_discounts=(0.5, 1.0, 1.5))
    >>> result = perplexity(model, ["a b", "a d"])
    >>> round(result.value, 3), result.num_tokens, result.num_unknown
    (3.458, 6, 1)
    """
    text = model.encode(sentences)
    if not text.num_sentences:
        raise ValueError("sentences must hold at least one sentence, got none.")
    score, spoken, unknown = model.score(text), text.place > 0, text.ids == UNKNOWN
    return Perplexity(
        value=_perplexity(score[spoken]),
        value_without_unknown=_perplexity(score[spoken & ~unknown]),
        num_tokens=int(np.count_nonzero(spoken)),
        num_sentences=text.num_sentences,
        num_unknown=int(np.count_nonzero(unknown)),
    )


def _perplexity(log_probs: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    return float(10 ** -log_probs.mean())


def uniform(words: Iterable[str]) -> NgramModel:
    """p(w) = 1 / (V + 1) for each of V words and </s>: a loop of words or phones.

    >>> round(10 ** uniform(["yes", "no"]).log_prob("yes"), 4)
    0.3333
    """
    names = tuple(dict.fromkeys((*SPECIAL, *words)))
    if len(names) == len(SPECIAL):
        raise ValueError("words must hold at least one word, got none.")
    ids = np.arange(len(names))
    log_prob = np.full(len(names), -np.log10(len(names) - 2))
    log_prob[UNKNOWN], log_prob[BEGIN] = -np.inf, 0.0
    return NgramModel(names, [Grams(np.zeros_like(ids), ids, log_prob, np.zeros(len(ids)))])
