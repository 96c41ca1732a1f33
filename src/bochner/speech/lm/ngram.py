"""N-gram models with back-off: scoring, perplexity, ARPA files."""

from __future__ import annotations

import gzip
import math
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bochner.speech.text_files import FilePath
from bochner.storage import write_atomically

UNKNOWN, BEGIN, END = 0, 1, 2
SPECIAL = ("<unk>", "<s>", "</s>")
Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
T = TypeVar("T", bound=np.generic)


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

    `words` are indexed by id, from <unk>, <s> and </s> on. `levels` are the tables of orders 1, 2, ...; that of order 1
    lists the words in order. A model without <unk> (ARPA files allow it) gives it log probability -inf.
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
        keys, key = self._keys[order - 1], context * len(self.words) + word  # negative without a context
        if not len(keys):
            return np.full_like(word, -1)
        row = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        return np.where(keys[row] == key, row, -1)

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
        """log10 p(word | history) of a single word; a history from the start of a sentence begins with <s>."""
        known = [self.ids.get(w, 0) for w in (*history, word)][-self.order :]
        return float(self._score(Stream(np.array(known), np.arange(len(known))))[-1])

    def suffixes(self, order: int) -> list[Ids]:
        """For each n-gram of `order` the row of its last 1, 2, ..., order - 1 words in those tables, -1 where none."""
        level = self.levels[order - 1]
        shorter = self.suffixes(order - 1) if order > 1 else []
        longer = [self.find(n + 2, rows[level.context], level.word) for n, rows in enumerate(shorter)]
        return [level.word, *longer] if order > 1 else longer

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
    """10^(-log10 p / tokens), where the </s> of each sentence is a token.

    `value` counts unknown words with the probability of <unk>; `value_without_unknown` leaves them out of both sums, to
    compare models of different vocabularies.
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
    score, tokens, unknown = model.score(text), text.place > 0, text.ids == UNKNOWN
    return Perplexity(
        value=_perplexity(score[tokens]),
        value_without_unknown=_perplexity(score[tokens & ~unknown]),
        num_tokens=int(np.count_nonzero(tokens)),
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


def write_arpa(path: FilePath, model: NgramModel) -> None:
    """Write the model as ARPA text, atomically; compressed if the name ends in .gz.

    >>> import tempfile
    >>> from bochner.speech.lm import estimate
    >>> model = estimate(["a b", "a c", "b"], order=2, fallback_discounts=(0.5, 1.0, 1.5))
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     write_arpa(directory + "/bigram.arpa", model)
    ...     read_arpa(directory + "/bigram.arpa")
    NgramModel(order=2, num_grams=(6, 6))
    """
    content = "".join(_arpa(model)).encode("utf-8")
    path = Path(path)
    write_atomically(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def _arpa(model: NgramModel) -> Iterator[str]:
    texts: list[str] = [""]
    written = [np.isfinite(level.log_prob) for level in model.levels]  # a missing <unk> has -inf here and no line there
    yield "\\data\\\n"
    yield from (f"ngram {n}={np.count_nonzero(rows)}\n" for n, rows in enumerate(written, start=1))
    for n, (level, rows) in enumerate(zip(model.levels, written, strict=True), start=1):
        texts = [f"{texts[c]} {model.words[w]}".lstrip() for c, w in zip(level.context, level.word, strict=True)]
        yield f"\n\\{n}-grams:\n"
        for i in np.flatnonzero(rows):
            back_off = f"\t{level.back_off[i]:.8g}" if n < model.order else ""
            yield f"{level.log_prob[i]:.8g}\t{texts[i]}{back_off}\n"
    yield "\n\\end\\\n"


def read_arpa(path: FilePath) -> NgramModel:
    """Read an ARPA file (.gz too), checked line by line: an error names the file and the line.

    Errors are numbers that are not log probabilities (NaN, infinite, above 0), words without a unigram, n-grams that
    are repeated or have no context, wrong counts, and a file that ends before \\end\\.
    """
    path, number = Path(path), 0
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:

        def lines() -> Iterator[str]:
            nonlocal number
            for number, line in enumerate(file, start=1):  # noqa: B007
                text = line.decode("utf-8").strip(" \t\r\n")
                if text:
                    yield text

        try:
            return _Reader(lines()).model()
        except (ValueError, EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{path}, line {number}: {error}") from error


class _Reader:
    """The tables of an ARPA file while it is read, one row per line."""

    def __init__(self, lines: Iterator[str]) -> None:
        self.lines = lines
        self.ids = {word: i for i, word in enumerate(SPECIAL)}
        self.rows: list[dict[tuple[int, ...], tuple[float, float]]] = []

    def model(self) -> NgramModel:
        sizes, line = self._header()
        for order, size in enumerate(sizes, start=1):
            line = self._section(line, order=order, size=size, last=order == len(sizes))
        if line != "\\end\\":
            raise ValueError(f"\\end\\ must follow the {len(sizes)}-grams, got {line!r}.")
        return NgramModel(tuple(self.ids), _levels(self.rows, num_words=len(self.ids)))

    def _next(self) -> str:
        for line in self.lines:
            return line
        raise ValueError("the file ends before \\end\\; it is truncated.")

    def _header(self) -> tuple[list[int], str]:
        while self._next() != "\\data\\":
            pass
        sizes: list[int] = []
        while match := re.fullmatch(r"ngram\s+(\d{1,9})\s*=\s*(\d{1,15})", line := self._next()):
            if int(match[1]) != len(sizes) + 1:
                raise ValueError(f"the count of {len(sizes) + 1}-grams must come next, got {line!r}.")
            sizes.append(int(match[2]))
        if not sizes:
            raise ValueError(f"lines `ngram 1=...` must follow \\data\\, got {line!r}.")
        return sizes, line

    def _section(self, title: str, *, order: int, size: int, last: bool) -> str:
        if title != f"\\{order}-grams:":
            raise ValueError(f"\\{order}-grams: must come next, got {title!r}.")
        table: dict[tuple[int, ...], tuple[float, float]] = {}
        self.rows.append(table)
        while not (line := self._next()).startswith("\\"):
            self._entry(line, order=order, last=last)
            if len(table) > size:
                raise ValueError(f"more {order}-grams than the {size} that the header gives.")
        if len(table) != size:
            raise ValueError(f"{len(table)} {order}-grams were read, the header gives {size}.")
        return line

    def _entry(self, line: str, *, order: int, last: bool) -> None:
        fields = re.split("[ \t]+", line)
        if len(fields) not in ((order + 1,) if last else (order + 1, order + 2)):
            raise ValueError(f"expected a log probability, {order} words and a back-off, got {line!r}.")
        log_prob, back_off = _number(fields[0]), _number(fields[order + 1]) if len(fields) > order + 1 else 0.0
        if log_prob > 0:
            raise ValueError(f"a log probability is at most 0, got {fields[0]}.")
        gram = self._gram(fields[1 : order + 1])
        if gram in self.rows[-1]:
            raise ValueError(f"the {order}-gram {' '.join(fields[1 : order + 1])!r} is repeated.")
        if order > 1 and gram[:-1] not in self.rows[-2]:
            raise ValueError(f"the context {' '.join(fields[1:order])!r} is not among the {order - 1}-grams.")
        self.rows[-1][gram] = (log_prob, back_off)

    def _gram(self, words: Sequence[str]) -> tuple[int, ...]:
        if len(words) == 1:
            return (self.ids.setdefault(words[0], len(self.ids)),)
        try:
            return tuple(self.ids[word] for word in words)
        except KeyError as error:
            raise ValueError(f"the word {error} is not among the unigrams.") from error


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number.") from None
    if not math.isfinite(number):
        raise ValueError(f"{text!r} is not finite; write -99 for a probability of 0.")
    return number


def _levels(tables: Sequence[dict[tuple[int, ...], tuple[float, float]]], *, num_words: int) -> list[Grams]:
    """Tables as sorted arrays; special words without a line have log probability -inf."""
    for word in range(num_words):
        tables[0].setdefault((word,), (-math.inf, 0.0))
    levels: list[Grams] = []
    row_of: dict[tuple[int, ...], int] = {(): 0}
    for table in tables:
        grams = sorted(table)
        context = np.array([row_of[gram[:-1]] for gram in grams], dtype=np.int64)
        words = np.array([gram[-1] for gram in grams], dtype=np.int64)
        numbers = np.array([table[gram] for gram in grams], dtype=np.float64).reshape(-1, 2)
        levels.append(Grams(context, words, numbers[:, 0].copy(), numbers[:, 1].copy()))
        row_of = {gram: i for i, gram in enumerate(grams)}
    return levels
