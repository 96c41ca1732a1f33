"""Grapheme-to-phoneme conversion by a joint-sequence model: an n-gram model of pairs of letters and phones.

A word and its pronunciation are cut into graphones, pairs of one or two letters and none to two phones: phoenix is
ph|F oe|IY n|N i|IH x|K,S. An EM algorithm learns which cuts are likely, and an n-gram model of the sequences of
graphones then pronounces words it has not seen.

Source: Bisani & Ney, 2008; the cuts are those of Phonetisaurus (Novak et al., 2016).
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bochner.checks import positive_int
from bochner.speech.frames import Array
from bochner.speech.lexicon import Lexicon, Pronunciation
from bochner.speech.lm.kneser_ney import estimate
from bochner.speech.lm.ngram import BEGIN, END, SPECIAL, Grams, NgramModel
from bochner.speech.text_files import FilePath
from bochner.storage import write_atomically

STEPS = ((1, 0), (1, 1), (1, 2), (2, 1))  # letters and phones of a graphone
VERSION = 1
LEVELS = 255  # log probabilities are stored in 8 bits
MIN_LOG_PROB = -6.0  # in base 10; rarer graphones are no better
FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)


class Graphone(NamedTuple):
    """One or two letters and their phones."""

    letters: str
    phones: Pronunciation

    def __str__(self) -> str:
        return f"{self.letters}|{','.join(self.phones)}"


@dataclass(frozen=True, eq=False)
class G2p:
    """Pronounces words by an n-gram model whose words are graphones.

    >>> from bochner.speech.pretrained import load_model
    >>> load_model("en").g2p.pronounce("plimble")
    ('P', 'L', 'IH', 'M', 'B', 'AH', 'L')
    """

    model: NgramModel

    def pronounce(self, word: str, *, beam: int = 64) -> Pronunciation | None:
        """The likeliest pronunciation, or None for a word with letters that the model has not seen.

        Beam search over the cuts of the word; about 10 ms.
        """
        positive_int("beam", beam)
        letters = word.lower()
        start = self._advance(_Paths.start(self.model.order), np.array([BEGIN]))
        partial = {0: start} | {place: _Paths.none(self.model.order) for place in range(1, len(letters) + 1)}
        for place in range(len(letters)):
            paths = partial[place].best(beam)
            for length in (1, 2):
                tokens = self._tokens.get(letters[place : place + length]) if place + length <= len(letters) else None
                if tokens is not None and len(paths.scores):
                    partial[place + length] = partial[place + length].joined(self._advance(paths, tokens))
        ended = self._advance(partial[len(letters)].best(beam), np.array([END])) if letters else start
        if not letters or not len(ended.scores):
            return None
        for cut in ended.cuts[np.argsort(-ended.scores, kind="stable")]:
            if phones := tuple(phone for token in cut[1:-1] for phone in self.graphones[token].phones):
                return phones
        return None

    @cached_property
    def graphones(self) -> dict[int, Graphone]:
        """By the number of their token."""
        parts = {number: text.rpartition("|") for number, text in enumerate(self.model.words) if text not in SPECIAL}
        return {
            number: Graphone(letters, tuple(filter(None, phones.split(","))))
            for number, (letters, _, phones) in parts.items()
        }

    @cached_property
    def _tokens(self) -> dict[str, Array]:
        """The tokens of graphones with these letters."""
        tokens: dict[str, list[int]] = {}
        for number, graphone in self.graphones.items():
            tokens.setdefault(graphone.letters, []).append(number)
        return {letters: np.array(numbers) for letters, numbers in tokens.items()}

    def _advance(self, paths: _Paths, tokens: Array) -> _Paths:
        """Every path followed by every token. O(paths tokens order)."""
        sources, words = np.repeat(np.arange(len(paths.scores)), len(tokens)), np.tile(tokens, len(paths.scores))
        rows = np.empty((len(words), self.model.order), np.int64)
        rows[:, 0], scores = words, self.model.levels[0].log_prob[words]
        for n in range(2, self.model.order + 1):
            level, shorter = self.model.levels[n - 1], self.model.levels[n - 2]
            context = paths.rows[sources, n - 2]
            rows[:, n - 1] = self.model.find(n, context, words)
            known = rows[:, n - 1]
            back_off = np.where(context >= 0, shorter.back_off[context], 0.0)
            scores = np.where(known >= 0, level.log_prob[known], scores + back_off)
        cuts = np.empty(len(words), object)
        cuts[:] = [(*paths.cuts[source], word) for source, word in zip(sources.tolist(), words.tolist(), strict=True)]
        return _Paths(rows, paths.scores[sources] + (0.0 if tokens[0] == BEGIN else scores), cuts)

    def save(self, path: FilePath) -> None:
        """Write one compressed file of arrays (.npz), with log probabilities in steps of 0.024."""
        about = {"version": VERSION, "words": self.model.words[len(SPECIAL) :]}
        arrays: dict[str, Array] = {"about": np.frombuffer(json.dumps(about, ensure_ascii=False).encode(), np.uint8)}
        for n, level in enumerate(self.model.levels, start=1):
            arrays[f"{n}.word"] = level.word.astype(np.uint16)
            if n > 1:
                rows = len(self.model.levels[n - 2])
                arrays[f"{n}.children"] = np.bincount(level.context, minlength=rows).astype(np.uint16)
            arrays[f"{n}.log_prob"], arrays[f"{n}.back_off"] = map(_in_steps, (level.log_prob, level.back_off))
        stream = io.BytesIO()
        np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
        write_atomically(Path(path), stream.getvalue())

    @classmethod
    def load(cls, path: FilePath) -> G2p:
        try:
            with np.load(path, allow_pickle=False) as stored:
                about = json.loads(stored["about"].tobytes())
                if about["version"] != VERSION:
                    raise ValueError(f"version {about['version']!r}, this bochner reads {VERSION}")
                levels = [_level(stored, n) for n in range(1, 1 + sum(name.endswith(".word") for name in stored.files))]
                return cls(NgramModel((*SPECIAL, *about["words"]), levels))
        except (OSError, KeyError, TypeError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} is not a grapheme-to-phoneme model: {error}") from error


def _in_steps(log_probs: Array) -> Array:
    steps = np.clip(log_probs, MIN_LOG_PROB, 0.0) * (LEVELS / MIN_LOG_PROB)
    return np.asarray(steps.round().astype(np.uint8))


def _level(stored: Mapping[str, Array], n: int) -> Grams:
    word = stored[f"{n}.word"].astype(np.int64)
    children = stored[f"{n}.children"] if n > 1 else np.zeros(0, np.int64)
    context = np.repeat(np.arange(len(children)), children) if n > 1 else np.zeros(len(word), np.int64)
    values = (stored[f"{n}.{name}"] * (MIN_LOG_PROB / LEVELS) for name in ("log_prob", "back_off"))
    return Grams(context, word, *values)


class _Paths(NamedTuple):
    """Partial cuts of a word: rows [n, order] of their last 1, 2, ... tokens in the model, log10 scores, tokens."""

    rows: Array
    scores: Array
    cuts: Array

    @classmethod
    def start(cls, order: int) -> _Paths:
        cuts = np.empty(1, object)
        cuts[0] = ()
        return cls(np.full((1, order), -1), np.zeros(1), cuts)

    @classmethod
    def none(cls, order: int) -> _Paths:
        return cls(np.empty((0, order), np.int64), np.empty(0), np.empty(0, object))

    def best(self, count: int) -> _Paths:
        chosen = np.argsort(-self.scores, kind="stable")[:count]
        return _Paths(self.rows[chosen], self.scores[chosen], self.cuts[chosen])

    def joined(self, other: _Paths) -> _Paths:
        return _Paths(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


def train_g2p(
    lexicon: Lexicon | Mapping[str, Iterable[Sequence[str]]],
    *,
    order: int = 7,
    iterations: int = 8,
) -> G2p:
    """Learn how words are pronounced from a lexicon.

    lexicon: words and their pronunciations; those that no sequence of graphones can produce are left out.
    order: of the n-gram model.
    iterations: of EM for the cuts. A minute for 100,000 words.
    """
    positive_int("iterations", iterations)
    entries = lexicon.entries if isinstance(lexicon, Lexicon) else lexicon
    pairs = [(word.lower(), tuple(phones)) for word, ways in entries.items() for phones in ways]
    cuts = [" ".join(map(str, cut)) for cut in cut_words(pairs, iterations=iterations)]
    if not cuts:
        raise ValueError("lexicon must hold a word with at most two phones for each letter, got none.")
    return G2p(estimate(cuts, order=order, fallback_discounts=FALLBACK_DISCOUNTS))


def split_words(
    entries: Mapping[str, Iterable[Sequence[str]]], *, test_fraction: float, seed: int
) -> tuple[dict[str, Iterable[Sequence[str]]], dict[str, Iterable[Sequence[str]]]]:
    """The entries in two parts, the second with a random share of the words."""
    if not 0.0 <= test_fraction < 1.0:
        raise ValueError(f"test_fraction must lie in [0, 1), got {test_fraction}.")
    words = sorted(entries)
    test = set(np.random.default_rng(seed).permutation(words)[: round(test_fraction * len(words))].tolist())
    known = {word: ways for word, ways in entries.items() if word not in test}
    return known, {word: entries[word] for word in sorted(test)}


def word_error_rate(g2p: G2p, entries: Mapping[str, Iterable[Sequence[str]]]) -> float:
    """The share of words whose pronunciation by `g2p` is none of their pronunciations."""
    return sum(g2p.pronounce(word) not in set(map(tuple, ways)) for word, ways in entries.items()) / len(entries)


def cut_words(pairs: Sequence[tuple[str, Pronunciation]], *, iterations: int) -> Iterator[tuple[Graphone, ...]]:
    """The likeliest cut of each word and pronunciation into graphones.

    p(cut) = prod p(graphone); EM over all cuts of all words, for words of equal lengths at once. O(L P) per word of L
    letters and P phones.
    """
    groups_of_rows = _by_lengths(pairs)
    if not groups_of_rows:
        return
    letters, phones = (_numbered(column) for column in zip(*pairs, strict=True))
    groups = [_Group(rows, letters, phones) for rows in groups_of_rows.values()]
    tokens = np.unique(np.concatenate([group.ids[step].ravel() for group in groups for step in group.ids]))
    for group in groups:
        group.ids = {step: np.searchsorted(tokens, ids) for step, ids in group.ids.items()}
    probabilities = np.full(len(tokens), 1.0 / len(tokens))
    for _ in range(iterations):
        counts = np.zeros(len(tokens))
        for group in groups:
            group.add_counts(probabilities, counts)
        probabilities = counts / max(counts.sum(), 1e-300)
    for group in groups:
        yield from group.best_cuts(probabilities, pairs)


def _numbered(column: Sequence[Sequence[str]]) -> tuple[dict[str, int], Sequence[Sequence[str]]]:
    """Numbers from 1 of the symbols in a column of sequences, and the column."""
    return {symbol: n for n, symbol in enumerate(sorted({s for row in column for s in row}), start=1)}, column


def _by_lengths(pairs: Sequence[tuple[str, Pronunciation]]) -> dict[tuple[int, int], list[int]]:
    """The places of pairs by their numbers of letters and phones, if some cut exists."""
    groups: dict[tuple[int, int], list[int]] = {}
    for place, (word, phones) in enumerate(pairs):
        if word and 0 < len(phones) <= 2 * len(word):
            groups.setdefault((len(word), len(phones)), []).append(place)
    return groups


class _Group:
    """Words of G letters and P phones: a lattice of (G + 1) (P + 1) nodes, with the words as the last dimension."""

    def __init__(self, rows: list[int], letters: Any, phones: Any) -> None:
        self.rows = rows
        x = np.array([[letters[0][s] for s in letters[1][row]] for row in rows]).T
        y = np.array([[phones[0][s] for s in phones[1][row]] for row in rows]).T
        self.num_letters, self.num_phones = len(x), len(y)
        bases = (len(letters[0]) + 1, len(phones[0]) + 1)
        self.ids: dict[tuple[int, int], Array] = {}  # step -> the graphone from each node [nodes, words]
        for g, p in STEPS:
            if g <= self.num_letters and p <= self.num_phones:
                a, b = _chunks(x, g, bases[0]), _chunks(y, p, bases[1])
                self.ids[g, p] = a[:, None] * bases[1] ** 2 + b[None]

    def _steps(self, i: int, j: int) -> Iterator[tuple[tuple[int, int], int, int]]:
        """The steps that lead to the node (i, j), and where they come from."""
        for g, p in self.ids:
            if i >= g and j >= p:
                yield (g, p), i - g, j - p

    def _nodes(self) -> Iterator[tuple[int, int]]:
        return ((i, j) for i in range(self.num_letters + 1) for j in range(self.num_phones + 1))

    def add_counts(self, probabilities: Array, counts: Array) -> None:
        """Add the expected number of each graphone, by the forward-backward algorithm."""
        arcs = {step: probabilities[ids] for step, ids in self.ids.items()}
        shape = (self.num_letters + 1, self.num_phones + 1, len(self.rows))
        forward, backward = np.zeros(shape), np.zeros(shape)
        forward[0, 0], backward[-1, -1] = 1.0, 1.0
        for i, j in self._nodes():
            for step, a, b in self._steps(i, j):
                forward[i, j] += forward[a, b] * arcs[step][a, b]
        for i, j in reversed(list(self._nodes())):
            for step, a, b in self._steps(i, j):
                backward[a, b] += backward[i, j] * arcs[step][a, b]
        total = forward[-1, -1]
        scale = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
        for (g, p), ids in self.ids.items():
            ends = backward[g:, p:]
            expected = forward[: ends.shape[0], : ends.shape[1]] * arcs[g, p] * ends * scale
            counts += np.bincount(ids.ravel(), weights=expected.ravel(), minlength=len(counts))

    def best_cuts(self, probabilities: Array, pairs: Sequence[tuple[str, Pronunciation]]) -> Iterator[Any]:
        arcs = {step: np.log(np.maximum(probabilities[ids], 1e-300)) for step, ids in self.ids.items()}
        best = np.full((self.num_letters + 1, self.num_phones + 1, len(self.rows)), -np.inf)
        choice = np.zeros(best.shape, np.int8)
        best[0, 0] = 0.0
        for i, j in self._nodes():
            for step, a, b in self._steps(i, j):
                score = best[a, b] + arcs[step][a, b]
                better = score > best[i, j]
                best[i, j][better], choice[i, j][better] = score[better], STEPS.index(step)
        for word, row in enumerate(self.rows):
            if best[-1, -1, word] > -np.inf:
                yield tuple(self._trace(choice[..., word], *pairs[row]))

    def _trace(self, choice: Array, word: str, phones: Pronunciation) -> list[Graphone]:
        i, j, cut = len(word), len(phones), []
        while i:
            g, p = STEPS[choice[i, j]]
            cut.append(Graphone(word[i - g : i], phones[j - p : j]))
            i, j = i - g, j - p
        return cut[::-1]


def _chunks(numbers: Array, size: int, base: int) -> Array:
    """Runs of `size` of the rows of `numbers` [n, words] as one number each: [n - size + 1, words]."""
    if size == 0:
        return np.zeros((len(numbers) + 1, numbers.shape[1]), np.int64)
    if size == 1:
        return numbers.astype(np.int64)
    return numbers[:-1].astype(np.int64) * base + numbers[1:]
