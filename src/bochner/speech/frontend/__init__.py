"""The front end: samples to frames, and what is done to frames before a model sees them."""

from bochner.speech.frontend.cepstra import Fbank, Framing, Mfcc, Plp
from bochner.speech.frontend.extract import Extraction, extract
from bochner.speech.frontend.postprocess import (
    Moments,
    add_deltas,
    group_moments,
    normalize,
    splice,
    transform,
    write_normalized,
)
from bochner.speech.frontend.transforms import (
    AffineStatistics,
    ClassMoments,
    Estimate,
    SemiTiedStatistics,
    fmllr,
    lda,
    mllt,
)

__all__ = [
    "AffineStatistics", "ClassMoments", "Estimate", "Extraction", "Fbank", "Framing", "Mfcc", "Moments", "Plp",
    "SemiTiedStatistics", "add_deltas", "extract", "fmllr", "group_moments", "lda", "mllt", "normalize", "splice",
    "transform", "write_normalized",
]  # fmt: skip
