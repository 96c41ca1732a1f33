"""Scoring protocols: the unit, the folding of phones, the silence rule and the normalisation of texts."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from bochner import checks

# From 48 to 39 classes; a phone that is not listed is unchanged.
_TO_39 = {
    "ao": "aa", "ax": "ah", "cl": "sil", "vcl": "sil", "epi": "sil", "el": "l", "en": "n", "ix": "ih", "zh": "sh",
}  # fmt: skip
# From 61 to 48 classes. The glottal stop q is removed.
_TO_48 = {
    "ax-h": "ax", "axr": "er", "bcl": "vcl", "dcl": "vcl", "gcl": "vcl", "kcl": "cl", "pcl": "cl", "tcl": "cl",
    "em": "m", "eng": "ng", "nx": "n", "h#": "sil", "pau": "sil", "hv": "hh", "ux": "uw",
}  # fmt: skip
_SAME_IN_48 = (
    "aa", "ae", "ah", "ao", "aw", "ax", "ay", "b", "ch", "d", "dh", "dx", "eh", "el", "en", "epi", "er", "ey", "f", "g",
    "hh", "ih", "ix", "iy", "jh", "k", "l", "m", "n", "ng", "ow", "oy", "p", "r", "s", "sh", "t", "th", "uh", "uw", "v",
    "w", "y", "z", "zh",
)  # fmt: skip

PHONES_61 = tuple(sorted([*_SAME_IN_48, *_TO_48, "q"]))
PHONES_48 = tuple(sorted([*_SAME_IN_48, "cl", "vcl", "sil"]))
PHONES_49 = tuple(sorted([*PHONES_48, "q"]))
PHONES_39 = tuple(sorted({_TO_39.get(phone, phone) for phone in PHONES_48}))
MARKS = ("Mn", "Mc", "Me", "Cf")  # Unicode categories of marks that modify the letter before them
UNITS = {"words": "wer", "characters": "cer", "phones": "per"}


def _composed() -> dict[str, dict[str, str | None]]:
    first: dict[str, str | None] = {phone: _TO_48.get(phone, phone) for phone in PHONES_61}
    first["q"] = None
    second: dict[str, str | None] = {phone: _TO_39.get(phone, phone) for phone in PHONES_48}
    both = {phone: None if label is None else second[label] for phone, label in first.items()}
    with_q = {"61-49": {**first, "q": "q"}, "49-39": {**second, "q": None}}  # as in the papers: 3 x 49 states
    return {"61-48": first, "48-39": second, "61-39": both, **with_q}


# Each folding as {phone: its class, or None if it is removed}.
FOLDINGS: Mapping[str, Mapping[str, str | None]] = MappingProxyType(_composed())


def fold(phones: tuple[str, ...], folding: str) -> tuple[str, ...]:
    """The class of each phone; phones without a class are removed, and equal neighbours are not merged.

    >>> fold(("h#", "sh", "ix", "hv", "eh", "dcl", "q"), "61-39")
    ('sil', 'sh', 'ih', 'hh', 'eh', 'sil')
    """
    table = FOLDINGS[folding]
    unknown = sorted({phone for phone in phones if phone not in table})
    if unknown:
        source = folding.partition("-")[0]
        raise ValueError(f"phones must be among TIMIT's {source} for the folding {folding}, got {unknown} besides.")
    return tuple(label for phone in phones if (label := table[phone]) is not None)


def _without_punctuation(text: str) -> str:
    """Without punctuation at the ends of words; that inside a word ("don't", "x-ray") is kept."""
    punctuation = "".join({letter for letter in text if unicodedata.category(letter).startswith("P")})
    return " ".join(word for word in (word.strip(punctuation) for word in text.split()) if word)


# Normalisations of a text before the comparison, applied in this order.
SPELLINGS: dict[str, Callable[[str], str]] = {
    "nfkc": lambda text: unicodedata.normalize("NFKC", text),
    "lower": str.lower,
    "no_punctuation": _without_punctuation,
}


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """The rules of an error rate, which are part of its `name`.

    `unit` is words, characters (without spaces; a mark belongs to its letter) or phones. `fold` maps TIMIT's phones, 61
    to 49, 48 or 39, or 49 or 48 to 39. `silence` "scored" counts silence as any phone, the stricter rule; "ignored"
    removes the `silence_phones` from both sides. `normalize` lists normalisations of texts: nfkc, lower,
    no_punctuation.

    >>> Protocol(unit="phones", fold="61-39", silence="scored").name
    'per39_sil_scored'
    >>> Protocol(unit="phones", fold="61-39", silence="ignored").tokens("h# sh ix hv eh dcl")
    ('sh', 'ih', 'hh', 'eh')
    >>> protocol = Protocol(unit="words", normalize=("lower", "no_punctuation"))
    >>> protocol.name, protocol.tokens("Don't stop, please!")
    ('wer_lower_no_punctuation', ("don't", 'stop', 'please'))
    """

    unit: str = "words"
    fold: str | None = None
    silence: str = "scored"
    silence_phones: tuple[str, ...] = ("sil", "SIL")
    normalize: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        checks.one_of("unit", self.unit, UNITS)
        checks.one_of("fold", self.fold, [None, *FOLDINGS])
        checks.one_of("silence", self.silence, ["scored", "ignored"])
        object.__setattr__(self, "silence_phones", tuple(self.silence_phones))
        object.__setattr__(self, "normalize", tuple(self.normalize))
        for spelling in self.normalize:
            checks.one_of("normalize", spelling, SPELLINGS)
        if self.unit != "phones" and (self.fold is not None or self.silence != "scored"):
            raise ValueError(
                f"fold and silence are for unit='phones', got fold {self.fold!r} and silence {self.silence!r} for "
                f"{self.unit}."
            )
        if self.unit == "phones" and self.normalize:
            raise ValueError(f"normalize is for words and characters, got {self.normalize} for phones.")

    @property
    def name(self) -> str:
        """wer, cer_nfkc, per39_sil_scored, ..."""
        if self.unit == "phones":
            return f"per{'' if self.fold is None else self.fold.partition('-')[2]}_sil_{self.silence}"
        return "_".join([UNITS[self.unit], *(name for name in SPELLINGS if name in self.normalize)])

    def tokens(self, text: str) -> tuple[str, ...]:
        """The tokens of a text that are compared."""
        for name, normalization in SPELLINGS.items():
            text = normalization(text) if name in self.normalize else text
        if self.unit == "words":
            return tuple(text.split())
        return characters(text) if self.unit == "characters" else self._phones(tuple(text.split()))

    def _phones(self, phones: tuple[str, ...]) -> tuple[str, ...]:
        folded = phones if self.fold is None else fold(phones, self.fold)
        ignored = self.silence_phones if self.silence == "ignored" else ()
        return tuple(phone for phone in folded if phone not in ignored)


def characters(text: str) -> tuple[str, ...]:
    """The letters of a text without its spaces, each with the vowel signs and other marks that follow it.

    >>> characters("你 好")
    ('你', '好')
    >>> len(characters("কি"))
    1
    """
    letters: list[str] = []
    for letter in "".join(text.split()):
        if letters and unicodedata.category(letter) in MARKS:
            letters[-1] += letter
        else:
            letters.append(letter)
    return tuple(letters)
