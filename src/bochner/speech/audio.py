"""Audio files, read and written by libsndfile; a recording that cannot be used is an error with the reason."""

from __future__ import annotations

import io
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import resample_poly

from bochner.checks import positive_int
from bochner.speech.manifest import Utterance
from bochner.speech.runtime import imported
from bochner.speech.text_files import FilePath
from bochner.storage import write_atomically

Samples = NDArray[np.float32]

CLIPPED_RUN = 3  # consecutive samples at full scale from which on they count as clipped
MAX_CLIPPED = 0.01  # share of clipped samples above which a recording is refused


class AudioError(ValueError):
    """A recording that cannot be used; the message names the file and the `reason`."""

    def __init__(self, path: FilePath, reason: str) -> None:
        super().__init__(f"{path}: {reason}.")
        self.reason = reason


def read_audio(utterance: Utterance, *, corpus_dir: FilePath) -> Samples:
    """The samples of `utterance`, [samples] in [-1, 1]; `corpus_dir` is the directory of its manifest."""
    if utterance.audio is None or utterance.rate is None:
        raise ValueError(f"utterance {utterance.id!r} has no audio, only frames ({utterance.frames}).")
    path = Path(corpus_dir) / utterance.audio
    return read_samples(path, rate=utterance.rate, start=utterance.start, duration=utterance.duration)


def read_samples(path: FilePath, *, rate: int, start: float = 0.0, duration: float | None = None) -> Samples:
    """Samples [samples] of a mono recording at `rate`, from `start` for `duration` seconds (default: to the end).

    Raises AudioError for a file that libsndfile cannot read or that ends early, another rate, several channels, no
    samples, NaN or infinity, and more than one percent of clipped samples.
    """
    with _opened(path) as file:
        if file.samplerate != rate:
            raise AudioError(path, f"wrong rate ({file.samplerate} Hz, expected {rate})")
        if file.channels != 1:
            raise AudioError(path, f"stereo ({file.channels} channels; extract the one with the speech)")
        first = round(start * rate)
        count = len(file) - first if duration is None else round(duration * rate)
        if first + count > len(file) + 1:  # times are rounded to samples
            length = len(file) / rate
            raise AudioError(path, f"too short (ends at {length:.3f} s, expected {(first + count) / rate:.3f} s)")
        file.seek(min(first, len(file)))
        samples: Samples = file.read(max(count, 0), dtype="float32")
    if len(samples) == 0:
        raise AudioError(path, "no samples")
    if not np.isfinite(samples).all():
        raise AudioError(path, "NaN or infinite samples")
    if (share := clipped_share(samples)) > MAX_CLIPPED:
        raise AudioError(path, f"clipped ({share:.1%} of the samples at full scale)")
    return samples


def recording_length(path: FilePath) -> tuple[int, int]:
    """Number of samples and samples per second of a recording, from its header."""
    with _opened(path) as file:
        return len(file), file.samplerate


def write_audio(path: FilePath, samples: Samples, *, rate: int) -> None:
    """Write samples in [-1, 1] atomically as 16-bit .wav or .flac."""
    if not np.isfinite(samples).all():
        raise ValueError(f"samples for {path} must be finite, but hold NaN or infinity.")
    path, stream = Path(path), io.BytesIO()
    imported("soundfile").write(
        stream, samples, positive_int("rate", rate), subtype="PCM_16", format=path.suffix[1:].upper()
    )
    write_atomically(path, stream.getvalue())


def clipped_share(samples: Samples) -> float:
    """The share of samples in runs of three or more at full scale.

    >>> clipped_share(np.array([0, 1, 1, 1, 1, 0.5, 0, 1], dtype=np.float32))
    0.5
    """
    top = np.abs(samples) >= 1.0 - 2.0**-15
    edges = np.flatnonzero(np.diff(np.concatenate([[0], top.astype(np.int8), [0]])))
    runs = edges[1::2] - edges[::2]
    return float(runs[runs >= CLIPPED_RUN].sum() / max(len(samples), 1))


def resample(samples: Samples, *, rate: int, new_rate: int) -> Samples:
    """The same sound at `new_rate` samples per second, band-limited by a polyphase filter.

    >>> resample(np.ones(220, dtype=np.float32), rate=22050, new_rate=8000).shape
    (80,)
    """
    shared = gcd(positive_int("rate", rate), positive_int("new_rate", new_rate))
    if rate == new_rate:
        return samples
    return resample_poly(samples, new_rate // shared, rate // shared).astype(np.float32)


def _opened(path: FilePath) -> Any:
    if not Path(path).is_file():
        raise AudioError(path, "no such file")
    soundfile = imported("soundfile")
    try:
        return soundfile.SoundFile(path)
    except soundfile.LibsndfileError as error:
        raise AudioError(path, f"not readable ({error.error_string.rstrip('.')})") from error
