"""Samples cut into overlapping frames: the options that every front end shares, and the checks of its input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from bochner import checks
from bochner.speech.frontend.arrays import Array

FULL_SCALE = 32768.0  # Kaldi computes on 16-bit samples


@dataclass(frozen=True, kw_only=True)
class Framing:
    """Frames of `frame_length` seconds every `frame_shift` seconds of audio at `rate` Hz, through `num_bins` mel bands.

    The bands lie between `low` and `high` Hz; `high` = 0 means half the rate. With `snip_edges` only whole frames
    count: T = 1 + (n - length) // shift; without it T is n / shift rounded, the ends mirrored. `dither` adds Gaussian
    noise of that many 16-bit steps, drawn from `seed` alone and so the same in every run: useful for digital silence.
    """

    rate: int = 16000
    frame_length: float = 0.025
    frame_shift: float = 0.010
    num_bins: int = 23
    low: float = 20.0
    high: float = 0.0
    snip_edges: bool = True
    dither: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        checks.positive_int("rate", self.rate)
        checks.positive_float("frame_length", self.frame_length)
        checks.positive_float("frame_shift", self.frame_shift)
        checks.nonnegative_float("dither", self.dither)
        checks.nonnegative_int("seed", self.seed)
        if checks.positive_int("num_bins", self.num_bins) < 3:
            raise ValueError(f"num_bins must be at least 3, got {self.num_bins}.")
        if not 0 <= self.low < self.top <= self.rate / 2:
            raise ValueError(
                f"low and high must satisfy 0 <= low < high <= {self.rate / 2:g}, half the rate, "
                f"got low {self.low:g} and high {self.high:g}."
            )

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    @property
    def top(self) -> float:
        """The upper edge of the bands in Hz."""
        return self.high if self.high > 0 else self.rate / 2 + self.high

    def options(self) -> dict[str, Any]:
        """All options as plain values, for a log or a file."""
        return {"name": self.name, **{field.name: getattr(self, field.name) for field in fields(self)}}

    def scaled(self, samples: Array) -> Array:
        """Checked samples [n] as float32 in 16-bit units; floats lie in [-1, 1], int16 as it is."""
        samples = np.asarray(samples)
        if samples.ndim != 1:
            raise ValueError(f"samples must have shape [n], one channel, got {list(samples.shape)}.")
        if samples.dtype != np.int16 and samples.dtype.kind != "f":
            raise ValueError(f"samples must be floats in [-1, 1] or int16, got {samples.dtype}.")
        needed = int(self.rate * (self.frame_length if self.snip_edges else self.frame_shift / 2) + 1e-6)
        if len(samples) < needed:
            raise ValueError(
                f"samples must last for one frame, {needed} samples at {self.rate} Hz, got {len(samples)}."
            )
        if not np.isfinite(samples).all():
            raise ValueError("samples must be finite, but hold NaN or infinity.")
        scaled = samples.astype(np.float32) * np.float32(1 if samples.dtype == np.int16 else FULL_SCALE)
        if self.dither:
            scaled += self.dither * np.random.default_rng(self.seed).standard_normal(len(scaled), np.float32)
        return scaled

    def configure(self, options: Any) -> Any:
        """kaldi-native-fbank's `options` with these values in it."""
        options.frame_opts.samp_freq = self.rate
        options.frame_opts.frame_length_ms = 1000 * self.frame_length
        options.frame_opts.frame_shift_ms = 1000 * self.frame_shift
        options.frame_opts.snip_edges = self.snip_edges
        options.frame_opts.dither = 0.0  # Kaldi's own noise has no seed
        options.mel_opts.num_bins = self.num_bins
        options.mel_opts.low_freq = self.low
        options.mel_opts.high_freq = self.high
        return options


def all_frames(computer: Any, rate: int, samples: Array) -> Array:
    """What kaldi-native-fbank's `computer` makes of all `samples`: float32 [T, d]."""
    computer.accept_waveform(rate, samples)
    computer.input_finished()
    return np.stack([computer.get_frame(i) for i in range(computer.num_frames_ready)]).astype(np.float32)


def native(name: str) -> Callable[..., Any]:
    """A class of kaldi-native-fbank, imported only when it is used."""
    try:
        import kaldi_native_fbank
    except ImportError as error:
        raise ImportError("the front end needs kaldi-native-fbank: pip install bochner[speech].") from error
    return getattr(kaldi_native_fbank, name)
