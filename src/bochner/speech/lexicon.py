"""Words and their pronunciations, in the layout of Kaldi's lexicon.txt."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bochner.speech.text_files import FilePath
from bochner.storage import write_atomically

SILENCE = "SIL"
EPSILON = "<eps>"
Pronunciation = tuple[str, ...]


@dataclass(frozen=True)
class Lexicon:
    """Words with their pronunciations, tuples of phones; `silence` is the optional phone between words, or None.

    `probabilities` are those of pronunciations (word, phones) given their word; without them all are equally good.

    >>> lexicon = Lexicon({"read": [("r", "eh", "d"), ("r", "iy", "d")], "red": [("r", "eh", "d")]})
    >>> lexicon.phones
    ('SIL', 'd', 'eh', 'iy', 'r')
    >>> lexicon["red"]
    (('r', 'eh', 'd'),)
    >>> lexicon.require(["red", "robe", "blue"])
    Traceback (most recent call last):
    ...
    ValueError: 2 words are not in the lexicon: blue, robe. Add them, or map them to words of the lexicon.
    """

    entries: Mapping[str, tuple[Pronunciation, ...]]
    silence: str | None = SILENCE
    probabilities: Mapping[tuple[str, Pronunciation], float] = field(default_factory=dict)

    def __init__(
        self,
        entries: Mapping[str, Iterable[Iterable[str]]],
        silence: str | None = SILENCE,
        probabilities: Mapping[tuple[str, Pronunciation], float] | None = None,
    ) -> None:
        if silence is not None:
            _check_symbol(silence)
        checked = {word: _checked(word, pronunciations) for word, pronunciations in sorted(entries.items())}
        if not checked:
            raise ValueError("entries must hold at least one word, got none.")
        object.__setattr__(self, "entries", checked)
        object.__setattr__(self, "silence", silence)
        known = {(word, phones) for word, pronunciations in checked.items() for phones in pronunciations}
        for (word, phones), probability in (probabilities or {}).items():
            if (word, phones) not in known or not 0.0 < probability <= 1.0:
                raise ValueError(
                    f"probabilities must be of pronunciations in the lexicon, above 0 and at most 1, got {probability} "
                    f"for {word!r} as {' '.join(phones)}."
                )
        object.__setattr__(self, "probabilities", dict(probabilities or {}))

    def __getitem__(self, word: str) -> tuple[Pronunciation, ...]:
        return self.entries[word]

    def __contains__(self, word: object) -> bool:
        return word in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self.entries)

    @property
    def phones(self) -> tuple[str, ...]:
        """The silence phone first, if there is one, then all others sorted: the order of phone ids 1, 2, ..."""
        others = {phone for _, phones in self.pairs() for phone in phones} - {self.silence}
        return (() if self.silence is None else (self.silence,)) + tuple(sorted(filter(None, others)))

    def pairs(self) -> Iterator[tuple[str, Pronunciation]]:
        """Each (word, pronunciation) by itself."""
        for word, pronunciations in self.entries.items():
            for phones in pronunciations:
                yield word, phones

    def cost(self, word: str, phones: Pronunciation) -> float:
        """-ln of the probability of a pronunciation relative to the most probable one of the word, as in Kaldi.

        Words with several pronunciations are then as probable as others in a search for the best path.

        >>> way = {("a", ("ah",)): 0.8, ("a", ("ey",)): 0.2}
        >>> round(Lexicon({"a": [("ah",), ("ey",)]}, probabilities=way).cost("a", ("ey",)), 4)  # ln 4
        1.3863
        """
        if not self.probabilities:
            return 0.0
        best = max(self.probabilities.get((word, other), 1.0) for other in self.entries[word])
        return math.log(best / self.probabilities.get((word, phones), 1.0))

    def with_counts(self, counts: Mapping[tuple[str, Pronunciation], int]) -> Lexicon:
        """The lexicon with probabilities (n + 1) / (N + k) for pronunciations that occur n times.

        N is the number of occurrences of the word and k that of its pronunciations.

        >>> lexicon = Lexicon({"a": [("ah",), ("ey",)]}).with_counts({("a", ("ah",)): 2})
        >>> lexicon.probabilities
        {('a', ('ah',)): 0.75, ('a', ('ey',)): 0.25}
        """
        probabilities = {}
        for word, pronunciations in self.entries.items():
            total = sum(counts.get((word, phones), 0) + 1 for phones in pronunciations)
            for phones in pronunciations:
                probabilities[word, phones] = (counts.get((word, phones), 0) + 1) / total
        return Lexicon(self.entries, self.silence, probabilities)

    def require(self, words: Iterable[str]) -> None:
        """Raise one error that names every word without a pronunciation."""
        missing = sorted(set(words) - set(self.entries))
        if missing:
            raise ValueError(
                f"{len(missing)} words are not in the lexicon: {', '.join(missing)}. "
                "Add them, or map them to words of the lexicon."
            )


def phone_lexicon(phones: Iterable[str]) -> Lexicon:
    """A lexicon in which each phone is a word, silence included; no silence is inserted between words.

    With a bigram of the phones (`lm.estimate(transcripts, order=2)`) or `lm.uniform(phones)` as grammar,
    `compose_graph` gives the graph for phone error rates.

    >>> phone_lexicon(["SIL", "aa", "t"])["aa"]
    (('aa',),)
    """
    return Lexicon({phone: [(phone,)] for phone in phones}, silence=None)


def disambiguated(lexicon: Lexicon) -> tuple[list[tuple[str, Pronunciation]], int]:
    """Each (word, phones) with #1, #2, ... after phones that another word has or that begin another; and how many.

    As in Kaldi's add_lex_disambig.pl: homophones are numbered from #1 in the order of the words, and a pronunciation
    that only begins a longer one gets #1. #0 is left for the grammar's back-off arcs.

    >>> red = ("r", "eh", "d")
    >>> disambiguated(Lexicon({"read": [red], "red": [red], "redder": [(*red, "er")]}))
    ([('read', ('r', 'eh', 'd', '#1')), ('red', ('r', 'eh', 'd', '#2')), ('redder', ('r', 'eh', 'd', 'er'))], 2)
    """
    count = Counter(phones for _, phones in lexicon.pairs())
    prefixes = {phones[:end] for phones in count for end in range(1, len(phones))}
    seen: Counter[Pronunciation] = Counter()
    pairs = []
    for word, phones in lexicon.pairs():
        ambiguous = count[phones] > 1 or phones in prefixes
        seen[phones] += 1
        pairs.append((word, (*phones, f"#{seen[phones]}") if ambiguous else phones))
    return pairs, max((seen[phones] for phones in seen if count[phones] > 1 or phones in prefixes), default=0)


def read_lexicon(path: FilePath, *, silence: str | None = SILENCE) -> Lexicon:
    """Read lines `word phone phone ...` in UTF-8; a word may have several lines; empty lines are skipped.

    A line with a word and no phone, or with a reserved symbol (<eps>, #0), is an error that names file and line.
    """
    entries: dict[str, dict[Pronunciation, None]] = {}
    for number, line in enumerate(Path(path).read_bytes().split(b"\n"), start=1):
        try:
            word, *phones = line.decode("utf-8").split() or [""]
            if word:
                (pronunciation,) = _checked(word, [phones])
                entries.setdefault(word, {})[pronunciation] = None
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from error
    if not entries:
        raise ValueError(f"{path} holds no word; write lines `word phone phone ...`.")
    return Lexicon(entries, silence)


def write_lexicon(path: FilePath, lexicon: Lexicon) -> None:
    """Write lexicon.txt atomically.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     write_lexicon(directory + "/lexicon.txt", Lexicon({"yes": [("Y", "EH", "S")]}))
    ...     read_lexicon(directory + "/lexicon.txt")["yes"]
    (('Y', 'EH', 'S'),)
    """
    lines = (f"{word} {' '.join(phones)}\n" for word, phones in lexicon.pairs())
    write_atomically(Path(path), "".join(lines).encode("utf-8"))


def write_probabilities(path: FilePath, lexicon: Lexicon) -> None:
    """Write lines `word probability phone phone ...` atomically, the format of Kaldi's lexiconp.txt.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     write_probabilities(directory + "/lexiconp.txt", Lexicon({"a": [("ah",)]}).with_counts({}))
    ...     read_probabilities(directory + "/lexiconp.txt")
    {('a', ('ah',)): 1.0}
    """
    lines = (f"{word} {p!r} {' '.join(phones)}\n" for (word, phones), p in lexicon.probabilities.items())
    write_atomically(Path(path), "".join(lines).encode("utf-8"))


def read_probabilities(path: FilePath) -> dict[tuple[str, Pronunciation], float]:
    """The probabilities of pronunciations that `write_probabilities` wrote."""
    probabilities = {}
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
        try:
            word, probability, *phones = line.split()
            probabilities[word, tuple(phones)] = float(probability)
        except ValueError as error:
            raise ValueError(
                f"{path}, line {number}: must be `word probability phone phone ...`, got {line!r}."
            ) from error
    return probabilities


def _checked(word: str, pronunciations: Iterable[Iterable[str]]) -> tuple[Pronunciation, ...]:
    _check_symbol(word)
    unique = tuple(dict.fromkeys(tuple(phones) for phones in pronunciations))
    if not unique or not all(unique):
        raise ValueError(f"the word {word!r} must have at least one pronunciation of at least one phone.")
    for phone in {phone for phones in unique for phone in phones}:
        _check_symbol(phone)
    return unique


def _check_symbol(symbol: str) -> None:
    if not symbol or symbol.split() != [symbol]:
        raise ValueError(f"words and phones must be free of spaces and not empty, got {symbol!r}.")
    if symbol in (EPSILON, "<s>", "</s>") or (symbol[0] == "#" and symbol[1:].isdigit()):
        raise ValueError(f"{symbol!r} is reserved for graphs; choose another name.")
