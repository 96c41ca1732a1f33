"""ARPA files: the text format in which n-gram models travel."""

from __future__ import annotations

import gzip
import math
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from bochner.speech.lm.model import SPECIAL, Grams, NgramModel
from bochner.storage import write_atomically


def write_arpa(path: str | os.PathLike[str], model: NgramModel) -> None:
    """Write the model as ARPA text, gzipped where the name ends in .gz; whole or not at all.

    >>> import tempfile
    >>> from bochner.speech.lm import estimate
    >>> model = estimate(["a b", "a c", "b"], order=2, fallback_discounts=(0.5, 1.0, 1.5))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_arpa(folder + "/bigram.arpa", model)
    ...     read_arpa(folder + "/bigram.arpa")
    NgramModel(order=2, num_grams=(6, 6))
    """
    content = "".join(_arpa(model)).encode("utf-8")
    path = Path(path)
    write_atomically(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def _arpa(model: NgramModel) -> Iterator[str]:
    texts: list[str] = [""]
    written = [np.isfinite(level.log_prob) for level in model.levels]  # no <unk> is -inf here, no line there
    yield "\\data\\\n"
    yield from (f"ngram {n}={np.count_nonzero(rows)}\n" for n, rows in enumerate(written, start=1))
    for n, (level, rows) in enumerate(zip(model.levels, written, strict=True), start=1):
        texts = [f"{texts[c]} {model.words[w]}".lstrip() for c, w in zip(level.context, level.word, strict=True)]
        yield f"\n\\{n}-grams:\n"
        for i in np.flatnonzero(rows):
            back_off = f"\t{level.back_off[i]:.8g}" if n < model.order else ""
            yield f"{level.log_prob[i]:.8g}\t{texts[i]}{back_off}\n"
    yield "\n\\end\\\n"


def read_arpa(path: str | os.PathLike[str]) -> NgramModel:
    """Read an ARPA file (.gz too), checked line by line: an error names the file and the line.

    Refused are numbers that are no log probabilities (NaN, infinite, above 0), words without a unigram, n-grams that
    stand twice or whose context is missing, wrong counts, and a file that ends before \\end\\.
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
    """The tables that grow while an ARPA file is read, one row a line."""

    def __init__(self, lines: Iterator[str]) -> None:
        self.lines = lines
        self.ids = {word: i for i, word in enumerate(SPECIAL)}
        self.rows: list[dict[tuple[int, ...], tuple[float, float]]] = []

    def model(self) -> NgramModel:
        sizes, line = self._header()
        for order, size in enumerate(sizes, start=1):
            line = self._section(line, order=order, size=size, last=order == len(sizes))
        if line != "\\end\\":
            raise ValueError(f"\\end\\ must stand after the {len(sizes)}-grams, got {line!r}.")
        return NgramModel(tuple(self.ids), _levels(self.rows, num_words=len(self.ids)))

    def _next(self) -> str:
        for line in self.lines:
            return line
        raise ValueError("the file ends before \\end\\; it was cut, copy it again.")

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
            raise ValueError(f"a log probability, {order} words and a back-off must stand here, got {line!r}.")
        log_prob, back_off = _number(fields[0]), _number(fields[order + 1]) if len(fields) > order + 1 else 0.0
        if log_prob > 0:
            raise ValueError(f"a log probability is at most 0, got {fields[0]}.")
        gram = self._gram(fields[1 : order + 1])
        if gram in self.rows[-1]:
            raise ValueError(f"the {order}-gram {' '.join(fields[1 : order + 1])!r} stands here a second time.")
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
        raise ValueError(f"{text!r} is not finite; -99 stands for a probability of 0.")
    return number


def _levels(tables: Sequence[dict[tuple[int, ...], tuple[float, float]]], *, num_words: int) -> list[Grams]:
    """Tables as sorted arrays; special words without a line of their own get -inf."""
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
