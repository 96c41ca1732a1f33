"""Decoding graphs: H o C o L o G from a lexicon, a language model and an HMM."""

from bochner.speech.graph.cache import cached_graph
from bochner.speech.graph.compose import compose_graph
from bochner.speech.graph.decoding import DecodingGraph
from bochner.speech.graph.grammar import grammar_fst
from bochner.speech.graph.lexicon import lexicon_fst
from bochner.speech.lexicon import phone_lexicon

__all__ = ["DecodingGraph", "cached_graph", "compose_graph", "grammar_fst", "lexicon_fst", "phone_lexicon"]
