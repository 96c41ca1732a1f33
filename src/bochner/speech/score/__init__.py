"""Scoring: error rates by one protocol, counted as NIST's sclite counts them."""

from bochner.speech.score.counts import Counts, align, count
from bochner.speech.score.protocol import FOLDINGS, PHONES_39, PHONES_48, PHONES_61, Protocol, characters, fold
from bochner.speech.score.report import confusion_table, error_listing, speaker_table
from bochner.speech.score.result import Comparison, Interval, Score, Scored, compare, score
from bochner.speech.score.trn import read_trn, write_trn

__all__ = [
    "FOLDINGS",
    "PHONES_39",
    "PHONES_48",
    "PHONES_61",
    "Comparison",
    "Counts",
    "Interval",
    "Protocol",
    "Score",
    "Scored",
    "align",
    "characters",
    "compare",
    "confusion_table",
    "count",
    "error_listing",
    "fold",
    "read_trn",
    "score",
    "speaker_table",
    "write_trn",
]
