"""The grammar that knows nothing: every word as likely as any other."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from bochner.speech.lm.model import Grams, NgramModel
from bochner.speech.lm.sentences import BEGIN, SPECIAL, UNKNOWN


def uniform(words: Iterable[str]) -> NgramModel:
    """p(w) = 1 / (V + 1) for each of V words and </s>: a loop of words or phones.

    >>> round(10 ** uniform(["yes", "no"]).log_prob("yes"), 4)
    0.3333
    """
    names = tuple(dict.fromkeys((*SPECIAL, *words)))
    if len(names) == len(SPECIAL):
        raise ValueError("words must hold at least one word, got none.")
    ids = np.arange(len(names))
    log_prob = np.full(len(names), -np.log10(len(names) - 2))
    log_prob[UNKNOWN], log_prob[BEGIN] = -np.inf, 0.0
    return NgramModel(names, [Grams(np.zeros_like(ids), ids, log_prob, np.zeros(len(ids)))])
