"""A small recogniser and artificial sentences."""

from __future__ import annotations

import pytest

from bochner.speech.graph import compose_graph
from bochner.speech.hmm.model import monophone_hmm
from bochner.speech.lexicon import Lexicon
from bochner.speech.lm import uniform
from tests.speech.decode.made import Recogniser

SOUNDS = {"no": "n o", "on": "o n", "noon": "n u n", "moon": "m u n", "nun": "n a n"}


@pytest.fixture(scope="session")
def recogniser() -> Recogniser:
    lexicon = Lexicon({word: [sounds.split()] for word, sounds in SOUNDS.items()})
    hmm = monophone_hmm(phones=lexicon.phones, silence=["SIL"])
    return Recogniser(hmm, lexicon, compose_graph(hmm=hmm, lexicon=lexicon, grammar=uniform(lexicon.words)))
