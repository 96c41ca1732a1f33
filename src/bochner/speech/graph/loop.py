"""Phones as words: what phone error rates are decoded with."""

from __future__ import annotations

from collections.abc import Sequence

from bochner.speech.lexicon import Lexicon


def phone_lexicon(phones: Sequence[str]) -> Lexicon:
    """Each phone a word that sounds like itself, silence one of them: no silence is put between.

    With a bigram of the phones (`lm.estimate(transcripts, order=2)`) or `lm.uniform(phones)` as grammar,
    `compose_graph` gives the graph for phone error rates.

    >>> phone_lexicon(["SIL", "aa", "t"])["aa"]
    (('aa',),)
    """
    return Lexicon({phone: [(phone,)] for phone in phones}, silence=None)
