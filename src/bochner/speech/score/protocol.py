"""What is counted as an error: one object for the unit, the folding, the silence rule and the spelling."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from bochner import checks
from bochner.speech.score.folding import FOLDINGS, fold

MARKS = ("Mn", "Mc", "Me", "Cf")  # Unicode's categories of signs that belong to the letter before them
UNITS = {"words": "wer", "characters": "cer", "phones": "per"}


def _without_punctuation(text: str) -> str:
    """Punctuation inside a word ("don't", "x-ray") stays; at its ends, or alone, it goes."""
    return " ".join(kept for word in text.split() if (kept := _stripped(word)))


def _stripped(word: str) -> str:
    marks = {letter for letter in word if unicodedata.category(letter).startswith("P")}
    return word.strip("".join(marks))


# How a text can be spelled alike before it is compared; applied in this order.
SPELLINGS: dict[str, Callable[[str], str]] = {
    "nfkc": lambda text: unicodedata.normalize("NFKC", text),
    "lower": str.lower,
    "no_punctuation": _without_punctuation,
}


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How an error rate is counted; its `name` is that of the metric, and carries the rules.

    `unit` is words, characters (spaces apart; a mark stays with its letter) or phones. `fold` maps TIMIT's phones, 61
    to 48 or 39, or 48 to 39. `silence` scored counts silence as any phone, the stricter rule; ignored takes the
    `silence_phones` out of both sides. `normalize` names ways to spell words alike: nfkc, lower, no_punctuation.

    >>> Protocol(unit="phones", fold="61-39", silence="scored").name
    'per39_sil_scored'
    >>> Protocol(unit="phones", fold="61-39", silence="ignored").tokens("h# sh ix hv eh dcl")
    ('sh', 'ih', 'hh', 'eh')
    >>> spoken = Protocol(unit="words", normalize=("lower", "no_punctuation"))
    >>> spoken.name, spoken.tokens("Don't stop, please!")
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
        """The metric's name: wer, cer_nfkc, per39_sil_scored, ..."""
        if self.unit == "phones":
            return f"per{'' if self.fold is None else self.fold.partition('-')[2]}_sil_{self.silence}"
        return "_".join([UNITS[self.unit], *(name for name in SPELLINGS if name in self.normalize)])

    def tokens(self, text: str) -> tuple[str, ...]:
        """The tokens of a text that are compared."""
        for name, spelled in SPELLINGS.items():
            text = spelled(text) if name in self.normalize else text
        if self.unit == "words":
            return tuple(text.split())
        return characters(text) if self.unit == "characters" else self._phones(tuple(text.split()))

    def _phones(self, phones: tuple[str, ...]) -> tuple[str, ...]:
        folded = phones if self.fold is None else fold(phones, self.fold)
        ignored = self.silence_phones if self.silence == "ignored" else ()
        return tuple(phone for phone in folded if phone not in ignored)


def characters(text: str) -> tuple[str, ...]:
    """The letters of a text without its spaces; vowel signs and other marks stay with the letter before them.

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
