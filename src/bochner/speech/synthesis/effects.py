"""What lies between a voice and its recording: room, noise, telephone. Times of the speech do not move."""

from __future__ import annotations

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.signal import fftconvolve, firwin

from bochner.checks import nonnegative_float, positive_float, positive_int
from bochner.speech.audio import Samples, resample

TELEPHONE_RATE = 8000
TELEPHONE_BAND = (300.0, 3400.0)  # Hz
TAPS = 255
MU = 255.0
EARLIEST_ECHO = 0.005  # seconds after the direct sound


def coloured_noise(num_samples: int, *, slope: float, generator: np.random.Generator) -> Samples:
    """Noise with power 1 / frequency^slope and unit variance: 0 is white, 1 pink, 2 brown. Cost O(n log n).

    >>> coloured_noise(4, slope=1.0, generator=np.random.default_rng(0)).shape
    (4,)
    """
    length = next_fast_len(max(positive_int("num_samples", num_samples), 2), real=True)
    spectrum = rfft(generator.standard_normal(length, dtype=np.float32))
    spectrum[0] = 0.0
    spectrum[1:] *= np.arange(1, len(spectrum), dtype=np.float32) ** (-nonnegative_float("slope", slope) / 2)
    return _unit_power(irfft(spectrum, length)[:num_samples])


def add_noise(speech: Samples, noise: Samples, *, snr: float) -> Samples:
    """speech + g noise, with g so that 10 log10(power of speech / power of g noise) = snr (dB)."""
    if len(noise) != len(speech):
        raise ValueError(f"noise must have the {len(speech)} samples of the speech, got {len(noise)}.")
    power = float(np.mean(np.square(speech, dtype=np.float64)))
    gain = np.sqrt(power * 10 ** (-snr / 10))
    return (speech + np.float32(gain) * _unit_power(noise)).astype(np.float32)


def room_response(*, rate: int, reverberation: float, direct_ratio: float, generator: np.random.Generator) -> Samples:
    """A room: the direct sound at sample 0, then noise that decays by 60 dB in `reverberation` seconds.

    h[0] = 1 and h[t] = g e[t] 10^(-3 t / T), e white, g so that the direct sound has `direct_ratio` dB more energy than
    all echoes together (Polack's model of diffuse reverberation, 1988).
    """
    times = np.arange(1, max(round(positive_float("reverberation", reverberation) * rate), 2)) / rate
    tail = generator.standard_normal(len(times)) * 10 ** (-3 * times / reverberation)
    tail[times < EARLIEST_ECHO] = 0.0
    energy = max(float(np.sum(tail**2)), 1e-12)
    return np.concatenate([[1.0], tail * np.sqrt(10 ** (-direct_ratio / 10) / energy)]).astype(np.float32)


def reverberate(samples: Samples, response: Samples) -> Samples:
    """The samples as heard in the room, cut at their end."""
    return fftconvolve(samples, response)[: len(samples)].astype(np.float32)


def telephone(samples: Samples, *, rate: int) -> Samples:
    """Through a telephone and back at `rate`: 8 kHz, 300 to 3400 Hz by a filter without delay, 8-bit mu-law."""
    narrow = resample(samples, rate=rate, new_rate=TELEPHONE_RATE)
    band = firwin(TAPS, TELEPHONE_BAND, pass_zero=False, fs=TELEPHONE_RATE).astype(np.float32)
    coded = mu_law(fftconvolve(narrow, band, mode="same"))
    return resample(coded, rate=TELEPHONE_RATE, new_rate=rate)[: len(samples)]


def mu_law(samples: Samples) -> Samples:
    """Round to the 256 levels of mu-law: uniform in sign(x) log(1 + 255 |x|) / log 256 (ITU-T G.711's curve).

    >>> float(mu_law(np.array([1.0], dtype=np.float32))[0])
    1.0
    """
    x = np.clip(samples, -1.0, 1.0)
    level = np.round(127 * np.sign(x) * np.log1p(MU * np.abs(x)) / np.log1p(MU)) / 127
    return (np.sign(level) * np.expm1(np.abs(level) * np.log1p(MU)) / MU).astype(np.float32)


def _unit_power(samples: Samples) -> Samples:
    power = float(np.mean(np.square(samples, dtype=np.float64)))
    return (samples / np.sqrt(max(power, 1e-20))).astype(np.float32)
