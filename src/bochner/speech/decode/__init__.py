"""Decoding: from log likelihoods of pdfs to words."""

from bochner.speech.decode.batch import Decoded, decode_utterances, log_priors, read_hypotheses, scaled_likelihoods
from bochner.speech.decode.beam import Hypothesis, NoPathError, Search, WordLattice, decode, decode_lattice
from bochner.speech.decode.tune import Tuning, tune

__all__ = [
    "Decoded",
    "Hypothesis",
    "NoPathError",
    "Search",
    "Tuning",
    "WordLattice",
    "decode",
    "decode_lattice",
    "decode_utterances",
    "log_priors",
    "read_hypotheses",
    "scaled_likelihoods",
    "tune",
]
