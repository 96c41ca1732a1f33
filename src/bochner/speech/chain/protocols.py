"""Protocols by their names: wer, cer_nfkc, per39_sil_scored."""

from __future__ import annotations

import re

from bochner.speech.chain.corpus import SpeechCorpus
from bochner.speech.score.folding import PHONES_39, PHONES_48, PHONES_61
from bochner.speech.score.protocol import SPELLINGS, Protocol

PHONES = re.compile(r"per(?P<classes>48|39)?_sil_(?P<silence>scored|ignored)")
CHARACTERS = ("cantonese", "yue")  # languages whose tokens are scored by character


def protocol_for(corpus: SpeechCorpus, name: str | None) -> Protocol:
    """The protocol of that name, or the usual one of the corpus: per39_sil_scored on TIMIT, cer on Cantonese, wer."""
    if name is None:
        name = _usual(corpus)
    if match := PHONES.fullmatch(name):
        return Protocol(unit="phones", fold=_folding(corpus, match["classes"]), silence=match["silence"])
    unit, *spellings = re.split("_", name, maxsplit=1)
    units = {"wer": "words", "cer": "characters"}
    if unit not in units:
        raise ValueError(f"protocol must be wer, cer, per, per48 or per39 with its rules, such as per39_sil_scored, "
                         f"wer_lower_no_punctuation or cer_nfkc, got {name!r}.")  # fmt: skip
    return Protocol(unit=units[unit], normalize=_spellings(spellings[0] if spellings else "", name))


def _usual(corpus: SpeechCorpus) -> str:
    if corpus.says_phones:
        return "per39_sil_scored" if _size(corpus) else "per_sil_scored"
    return "cer" if corpus.utterances[0].language in CHARACTERS else "wer"


def _size(corpus: SpeechCorpus) -> str | None:
    """Into how many classes TIMIT's phones are folded in a corpus, or None where they are not TIMIT's."""
    phones = set(corpus.lexicon.words)
    sets = {"39": PHONES_39, "48": PHONES_48, "61": PHONES_61}
    return next((size for size, members in sets.items() if phones <= set(members)), None)


def _folding(corpus: SpeechCorpus, classes: str | None) -> str | None:
    size = _size(corpus)
    if classes is None or classes == size:
        return None
    if size is None or int(size) < int(classes):
        raise ValueError(f"the phones of {corpus.folder} cannot be folded to TIMIT's {classes}; use per_sil_scored.")
    return f"{size}-{classes}"


def _spellings(text: str, name: str) -> tuple[str, ...]:
    found, left = [], text
    for spelling in SPELLINGS:
        if left == spelling or left.startswith(f"{spelling}_"):
            found.append(spelling)
            left = left.removeprefix(spelling).removeprefix("_")
    if left:
        raise ValueError(f"protocol must spell words alike by {', '.join(SPELLINGS)}, in that order, got {name!r}.")
    return tuple(found)
