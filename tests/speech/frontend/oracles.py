"""The front ends by their formulas: float64, frame by frame, nothing shared with the package.

Linear prediction solves the normal equations as a dense system, and cepstra come from the spectrum of the all-pole
model on a fine grid: no recursion is used.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import toeplitz


def mel(hertz: float) -> float:
    return 1127.0 * np.log(1.0 + hertz / 700.0)


def windowed(samples: np.ndarray, rate: int, shift: float = 0.010, length: float = 0.025) -> list[np.ndarray]:
    """Frames of whole samples without their mean, before pre-emphasis and window; samples in 16-bit units."""
    n, step = int(rate * length), int(rate * shift)
    starts = range(0, len(samples) - n + 1, step)
    return [samples[s : s + n] - samples[s : s + n].mean() for s in starts]


def band_energies(frame: np.ndarray, rate: int, num_bins: int, low: float = 20.0) -> np.ndarray:
    n = len(frame)
    size = 2 ** int(np.ceil(np.log2(n)))
    emphasised = frame - 0.97 * np.concatenate([frame[:1], frame[:-1]])
    povey = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / (n - 1))) ** 0.85
    power = np.abs(np.fft.rfft(emphasised * povey, size)) ** 2
    edges = mel(low) + np.arange(num_bins + 2) * (mel(rate / 2) - mel(low)) / (num_bins + 1)
    energies = np.zeros(num_bins)
    for b in range(num_bins):
        for f in range(size // 2):
            here = mel(f * rate / size)
            rising = (here - edges[b]) / (edges[b + 1] - edges[b])
            falling = (edges[b + 2] - here) / (edges[b + 2] - edges[b + 1])
            energies[b] += power[f] * max(0.0, min(rising, falling))
    return energies


def lifter(k: int) -> float:
    return 1 + 11 * np.sin(np.pi * k / 22)


def fbank(samples: np.ndarray, rate: int, num_bins: int = 23) -> np.ndarray:
    return np.log([band_energies(frame, rate, num_bins) for frame in windowed(samples, rate)])


def mfcc(samples: np.ndarray, rate: int, num_bins: int = 23, num_cepstra: int = 13) -> np.ndarray:
    rows = []
    for frame in windowed(samples, rate):
        logs = np.log(band_energies(frame, rate, num_bins))
        row = [np.log(np.sum(frame**2))]
        for k in range(1, num_cepstra):
            angles = np.pi / num_bins * (np.arange(num_bins) + 0.5) * k
            row.append(lifter(k) * np.sqrt(2 / num_bins) * np.sum(logs * np.cos(angles)))
        rows.append(row)
    return np.array(rows)


def plp(samples: np.ndarray, rate: int, num_bins: int = 23, order: int = 12, num_cepstra: int = 13) -> np.ndarray:
    """The first column is the log energy, the last the log prediction error, which stands there without energy."""
    rows = []
    edges = np.linspace(mel(20.0), mel(rate / 2), num_bins + 2)
    centres = 700 * (np.exp(edges[1:-1] / 1127) - 1)
    squares = centres**2
    loudness = (squares / (squares + 1.6e5)) ** 2 * (squares + 1.44e6) / (squares + 9.61e6)
    for frame in windowed(samples, rate):
        spectrum = (band_energies(frame, rate, num_bins) * loudness) ** 0.33333
        spectrum = np.concatenate([spectrum[:1], spectrum, spectrum[-1:]])
        even = np.concatenate([spectrum, spectrum[-2:0:-1]])
        correlations = np.fft.ifft(even).real[: order + 1]
        predictors = np.linalg.solve(toeplitz(correlations[:-1]), -correlations[1:])
        error = correlations[0] + predictors @ correlations[1:]
        response = np.fft.fft(np.concatenate([[1.0], predictors]), 2**16)
        cepstra = 2 * np.fft.ifft(-np.log(np.abs(response))).real
        row = [lifter(k) * cepstra[k] for k in range(1, num_cepstra)]
        rows.append([np.log(np.sum(frame**2)), *row, np.log(error)])
    return np.array(rows)


def deltas(frames: np.ndarray, order: int, window: int) -> np.ndarray:
    """Each delta of an utterance whose ends are repeated far enough that no edge of a lower delta is seen."""
    reach = order * window
    padded = np.concatenate([frames[:1].repeat(reach, 0), frames, frames[-1:].repeat(reach, 0)])
    parts, current = [frames], padded
    for k in range(1, order + 1):
        slope = np.zeros((len(current) - 2 * window, frames.shape[1]))
        for t in range(len(slope)):
            for j in range(-window, window + 1):
                slope[t] += j * current[t + window + j]
        current = slope / (2 * sum(j * j for j in range(1, window + 1)))
        cut = (len(current) - len(frames)) // 2
        parts.append(current[cut : cut + len(frames)])
        assert cut == reach - k * window
    return np.concatenate(parts, axis=1)
