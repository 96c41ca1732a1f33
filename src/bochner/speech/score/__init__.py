"""Scoring: error rates by one protocol, counted as NIST's sclite counts them."""

from bochner.speech.score.alignment import align
from bochner.speech.score.bootstrap import Interval
from bochner.speech.score.comparison import Comparison, compare
from bochner.speech.score.counts import Counts, count
from bochner.speech.score.folding import FOLDINGS, PHONES_39, PHONES_48, PHONES_61, fold
from bochner.speech.score.protocol import Protocol, characters
from bochner.speech.score.report import confusion_table, error_listing, speaker_table
from bochner.speech.score.result import Score, Scored, score
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
