"""What synthetic speakers say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bochner.checks import positive_int
from bochner.speech.manifest import PARTS, Segment

SUCCESSORS = 20  # words that often follow a given one
HABIT = 0.8  # how often one of them does
LANGUAGE_SEED = 20180101  # which words follow which is a fact of the made-up language, not of a corpus
SENTENCE_SHARES = {"train": 0.8, "heldout": 0.05, "dev": 0.05, "test": 0.1}


class Prompt(NamedTuple):
    """One sentence: its tokens, and what the engine reads to say them, a word each."""

    tokens: tuple[str, ...]
    spoken: str


class Language(Protocol):
    """A source of sentences in one language, and the names of its phones."""

    name: str
    voice: str

    def prompt(self, part: str, generator: np.random.Generator) -> Prompt:
        """Draw a sentence; one that a speaker of another part may say is never drawn."""

    def phones(self, prompt: Prompt, words: Sequence[tuple[Segment, ...]]) -> list[tuple[Segment, ...]]:
        """The corpus's own phones of each token, from the engine's of each word."""


class WordChain:
    """Sentences that a language model can learn: a Markov chain over words with natural frequencies.

    P(next | word) = h q_word(next) + (1 - h) p(next): with habit h one of the word's own 20 successors (drawn once,
    by frequency), else any word by its frequency p. A unigram model thus sees the words' true frequencies to within
    the successors' draw, and a bigram model can learn most of what there is to know.

    >>> chain = WordChain({"a": 0.5, "b": 0.3, "c": 0.2})
    >>> len(chain.sentence(5, np.random.default_rng(0)))
    5
    """

    def __init__(self, frequencies: Mapping[str, float]) -> None:
        self.words = tuple(frequencies)
        weights = np.array(list(frequencies.values()), dtype=np.float64)
        self._bounds = np.cumsum(weights / weights.sum())
        shape = len(self.words), min(SUCCESSORS, len(self.words))
        self._successors = self._draw(np.random.default_rng(LANGUAGE_SEED), shape)

    def sentence(self, length: int, generator: np.random.Generator) -> tuple[str, ...]:
        """Draw `length` words."""
        places = self._draw(generator, (positive_int("length", length),))  # as if by frequency alone
        habits = generator.random(length) < HABIT
        choices = generator.integers(self._successors.shape[1], size=length)
        for k in range(1, length):
            if habits[k]:
                places[k] = self._successors[places[k - 1], choices[k]]
        return tuple(self.words[place] for place in places)

    def _draw(self, generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int64]:
        places = np.searchsorted(self._bounds, generator.random(shape), side="right")
        return np.minimum(places, len(self.words) - 1)


def part_of_sentence(tokens: Sequence[str]) -> str:
    """The part whose speakers may say a sentence: by its letters alone, in the shares 80, 5, 5 and 10 percent.

    >>> part_of_sentence(("good", "morning")) == part_of_sentence(("good", "morning"))
    True
    """
    from zlib import crc32

    bounds = np.cumsum([SENTENCE_SHARES[part] for part in PARTS])
    place = crc32(" ".join(tokens).encode()) / 2**32
    return PARTS[min(int(np.searchsorted(bounds, place, side="right")), len(PARTS) - 1)]
