"""Alignment: which state each frame belongs to, and the GMM recipe that finds out."""

from bochner.speech.align.compare import Agreement, compare_all, compare_segments
from bochner.speech.align.corpus import Corpus
from bochner.speech.align.ctm import read_ctm, write_ctm
from bochner.speech.align.exchange import read_kaldi_alignments, read_kaldi_hmm
from bochner.speech.align.folding import fold_utterance
from bochner.speech.align.forced import Alignments, FunctionScores, MixtureScores, align_utterances
from bochner.speech.align.labels import phone_segments, phone_states, tied_states, word_segments
from bochner.speech.align.recipe import STAGES, train_gmm
from bochner.speech.align.settings import Growth, LdaMllt, Monophone, Recipe, Sat, Tied
from bochner.speech.align.speakers import adapt_stage
from bochner.speech.align.stage import Stage
from bochner.speech.align.viterbi import Search

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
