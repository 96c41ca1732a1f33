"""Where a vowel begins after a nasal or a liquid: the samples say it, for the engine announces such a vowel late."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.speech.synthesis.espeak import RATE

Array = NDArray[Any]

STEP = int(0.0025 * RATE)
WINDOW = int(0.02 * RATE)  # longer than a period of the lowest voice, or its pulses would show
BODY = int(0.03 * RATE)  # of the vowel after the event, to know how it sounds
EDGES = (0, 3, 6, 10, 14, 19, 25, 32, 41, 52, 66, 83, 104, 130)  # bands in bins of 43 Hz, narrow below, wide above
FLOOR = 10.0  # beside the energies of speech, 1e8 and more: silence has a logarithm too


def vowel_onset(samples: NDArray[np.int16], *, start: int, event: int) -> int:
    """The sample in [start, event] at which a vowel begins, after a nasal or liquid that begins at `start`.

    The logarithms x_t of energies in 13 bands, one row each 2.5 ms from `start` to 30 ms beyond the event, are
    cut in two where they differ most: k minimises sum_{t<k} |x_t - mean_{<k}|^2 + sum_{t>=k} |x_t - mean_{>=k}|^2.
    At a nasal that is the end of the murmur, at a glide the middle of its movement. Cost O(n) for n rows.

    >>> from bochner.speech.synthesis.espeak import speak
    >>> spoken = speak("[[m|'A:|t]]", voice="en-us+m3")
    >>> m, vowel = [event.sample for event in spoken.events if event.label in ("m", "'A:")]
    >>> 0.01 < (vowel - vowel_onset(spoken.samples, start=m, event=vowel)) / RATE < 0.04
    True
    """
    centres = np.arange(start + WINDOW // 2, min(event + BODY, len(samples) - WINDOW // 2), STEP)
    last = int(np.searchsorted(centres, event, side="right"))  # rows centred before the event
    if last < 2:
        return event
    return int(centres[_cut(_log_bands(samples, centres), last)])


def _log_bands(samples: NDArray[np.int16], centres: Array) -> Array:
    windows = samples[centres[:, None] + np.arange(-(WINDOW // 2), WINDOW - WINDOW // 2)] * np.hanning(WINDOW)
    power = np.abs(np.fft.rfft(windows, n=512)[:, : EDGES[-1]]) ** 2
    return np.log(np.add.reduceat(power, EDGES[:-1], axis=1) + FLOOR)


def _cut(rows: Array, last: int) -> int:
    """The row k in 1..last that begins the second of the two pieces whose means explain most."""
    counts = np.arange(1, min(last, len(rows) - 1) + 1)
    sums, total = np.cumsum(rows, axis=0)[counts - 1], rows.sum(axis=0)
    explained = (sums**2).sum(axis=1) / counts + ((total - sums) ** 2).sum(axis=1) / (len(rows) - counts)
    return int(counts[np.argmax(explained)])
