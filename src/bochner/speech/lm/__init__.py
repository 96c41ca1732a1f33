"""N-gram language models: modified Kneser-Ney from text, ARPA files, perplexity."""

from bochner.speech.lm.arpa import read_arpa, write_arpa
from bochner.speech.lm.kneser_ney import estimate
from bochner.speech.lm.model import NgramModel, Perplexity, perplexity, uniform

__all__ = ["NgramModel", "Perplexity", "estimate", "perplexity", "read_arpa", "uniform", "write_arpa"]
