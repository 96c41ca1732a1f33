"""The probabilities of moving between states: what they weigh in an alignment, and how they are learned."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.speech.hmm.model import Hmm
from bochner.speech.kaldi import kaldi_hmm_gmm

Array = NDArray[Any]


def transition_weights(hmm: Hmm, *, transition_scale: float = 1.0, self_loop_scale: float = 0.1) -> Array:
    """What each transition id [1 + ids] adds to a path's log score.

    log p splits into staying or leaving, scaled by `self_loop_scale`, and where to go on leaving, scaled by
    `transition_scale`; frames already say how long a state lasts, so the first counts little.

    Source: Kaldi's `GetScaledTransitionLogProb`.
    """
    log_probabilities = np.array(hmm.transitions.log_probs)
    leaving = np.array(hmm.transitions.non_self_loop_log_probs)[hmm.table.source]
    moved = self_loop_scale * leaving + transition_scale * (log_probabilities - leaving)
    return np.where(hmm.table.self_loop, self_loop_scale * log_probabilities, moved)


def update_transitions(hmm: Hmm, counts: Array, *, floor: float = 0.01, min_count: float = 5.0) -> Hmm:
    """The transition probabilities that counts [1 + ids] of transition ids make most likely.

    A state seen less than `min_count` times keeps its probabilities; none falls below `floor`.
    """
    learned = hmm.with_log_probabilities(np.array(hmm.transitions.log_probs))  # a copy: the update is in place
    settings = kaldi_hmm_gmm.MleTransitionUpdateConfig(floor=floor, mincount=min_count)
    learned.transitions.mle_update(np.asarray(counts, dtype=np.float64), settings)
    return learned


def count_transitions(hmm: Hmm, transition_ids: Array) -> Array:
    return np.bincount(transition_ids, minlength=hmm.num_transition_ids + 1)
