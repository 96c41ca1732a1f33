"""Sequence-discriminative training: whole utterances against all that could have been said (lattice-free MMI)."""

from bochner.acoustic.sequence.acoustic import sequence_trained
from bochner.acoustic.sequence.graph import StateGraph, phone_graph
from bochner.acoustic.sequence.objective import log_partition, mmi, occupancies
from bochner.acoustic.sequence.recipe import SequenceRecipe
from bochner.acoustic.sequence.training import LabelledFrames, train_sequence

__all__ = [
    "LabelledFrames",
    "SequenceRecipe",
    "StateGraph",
    "log_partition",
    "mmi",
    "occupancies",
    "phone_graph",
    "sequence_trained",
    "train_sequence",
]
