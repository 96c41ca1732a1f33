"""Utterances whose phones are taken for others: TIMIT's 61 for the 48 (or 49) that are modelled."""

from __future__ import annotations

from collections.abc import Mapping

from bochner.speech.corpora.prepared import Prepared, finish
from bochner.speech.lexicon import phone_lexicon
from bochner.speech.manifest import Segment, Utterance


def fold_corpus(made: Prepared, folding: Mapping[str, str | None]) -> Prepared:
    """The same corpus directory with all phones folded, those of the lexicon too."""
    folded = [fold_utterance(said, folding) for said in made.utterances]
    phones = {phone for phone in folding.values() if phone is not None}
    return finish(made.directory, [*folded, *made.skipped], lexicon=phone_lexicon(phones))


def fold_utterance(said: Utterance, folding: Mapping[str, str | None]) -> Utterance:
    """The same utterance with the labels of its phones, and the tokens of its text, folded.

    A phone that is folded to None is left out, its time given to the phone before it (the first's to the one after).
    Labels that `folding` does not name stay.

    >>> said = Utterance(id="u", speaker="s", part="train", text="q iy hv", audio="u.wav", rate=16000, duration=0.3,
    ...                  phones=(Segment("q", 0.0, 0.1), Segment("iy", 0.1, 0.2), Segment("hv", 0.2, 0.3)))
    >>> folded = fold_utterance(said, {"q": None, "hv": "hh"})
    >>> folded.text, folded.phones
    ('iy hh', (Segment(label='iy', start=0.0, end=0.2), Segment(label='hh', start=0.2, end=0.3)))
    """
    tokens = [folding.get(token, token) for token in said.tokens]
    phones: list[Segment] = []
    start = said.phones[0].start if said.phones else 0.0
    for segment in said.phones:
        label = folding.get(segment.label, segment.label)
        if label is not None:
            phones.append(Segment(label, segment.start if phones else start, segment.end))
        elif phones:
            phones[-1] = phones[-1]._replace(end=segment.end)
    return said.replace(text=" ".join(token for token in tokens if token is not None), phones=tuple(phones))
