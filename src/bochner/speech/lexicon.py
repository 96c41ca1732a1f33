"""Words and their pronunciations, in the layout of Kaldi's lexicon.txt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bochner.speech.text_files import FilePath
from bochner.storage import write_atomically

SILENCE = "SIL"
EPSILON = "<eps>"
Pronunciation = tuple[str, ...]


@dataclass(frozen=True)
class Lexicon:
    """Words with their pronunciations, tuples of phones; `silence` is the optional phone between words, or None.

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

    def __init__(self, entries: Mapping[str, Iterable[Iterable[str]]], silence: str | None = SILENCE) -> None:
        if silence is not None:
            _check_symbol(silence)
        checked = {word: _checked(word, pronunciations) for word, pronunciations in sorted(entries.items())}
        if not checked:
            raise ValueError("entries must hold at least one word, got none.")
        object.__setattr__(self, "entries", checked)
        object.__setattr__(self, "silence", silence)

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
