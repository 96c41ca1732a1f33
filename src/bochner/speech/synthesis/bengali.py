"""Bengali: frequent words, said as the engine reads them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bochner.checks import positive_int
from bochner.speech.extra import imported
from bochner.speech.manifest import Segment
from bochner.speech.synthesis.texts import Prompt, WordChain, part_of_sentence

LETTERS = range(0x0980, 0x0A00)  # Unicode's block
DIGITS = range(0x09E6, 0x09F0)
LENGTHS = (3, 10)


class Bengali:
    """Sentences of the chain over the `num_words` most frequent words in Bengali letters; phones are the engine's.

    >>> len(Bengali(num_words=100).prompt("train", np.random.default_rng(0)).tokens) >= 3
    True
    """

    name, voice = "bengali", "bn"

    def __init__(self, *, num_words: int = 2000) -> None:
        frequencies = imported("wordfreq", extra="synthesis").get_frequency_dict("bn")
        chosen = [word for word in frequencies if _is_word(word)][: positive_int("num_words", num_words)]
        self._chain = WordChain({word: frequencies[word] for word in chosen})

    def prompt(self, part: str, generator: np.random.Generator) -> Prompt:
        while True:
            tokens = self._chain.sentence(int(generator.integers(*LENGTHS)), generator)
            if part_of_sentence(tokens) == part:
                return Prompt(tokens, " ".join(tokens))

    def phones(self, prompt: Prompt, words: Sequence[tuple[Segment, ...]]) -> list[tuple[Segment, ...]]:
        return list(words)


def _is_word(word: str) -> bool:
    """Two Bengali letters or more, no digits: single ones are read by their names.

    >>> _is_word("গান"), _is_word("00"), _is_word("ক")
    (True, False, False)
    """
    codes = [ord(letter) for letter in word]
    return len(word) > 1 and all(code in LETTERS and code not in DIGITS for code in codes)
