"""Hidden Markov models of phones: topology, mixtures of Gaussians, and trees that tie states."""

from bochner.speech.hmm.mixtures import Mixtures
from bochner.speech.hmm.model import Hmm, make_hmm, monophone_hmm
from bochner.speech.hmm.tree import Tree, context_dependency, grow_tree

__all__ = ["Hmm", "Mixtures", "Tree", "context_dependency", "grow_tree", "make_hmm", "monophone_hmm"]
