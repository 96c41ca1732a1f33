"""N-gram language models: modified Kneser-Ney from text, ARPA files, perplexity."""

from bochner.speech.lm.kneser_ney import estimate
from bochner.speech.lm.ngram import NgramModel, Perplexity, perplexity, read_arpa, uniform, write_arpa

__all__ = ["NgramModel", "Perplexity", "estimate", "perplexity", "read_arpa", "uniform", "write_arpa"]
