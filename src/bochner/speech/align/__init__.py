"""GMM-HMM training and forced alignment: the state of every frame."""

from bochner.speech.align.agreement import Agreement, compare_all, compare_segments
from bochner.speech.align.em import adapt_to_speakers
from bochner.speech.align.forced import Alignments, FunctionScores, MixtureScores, Search, align_utterances
from bochner.speech.align.gmm import STAGES, train_gmm
from bochner.speech.align.gmm_hmm import GmmHmm
from bochner.speech.align.gmm_recipe import Growth, LdaMllt, Monophone, Recipe, Sat, Tied
from bochner.speech.align.labels import phone_segments, phone_states, read_ctm, tied_states, word_segments, write_ctm
from bochner.speech.align.output import write_alignments
from bochner.speech.align.recordings import AlignedFiles, AlignedRecording, TimedLabel, align_files
from bochner.speech.hmm.model import read_kaldi_hmm
from bochner.speech.kaldi_formats import read_kaldi_alignments

__all__ = [
    "STAGES", "Agreement", "AlignedFiles", "AlignedRecording", "Alignments", "FunctionScores", "GmmHmm", "Growth",
    "LdaMllt", "MixtureScores", "Monophone", "Recipe", "Sat", "Search", "Tied", "TimedLabel", "adapt_to_speakers",
    "align_files", "align_utterances", "compare_all", "compare_segments", "phone_segments", "phone_states",
    "read_ctm", "read_kaldi_alignments", "read_kaldi_hmm", "tied_states", "train_gmm", "word_segments",
    "write_alignments", "write_ctm",
]  # fmt: skip
