"""Scoring: error rates by one protocol, counted as NIST's sclite counts them."""

from bochner.speech.score.error_rates import Comparison, Counts, Interval, Score, Scored, align, compare, count, score
from bochner.speech.score.protocol import (
    FOLDINGS,
    PHONES_39,
    PHONES_48,
    PHONES_49,
    PHONES_61,
    Protocol,
    characters,
    fold,
)
from bochner.speech.score.report import confusion_table, error_listing, read_trn, speaker_table, write_trn

__all__ = [
    "FOLDINGS", "PHONES_39", "PHONES_48", "PHONES_49", "PHONES_61", "Comparison", "Counts", "Interval", "Protocol",
    "Score", "Scored", "align", "characters", "compare", "confusion_table", "count", "error_listing", "fold",
    "read_trn", "score", "speaker_table", "write_trn",
]  # fmt: skip
