"""`bochner speech`: from recordings to alignments and error rates."""

from __future__ import annotations

from typing import Any

from bochner.cli.speech.commands import align, decode, prepare, score, synthesize
from bochner.cli.speech.g2p import G2P
from bochner.cli.speech.models import MODELS

SPEECH: dict[str, Any] = {
    "_help": "From recordings and transcripts to alignments and error rates: prepare, align, decode, score.",
    "prepare": prepare,
    "synthesize": synthesize,
    "align": align,
    "decode": decode,
    "score": score,
    "g2p": G2P,
    "models": MODELS,
}
