"""The front end: samples to frames, and what is done to frames before a model sees them."""

from bochner.speech.frontend.cmvn import Moments, group_moments, normalize, write_normalized
from bochner.speech.frontend.deltas import add_deltas
from bochner.speech.frontend.extract import Extraction, extract
from bochner.speech.frontend.fbank import Fbank
from bochner.speech.frontend.fmllr import AffineStatistics, fmllr
from bochner.speech.frontend.framing import Framing
from bochner.speech.frontend.gaussians import Estimate
from bochner.speech.frontend.lda import ClassMoments, lda
from bochner.speech.frontend.mfcc import Mfcc
from bochner.speech.frontend.mllt import SemiTiedStatistics, mllt
from bochner.speech.frontend.plp import Plp
from bochner.speech.frontend.splice import splice, transform

__all__ = [
    "AffineStatistics",
    "ClassMoments",
    "Estimate",
    "Extraction",
    "Fbank",
    "Framing",
    "Mfcc",
    "Moments",
    "Plp",
    "SemiTiedStatistics",
    "add_deltas",
    "extract",
    "fmllr",
    "group_moments",
    "lda",
    "mllt",
    "normalize",
    "splice",
    "transform",
    "write_normalized",
]
