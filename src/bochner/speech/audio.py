"""Audio files, read and written by libsndfile; a recording that cannot be used is an error with the reason."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterable, Iterator
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
from bochner.speech.truncation import truncation
from bochner.storage import write_atomically

logger = logging.getLogger(__name__)
Samples = NDArray[np.float32]

CLIPPED_RUN = 3  # consecutive samples at full scale from which on they count as clipped
MAX_CLIPPED = 0.01  # share of clipped samples above which a recording is refused
BLOCK_SECONDS = 60  # of a recording read at a time: 21 MB of stereo at 44.1 kHz
FILTER_REACH = 10  # scipy's resampling filter ends after this many samples of the lower rate


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
    return read_samples(
        path, rate=utterance.rate, start=utterance.start, duration=utterance.duration, channel=utterance.channel
    )


def read_samples(
    path: FilePath, *, rate: int, start: float = 0.0, duration: float | None = None, channel: int | None = None
) -> Samples:
    """Samples [samples] of a recording at `rate`, from `start` for `duration` seconds (default: to the end).

    A recording at another rate is resampled. Of several channels the mean is read, or the given `channel`, counted from
    0. Raises AudioError for a file that libsndfile cannot read or that ends before `start` + `duration`, a channel that
    it does not have, no samples, NaN or infinity, and more than one percent of clipped samples. A truncated file is
    read as far as it goes, with a warning.
    """
    return np.concatenate(list(sample_blocks(path, rate=rate, start=start, duration=duration, channel=channel)))


def sample_blocks(
    path: FilePath, *, rate: int, start: float = 0.0, duration: float | None = None, channel: int | None = None
) -> Iterator[Samples]:
    """The samples that `read_samples` returns, with the same errors, as consecutive blocks of about a minute.

    Whether too many samples are clipped is known after the last block. Memory of one block at the recording's own rate.
    """
    positive_int("rate", rate)
    with _opened(path) as file:
        if (reason := truncation(path)) is not None:
            logger.warning("%s is %s", path, reason)
        own_rate = file.samplerate
        if channel is not None and not 0 <= channel < file.channels:
            raise AudioError(path, f"no channel {channel} ({file.channels} channels, counted from 0)")
        first = round(start * own_rate)
        count = len(file) - first if duration is None else round(duration * own_rate)
        rounding = max(1, -(-own_rate // rate))  # times are rounded to samples of either rate
        needed = 0 if duration is None else first + count - rounding
        if needed > len(file):
            raise _too_short(path, ends=len(file), needed=needed + rounding, rate=own_rate)
        file.seek(min(first, len(file)))
        blocks = _own_blocks(path, file, max(count, 0), channel)
        yield from blocks if own_rate == rate else resampled_blocks(blocks, rate=own_rate, new_rate=rate)
        if needed > (ends := file.tell()):  # fewer samples than the header states
            raise _too_short(path, ends=ends, needed=needed + rounding, rate=own_rate)


def _too_short(path: FilePath, *, ends: int, needed: int, rate: int) -> AudioError:
    return AudioError(path, f"too short (ends at {ends / rate:.3f} s, expected {needed / rate:.3f} s)")


def _own_blocks(path: FilePath, file: Any, count: int, channel: int | None) -> Iterator[Samples]:
    """The next `count` samples of an open file at its own rate."""
    total, clipped = 0, np.zeros(1)
    while total < count:
        size = min(BLOCK_SECONDS * file.samplerate, count - total)
        try:
            channels: Samples = file.read(size, "float32", always_2d=True)
        except imported("soundfile").LibsndfileError as error:  # such as a FLAC file that ends early
            raise AudioError(path, f"damaged after {total / file.samplerate:.1f} s") from error
        if len(channels) == 0:
            break
        channels = channels if channel is None else channels[:, [channel]]
        if not np.isfinite(channels).all():
            raise AudioError(path, "NaN or infinite samples")
        total += len(channels)
        clipped = clipped + len(channels) * np.array([clipped_share(samples) for samples in channels.T])
        yield channels.mean(axis=1)
    if total == 0:
        raise AudioError(path, "no samples")
    if (share := clipped.max() / total) > MAX_CLIPPED:
        raise AudioError(path, f"clipped ({share:.1%} of the samples at full scale)")


def recording_length(path: FilePath) -> tuple[int, int]:
    """Number of samples and samples per second of a recording, from its header."""
    with _opened(path) as file:
        return len(file), file.samplerate


def num_channels(path: FilePath) -> int:
    """Number of channels of a recording, from its header."""
    with _opened(path) as file:
        return int(file.channels)


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


def resampled_blocks(blocks: Iterable[Samples], *, rate: int, new_rate: int) -> Iterator[Samples]:
    """The same as `resample` of all blocks together, in other blocks.

    >>> blocks = [np.ones(200, dtype=np.float32), np.ones(20, dtype=np.float32)]
    >>> sum(map(len, resampled_blocks(blocks, rate=22050, new_rate=8000)))
    80
    """
    shared = gcd(rate, new_rate)
    up, down = new_rate // shared, rate // shared
    reach = -(-FILTER_REACH * max(up, down) // (up * down)) * down  # whole numbers of samples at both rates
    pending, done = np.zeros(0, np.float32), 0  # the first `done` of `pending` are resampled, and context of the others
    for block in blocks:
        pending = np.concatenate([pending, block])
        ready = (len(pending) - reach) // down * down
        if ready > done:
            yield resample(pending, rate=rate, new_rate=new_rate)[done * up // down : ready * up // down]
            pending, done = pending[max(ready - reach, 0) :], min(ready, reach)
    yield resample(pending, rate=rate, new_rate=new_rate)[done * up // down :]


def _opened(path: FilePath) -> Any:
    if not Path(path).is_file():
        raise AudioError(path, "no such file")
    soundfile = imported("soundfile")
    try:
        return soundfile.SoundFile(path)
    except soundfile.LibsndfileError as error:
        raise AudioError(path, f"not readable ({error.error_string.rstrip('.')})") from error
