"""Levels of recordings: whether they may contain speech, and the pauses between which long ones are divided."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import numpy as np
from scipy.ndimage import uniform_filter1d

from bochner.speech.audio import Samples
from bochner.speech.frames import Array

LEVEL_SECONDS = 0.025  # for which a level is measured
MIN_PART, MAX_PART, PAUSE = 400, 1200, 12  # levels: 10 s, 30 s and 0.3 s
MAX_SILENCE = 4 * 2.0**-15  # root mean square of the loudest frame of digital silence: four 16-bit steps, -78 dB
MIN_LEVEL_RANGE, MIN_LEVELS = 3.0, 8  # dB between quiet and loud frames of speech; frames needed to compare them


class LevelMeter:
    """Root mean squares of each 25 ms of samples that pass through it, and the pauses that they show."""

    def __init__(self, rate: int) -> None:
        self.rate, self.num_samples, self.size = rate, 0, max(1, round(LEVEL_SECONDS * rate))
        self._levels: list[Array] = []

    def through(self, blocks: Iterable[Samples]) -> Iterator[Samples]:
        """The same blocks."""
        size, rest = self.size, np.zeros(0, np.float32)
        for block in blocks:
            self.num_samples += len(block)
            pending = np.concatenate([rest, block])
            whole = len(pending) // size * size
            self._measure(pending[:whole].reshape(-1, size))
            rest = pending[whole:]
            yield block
        if len(rest):
            self._measure(np.pad(rest, (0, size - len(rest)))[None])

    def _measure(self, frames: Samples) -> None:
        self._levels.append(np.sqrt((frames.astype(np.float64) ** 2).mean(axis=1)))

    @property
    def levels(self) -> Array:
        return np.concatenate(self._levels)

    @property
    def duration(self) -> float:
        """Seconds."""
        return self.num_samples / self.rate

    def parts(self) -> list[tuple[float, Array]]:
        """The seconds at which each part begins, and its levels.

        A recording of more than 30 s is cut in the quietest 0.3 s between 10 and 30 s after the last cut.

        >>> meter = LevelMeter(8000)
        >>> noise = np.random.default_rng(0).standard_normal(50 * 8000).astype(np.float32)
        >>> noise[20 * 8000 : 21 * 8000] = 0.0
        >>> sum(map(len, meter.through([noise])))
        400000
        >>> [(start, len(levels)) for start, levels in meter.parts()]
        [(0.0, 806), (20.15, 1194)]
        """
        levels = self.levels
        quiet = uniform_filter1d(np.log(np.maximum(levels, MAX_SILENCE)), PAUSE)
        cuts = [0]
        while len(levels) - cuts[-1] > MAX_PART:
            first = cuts[-1] + MIN_PART
            cuts.append(first + int(quiet[first : min(cuts[-1] + MAX_PART, len(levels) - MIN_PART)].argmin()))
        starts = [cut * self.size / self.rate for cut in cuts]
        return list(zip(starts, np.split(levels, cuts[1:]), strict=True))


def shows_speech(levels: Array) -> bool:
    """Whether a level [n] is above rounding noise, and levels vary, unlike those of a hum."""
    low, high = np.quantile(20 * np.log10(np.maximum(levels, MAX_SILENCE)), [0.05, 0.95])
    return bool(levels.max() > MAX_SILENCE and (len(levels) < MIN_LEVELS or high - low > MIN_LEVEL_RANGE))


def may_be_speech(samples: Samples, *, rate: int) -> bool:
    """Whether the level of some 25 ms is above rounding noise, and varies, unlike that of a hum.

    >>> noise = 0.1 * np.random.default_rng(0).standard_normal(8000)
    >>> bursts = noise * (np.arange(8000) % 2000 < 1000)
    >>> [may_be_speech(x, rate=8000) for x in (np.zeros(8000), noise, bursts)]
    [False, False, True]
    """
    meter = LevelMeter(rate)
    deque(meter.through([samples]), maxlen=0)
    return shows_speech(meter.levels)
