"""L: phones in, words out, with silence between words where one likes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bochner.speech.kaldi import kaldifst
from bochner.speech.lexicon import Lexicon, disambiguated

EPSILON_ID = 0
START, LOOP, SILENCE_STATE = 0, 1, 2


@dataclass(frozen=True)
class PhoneLabels:
    """Input labels of L: phones from 1 in the model's order, then #0 (back-off), #1, #2, ... of the lexicon."""

    phones: tuple[str, ...]
    num_marks: int

    @property
    def marks(self) -> list[int]:
        return list(range(len(self.phones) + 1, len(self.phones) + 1 + self.num_marks))

    def ids(self) -> dict[str, int]:
        marks = (f"#{k}" for k in range(self.num_marks))
        return {name: number for number, name in enumerate((*self.phones, *marks), start=1)}


def phone_labels(lexicon: Lexicon, phones: Sequence[str] | None = None) -> PhoneLabels:
    """#0, those of homophones and prefixes, and one more that marks silence."""
    phones = lexicon.phones if phones is None else tuple(phones)
    if strange := sorted(set(lexicon.phones) - set(phones)):
        raise ValueError(f"the lexicon's phones must be known to the model, but {', '.join(strange)} are not.")
    return PhoneLabels(phones, disambiguated(lexicon)[1] + 2)


def lexicon_fst(
    lexicon: Lexicon,
    *,
    phones: Sequence[str] | None = None,
    disambiguate: bool = True,
    silence_probability: float = 0.5,
) -> Any:
    """L as kaldifst.StdVectorFst: any words in a row, silence before the first and after each with some probability.

    Input labels are the phones' places in `phones` (the lexicon's own where None) from 1, output labels the words'
    places in `lexicon.words` from 1. With `disambiguate`, L can be determinised after composition with a grammar: it
    has #1, #2, ... after ambiguous pronunciations, another mark after silence, and a loop of #0 that lets the grammar's
    back-off through (as word number len(words) + 1). Source: Kaldi's make_lexicon_fst.py.

    >>> from bochner.speech.lexicon import Lexicon
    >>> lexicon_fst(Lexicon({"no": [("n", "ow")], "yes": [("y", "eh", "s")]}), disambiguate=False).num_states
    6
    """
    if not 0.0 < silence_probability < 1.0:
        raise ValueError(f"silence_probability must lie between 0 and 1, got {silence_probability}.")
    labels = phone_labels(lexicon, phones).ids()
    words = {word: number for number, word in enumerate(lexicon.words, start=1)}
    fst = kaldifst.StdVectorFst()
    for _ in (START, LOOP, SILENCE_STATE):
        fst.add_state()
    fst.start = START
    fst.set_final(LOOP, 0.0)
    ways = _after_word(lexicon.silence is not None, silence_probability)
    for there, cost in ways.items():
        fst.add_arc(START, kaldifst.StdArc(EPSILON_ID, EPSILON_ID, cost, there))
    pairs, num_marks = disambiguated(lexicon) if disambiguate else (list(lexicon.pairs()), 0)
    if lexicon.silence is not None:
        mark = (f"#{num_marks + 1}",) if disambiguate else ()
        _path(fst, SILENCE_STATE, [labels[phone] for phone in (lexicon.silence, *mark)], EPSILON_ID, {LOOP: 0.0})
    for word, sounds in pairs:
        _path(fst, LOOP, [labels[phone] for phone in sounds], words[word], ways)
    if disambiguate:
        fst.add_arc(LOOP, kaldifst.StdArc(labels["#0"], len(words) + 1, 0.0, LOOP))
    return fst


def _after_word(silence: bool, probability: float) -> dict[int, float]:
    """Where a word may end, and at what cost."""
    if not silence:
        return {LOOP: 0.0}
    return {LOOP: -math.log(1.0 - probability), SILENCE_STATE: -math.log(probability)}


def _path(fst: Any, here: int, labels: Sequence[int], word: int, ends: dict[int, float]) -> None:
    """One pronunciation: the word on its first arc, its last arc to each of the ends."""
    for label in labels[:-1]:
        there = fst.add_state()
        fst.add_arc(here, kaldifst.StdArc(label, word, 0.0, there))
        here, word = there, EPSILON_ID
    for there, cost in ends.items():
        fst.add_arc(here, kaldifst.StdArc(labels[-1], word, cost, there))
