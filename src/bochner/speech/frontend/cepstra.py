"""Mel filter banks, MFCC and PLP cepstra."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any

import numpy as np

from bochner import checks
from bochner.speech.frames import Array
from bochner.speech.frontend.pitch import NUM_FEATURES, PitchTracker, pitch_features
from bochner.speech.runtime import imported

FULL_SCALE = 32768.0  # Kaldi computes on 16-bit samples
FLOOR = float(np.finfo(np.float32).eps)  # of band energies, since the logarithm of digital silence is infinite


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

    def frame_blocks(self, computer: Any, blocks: Iterable[Array]) -> Iterator[Array]:
        """Frames of consecutive blocks of samples [n] by kaldi-native-fbank's `computer`, as soon as they are complete.

        Samples are floats in [-1, 1] or int16; frames are float32 [T, d]. One block is in memory at a time. Raises
        ValueError after the last block if all of them are shorter than one frame.
        """
        noise, num_frames, num_samples = np.random.default_rng(self.seed), 0, 0
        for block in chain(blocks, [None]):
            if block is None:
                computer.input_finished()
            else:
                scaled = self._scaled(block)
                if self.dither:
                    scaled += self.dither * noise.standard_normal(len(scaled), np.float32)
                num_samples += len(scaled)
                computer.accept_waveform(self.rate, scaled)
            new = range(num_frames, computer.num_frames_ready)
            if new:
                yield np.stack([computer.get_frame(i) for i in new]).astype(np.float32)
                computer.pop(len(new))
                num_frames = new.stop
        if not num_frames:
            needed = int(self.rate * (self.frame_length if self.snip_edges else self.frame_shift / 2) + 1e-6)
            raise ValueError(f"samples must last for one frame, {needed} samples at {self.rate} Hz, got {num_samples}.")

    def _scaled(self, samples: Array) -> Array:
        """Checked samples [n] as float32 in 16-bit units."""
        samples = np.asarray(samples)
        if samples.ndim != 1:
            raise ValueError(f"samples must have shape [n], one channel, got {list(samples.shape)}.")
        if samples.dtype != np.int16 and samples.dtype.kind != "f":
            raise ValueError(f"samples must be floats in [-1, 1] or int16, got {samples.dtype}.")
        if not np.isfinite(samples).all():
            raise ValueError("samples must be finite, but hold NaN or infinity.")
        return samples.astype(np.float32) * np.float32(1 if samples.dtype == np.int16 else FULL_SCALE)

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


def native(name: str) -> Callable[..., Any]:
    """A class of kaldi-native-fbank, imported only when it is used."""
    return getattr(imported("kaldi_native_fbank"), name)


@dataclass(frozen=True, kw_only=True)
class Fbank(Framing):
    """log max(eps, sum_f w_bf |X_t(f)|^2): energies of the mel bands b of frame t, as Kaldi computes them.

    samples [n] -> float32 [T, num_bins], with `energy` [T, 1 + num_bins]: the log energy of the raw frame first.
    O(n log n). By kaldi-native-fbank.

    >>> import numpy as np
    >>> Fbank(rate=8000, num_bins=40)(np.zeros(8000)).shape
    (98, 40)
    """

    energy: bool = False

    @property
    def dim(self) -> int:
        return self.num_bins + self.energy

    def __call__(self, samples: Array) -> Array:
        options = self.configure(native("FbankOptions")())
        options.use_energy = self.energy
        return np.concatenate(list(self.frame_blocks(native("OnlineFbank")(options), [samples])))


@dataclass(frozen=True, kw_only=True)
class Cepstra(Framing):
    """The options that MFCC and PLP cepstra share.

    With `pitch`, the frames also have the three features of `bochner.speech.frontend.pitch`.
    """

    num_cepstra: int = 13
    lifter: float = 22.0
    energy: bool = True
    pitch: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.nonnegative_float("lifter", self.lifter)
        checks.positive_int("num_cepstra", self.num_cepstra)

    @property
    def dim(self) -> int:
        return self.num_cepstra + NUM_FEATURES * self.pitch

    def __call__(self, samples: Array) -> Array:
        return self.of_blocks([samples])

    def of_blocks(self, blocks: Iterable[Array]) -> Array:
        """The cepstra of samples in consecutive blocks, of which one is in memory at a time.

        With `pitch`, whose track depends on the whole recording, all samples are in memory.
        """
        if not self.pitch:
            return np.concatenate(list(self._cepstra_blocks(blocks)))
        samples = np.concatenate([self._scaled(block) for block in blocks])
        cepstra = np.concatenate(list(self._cepstra_blocks([samples / np.float32(FULL_SCALE)])))
        tracker = PitchTracker(frame_length=self.frame_length, frame_shift=self.frame_shift)
        track = tracker(samples / np.float32(FULL_SCALE), rate=self.rate, num_frames=len(cepstra))
        return np.column_stack([cepstra, pitch_features(track)])

    def stream(self, blocks: Iterable[Array]) -> Iterator[Array]:
        """The cepstra of a stream of samples, each as soon as its last sample has arrived."""
        if self.pitch:
            raise ValueError("the front end must be without pitch for a stream, since pitch needs the whole recording.")
        return self._cepstra_blocks(blocks)

    def _cepstra_blocks(self, blocks: Iterable[Array]) -> Iterator[Array]:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Mfcc(Cepstra):
    """The cosine transform of the log mel energies, liftered by 1 + (lifter / 2) sin(pi k / lifter), as Kaldi does it.

    samples [n] -> float32 [T, num_cepstra]. With `energy` the first is the log energy of the raw frame, else C0.
    O(n log n). By kaldi-native-fbank. Source: Davis and Mermelstein, 1980.

    >>> import numpy as np
    >>> Mfcc(rate=16000)(np.zeros(16000)).shape
    (98, 13)
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_cepstra > self.num_bins:
            raise ValueError(f"num_cepstra must be at most num_bins, {self.num_bins}, got {self.num_cepstra}.")

    def _cepstra_blocks(self, blocks: Iterable[Array]) -> Iterator[Array]:
        options = self.configure(native("MfccOptions")())
        options.num_ceps = self.num_cepstra
        options.cepstral_lifter = self.lifter
        options.use_energy = self.energy
        return self.frame_blocks(native("OnlineMfcc")(options), blocks)


@dataclass(frozen=True, kw_only=True)
class Plp(Cepstra):
    """Cepstra of an all-pole model of the loudness spectrum, by Kaldi's recipe.

        band energies e_b -> (e_b l(f_b))^compression          l: equal loudness at the centre f_b of band b
        -> cosine transform: autocorrelations r_0 ... r_order  the first and last band count twice
        -> Levinson-Durbin: predictors a_1 ... a_order
        -> cepstra c_k = -a_k - sum_{j<k} (k - j) a_j c_{k-j} / k, liftered as those of `Mfcc`

    samples [n] -> float32 [T, num_cepstra]. With `energy` the first is the log energy of the raw frame, else the log of
    the prediction error. O(n log n + T order (num_bins + order)). Source: Hermansky, 1990; Kaldi's feature-plp.

    >>> generator = np.random.default_rng(0)
    >>> Plp(rate=16000)(generator.standard_normal(16000) / 100).shape
    (98, 13)
    """

    order: int = 12
    compression: float = 0.33333

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive_float("compression", self.compression)
        if self.num_cepstra > checks.positive_int("order", self.order) + 1:
            raise ValueError(f"num_cepstra must be at most order + 1 = {self.order + 1}, got {self.num_cepstra}.")

    def _cepstra_blocks(self, blocks: Iterable[Array]) -> Iterator[Array]:
        options = self.configure(native("FbankOptions")())
        options.use_energy, options.use_log_fbank = True, False
        return map(self._cepstra, self.frame_blocks(native("OnlineFbank")(options), blocks))

    def _cepstra(self, energies: Array) -> Array:
        """The cepstra of frames of the log energy and the energies of all bands."""
        raw = energies.astype(np.float64)
        log_energy, bands = raw[:, 0], np.maximum(raw[:, 1:], FLOOR)
        loudness = (bands * equal_loudness(self.centres)) ** self.compression
        predictors, error = levinson_durbin(autocorrelations(loudness, self.order))
        first = log_energy if self.energy else np.log(error)
        rest = cepstra_of(predictors)[:, : self.num_cepstra - 1] * self._lifters()
        return np.column_stack([first, rest]).astype(np.float32)

    @property
    def centres(self) -> Array:
        """Hz of the middle of each band [num_bins]: evenly spaced on the mel scale 1127 log(1 + f / 700)."""
        low, high = np.log1p(np.array([self.low, self.top]) / 700)
        return 700 * np.expm1(np.linspace(low, high, self.num_bins + 2)[1:-1])

    def _lifters(self) -> Array:
        k = np.arange(1, self.num_cepstra)
        return 1 + self.lifter / 2 * np.sin(np.pi * k / self.lifter) if self.lifter else np.ones(len(k))


def equal_loudness(frequency: Array) -> Array:
    """The perceived loudness of a tone of `frequency` Hz at equal power, up to a factor (Hermansky, 1990).

    >>> equal_loudness(np.array([300.0, 1000.0, 4000.0])).round(3)
    array([0.02 , 0.171, 0.668])
    """
    square = np.asarray(frequency, np.float64) ** 2
    return (square / (square + 1.6e5)) ** 2 * (square + 1.44e6) / (square + 9.61e6)


def autocorrelations(spectrum: Array, order: int) -> Array:
    """r_0 ... r_order [T, order + 1] of the even spectrum [T, B], whose first and last points are doubled."""
    padded = np.concatenate([spectrum[:, :1], spectrum, spectrum[:, -1:]], axis=1)
    last = padded.shape[1] - 1
    angles = np.pi / last * np.outer(np.arange(last + 1), np.arange(order + 1))
    weights = np.full(last + 1, 1 / last)
    weights[[0, last]] /= 2
    return padded @ (weights[:, None] * np.cos(angles))


def levinson_durbin(autocorrelation: Array) -> tuple[Array, Array]:
    """Predictors a [T, p] with sum_k a_k r_|j-k| = -r_j, j = 1 ... p, and the prediction error [T]; r is [T, p + 1].

    O(T p^2). The error is kept positive for reflection coefficients of magnitude 1, as in Kaldi.

    >>> levinson_durbin(np.array([[2.0, 1.0, 0.0]]))
    (array([[-0.66666667,  0.33333333]]), array([1.33333333]))
    """
    error = autocorrelation[:, 0].copy()
    a = np.zeros((len(error), 0))
    for i in range(1, autocorrelation.shape[1]):
        r = autocorrelation[:, i] + (a * autocorrelation[:, i - 1 : 0 : -1]).sum(1)
        reflection = (r / error)[:, None]
        a = np.hstack([a - reflection * a[:, ::-1], -reflection])
        error *= np.maximum(1 - reflection[:, 0] ** 2, 1e-5)
    return a, error


def cepstra_of(predictors: Array) -> Array:
    """Cepstra c_1 ... c_p [T, p] of 1 / (1 + sum_k a_k z^-k), for a [T, p]. O(T p^2).

    >>> cepstra_of(np.array([[-0.5, 0.0]]))
    array([[0.5  , 0.125]])
    """
    cepstra = np.zeros_like(predictors)
    for k in range(1, predictors.shape[1] + 1):
        earlier = np.arange(1, k)
        carried = ((k - earlier) * predictors[:, earlier - 1] * cepstra[:, k - earlier - 1]).sum(1)
        cepstra[:, k - 1] = -predictors[:, k - 1] - carried / k
    return cepstra
