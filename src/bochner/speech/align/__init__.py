"""Alignment: which state each frame belongs to, and the GMM recipe that finds out."""

from bochner.speech.align.compare import Agreement, compare_all, compare_segments, fold_utterance
from bochner.speech.align.corpus import Corpus
from bochner.speech.align.forced import Alignments, FunctionScores, MixtureScores, Search, align_utterances
from bochner.speech.align.gmm import STAGES, train_gmm
from bochner.speech.align.labels import (
    phone_segments,
    phone_states,
    read_ctm,
    read_kaldi_alignments,
    read_kaldi_hmm,
    tied_states,
    word_segments,
    write_ctm,
)
from bochner.speech.align.stage import Stage
from bochner.speech.align.training import Growth, LdaMllt, Monophone, Recipe, Sat, Tied, adapt_stage

__all__ = [
    "STAGES",
    "Agreement",
    "Alignments",
    "Corpus",
    "FunctionScores",
    "Growth",
    "LdaMllt",
    "MixtureScores",
    "Monophone",
    "Recipe",
    "Sat",
    "Search",
    "Stage",
    "Tied",
    "adapt_stage",
    "align_utterances",
    "compare_all",
    "compare_segments",
    "fold_utterance",
    "phone_segments",
    "phone_states",
    "read_ctm",
    "read_kaldi_alignments",
    "read_kaldi_hmm",
    "tied_states",
    "train_gmm",
    "word_segments",
    "write_ctm",
]
