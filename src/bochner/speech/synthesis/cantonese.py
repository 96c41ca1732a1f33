"""Cantonese: conversations of the Hong Kong Cantonese Corpus, character by character."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from bochner.speech.extra import imported
from bochner.speech.manifest import PARTS, Segment
from bochner.speech.synthesis.texts import Prompt, part_of_sentence

SYLLABLE = re.compile(r"[a-z]+[1-6]")
LENGTHS = (4, 25)  # characters


class Cantonese:
    """What people said in the conversations of HKCanCor (Luke & Wong 2015; 16,162 turns), in Jyutping to the engine.

    Tokens are characters, phones the engine's initials, vowels and codas without tone. Turns of 4 to 25 characters in
    which every character has a syllable are said; the others (short answers, English words) are not part of the text.
    The same turn comes again once a corpus is longer than the conversations.

    >>> prompt = Cantonese().prompt("train", np.random.default_rng(0))
    >>> len(prompt.tokens) == len(prompt.spoken.split())
    True
    """

    name, voice = "cantonese", "yue-latn-jyutping"

    def __init__(self) -> None:
        turns = [_read(turn) for turn in imported("pycantonese", extra="synthesis").hkcancor().utterances()]
        self._turns: dict[str, list[Prompt]] = {part: [] for part in PARTS}
        for prompt in turns:
            if prompt is not None and LENGTHS[0] <= len(prompt.tokens) <= LENGTHS[1]:
                self._turns[part_of_sentence(prompt.tokens)].append(prompt)

    def prompt(self, part: str, generator: np.random.Generator) -> Prompt:
        return self._turns[part][generator.integers(len(self._turns[part]))]

    def phones(self, prompt: Prompt, words: Sequence[tuple[Segment, ...]]) -> list[tuple[Segment, ...]]:
        return list(words)


def _read(turn: Any) -> Prompt | None:
    """The turn's characters and syllables, or None where they do not match one to one."""
    spoken = [token for token in turn.tokens if token.jyutping]
    tokens = "".join(token.word for token in spoken)
    syllables = [syllable for token in spoken for syllable in SYLLABLE.findall(token.jyutping)]
    if len(tokens) != len(syllables) or tokens.upper() != tokens.lower():  # letters are no characters
        return None
    return Prompt(tuple(tokens), " ".join(syllables))
