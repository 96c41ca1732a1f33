"""Generators for one purpose each, so that no draw depends on what was drawn before it."""

from __future__ import annotations

import zlib

import numpy as np
from torch import Generator

from bochner import checks


def seeded(seed: int, purpose: str, *key: int) -> Generator:
    """A generator that is a function of (seed, purpose, key) alone; different keys give independent streams.

    >>> a, b = seeded(0, "rows", 3), seeded(0, "rows", 3)
    >>> a.initial_seed() == b.initial_seed() != seeded(0, "rows", 4).initial_seed()
    True
    """
    sequence = np.random.SeedSequence(
        checks.nonnegative_int("seed", seed), spawn_key=(zlib.crc32(purpose.encode()), *key)
    )
    return Generator().manual_seed(int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1)))
