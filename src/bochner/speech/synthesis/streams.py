"""Random numbers that depend on what they are for, and not on what was drawn before."""

from __future__ import annotations

import numpy as np

USES = ("voices", "speaker", "babble", "utterance")


def stream(seed: int, use: str, *places: int) -> np.random.Generator:
    """A generator of its own for each seed, use and place.

    >>> stream(0, "utterance", 3, 1).random() == stream(0, "utterance", 3, 1).random()
    True
    >>> stream(0, "utterance", 3).random() == stream(0, "utterance", 3, 0).random()
    False
    """
    return np.random.default_rng([USES.index(use), len(places), *places, seed])  # NumPy pads with zeros: say how many
