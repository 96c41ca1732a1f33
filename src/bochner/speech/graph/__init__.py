"""Decoding graphs: H o C o L o G from a lexicon, a language model and an HMM."""

from bochner.speech.graph.decoding import DecodingGraph, cached_graph, compose_graph
from bochner.speech.graph.transducers import grammar_fst, lexicon_fst
from bochner.speech.lexicon import phone_lexicon

__all__ = ["DecodingGraph", "cached_graph", "compose_graph", "grammar_fst", "lexicon_fst", "phone_lexicon"]
