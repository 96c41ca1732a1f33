"""`bochner speech`: from recordings to alignments and error rates. What needs the extra is imported when it runs."""

from __future__ import annotations

from typing import Any

from bochner.cli.speech.align import align
from bochner.cli.speech.decode import decode
from bochner.cli.speech.prepare import prepare
from bochner.cli.speech.score import score
from bochner.cli.speech.synthesize import synthesize

SPEECH: dict[str, Any] = {
    "_help": "From recordings and transcripts to alignments and error rates: prepare, align, decode, score.",
    "prepare": prepare,
    "synthesize": synthesize,
    "align": align,
    "decode": decode,
    "score": score,
}
