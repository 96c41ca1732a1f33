"""Pitch: correlations and paths against naive oracles, tones of known frequency, noise, and the front end."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

pytest.importorskip("kaldi_native_fbank")

from bochner.speech.frontend.cepstra import Mfcc, Plp
from bochner.speech.frontend.pitch import RATE, PitchTracker, Track, pitch_features, voicing_probability

COARSE = PitchTracker(low=100.0, high=200.0, step=0.2)  # four lags


def tone(frequency: np.ndarray, *, rate: int) -> np.ndarray:
    """Six harmonics of a fundamental [n] in Hz."""
    phase = 2 * np.pi * np.cumsum(frequency) / rate
    return sum(np.sin(k * phase) / k for k in range(1, 7)).astype(np.float32) / 10


@pytest.mark.parametrize("frequency", [70.0, 123.4, 220.0, 370.0])
@pytest.mark.parametrize("rate", [8000, 16000])
def test_pitch_of_a_tone(frequency: float, rate: int) -> None:
    track = PitchTracker()(tone(np.full(rate, frequency), rate=rate), rate=rate, num_frames=96)
    inner = slice(5, 85)
    np.testing.assert_allclose(track.pitch[inner], frequency, rtol=0.01)
    assert track.correlation[inner].min() > 0.95
    assert voicing_probability(track.correlation[inner]).min() > 0.7


def test_pitch_of_a_glide_in_noise() -> None:
    rate = 8000
    frequency = np.geomspace(100, 200, 2 * rate)
    samples = tone(frequency, rate=rate) + 0.02 * np.random.default_rng(0).standard_normal(2 * rate)
    track = PitchTracker()(samples, rate=rate, num_frames=196)
    centres = np.minimum((np.arange(196) * 0.01 + 0.018) * rate, 2 * rate - 1).astype(int)
    np.testing.assert_allclose(track.pitch[5:185], frequency[centres][5:185], rtol=0.04)
    slopes = pitch_features(track)[20:170, 2] / 10
    assert np.median(slopes) == pytest.approx(np.log(2) / 200, rel=0.1)


def test_noise_is_not_voiced() -> None:
    noise = np.random.default_rng(0).standard_normal(16000)
    track = PitchTracker()(noise, rate=16000, num_frames=96)
    assert np.median(voicing_probability(track.correlation)) < 0.2


def test_correlations_of_a_naive_loop() -> None:
    signal = np.random.default_rng(1).standard_normal(600)
    tracker = PitchTracker()
    products, norms = tracker._products(signal, range(3), 7, 20)
    size = round(0.025 * RATE)
    for t, lag in product(range(3), range(20)):
        piece = signal[40 * t : 40 * t + size + 7 + 19]
        piece = piece - piece.mean()
        own, other = piece[:size], piece[7 + lag : 7 + lag + size]
        assert products[t, lag] == pytest.approx(own @ other)
        assert norms[t, lag] == pytest.approx((own @ own) * (other @ other))


def test_the_path_is_the_cheapest() -> None:
    """Against all paths of five frames through four lags."""
    samples = 0.1 * np.random.default_rng(2).standard_normal(RATE).astype(np.float32)
    track = COARSE(samples, rate=RATE, num_frames=5)
    first, matrix = COARSE._interpolation
    products, norms = COARSE._products(samples.astype(float), range(5), first, len(matrix))
    energy = np.mean((samples - samples.mean()) ** 2) * 100
    phi = products / np.sqrt(norms + 7000 * energy**2) @ matrix
    lags = COARSE.lags

    def cost(path: tuple[int, ...]) -> float:
        local = sum(1 - phi[t, i] * (1 - 10 * lags[i]) for t, i in enumerate(path))
        return local + sum(0.1 * np.log(lags[i] / lags[j]) ** 2 for i, j in pairwise(path))

    best = min(product(range(len(lags)), repeat=5), key=cost)
    np.testing.assert_allclose(track.pitch, 1 / lags[list(best)])


def test_features_do_not_depend_on_the_register() -> None:
    generator = np.random.default_rng(3)
    pitch, correlation = np.exp(0.1 * generator.standard_normal(50).cumsum()), generator.uniform(0.5, 1, 50)
    low, high = (pitch_features(Track(base * pitch, correlation)) for base in (80.0, 220.0))
    np.testing.assert_allclose(low, high, atol=1e-4)


@pytest.mark.parametrize("front_end", [Mfcc, Plp])
def test_a_front_end_with_pitch(front_end: type[Mfcc] | type[Plp]) -> None:
    samples = tone(np.full(8000, 150.0), rate=8000)
    plain, more = front_end(rate=8000), front_end(rate=8000, pitch=True)
    assert more.dim == 16
    frames = more(samples)
    np.testing.assert_array_equal(frames[:, :13], plain(samples))
    expected = pitch_features(PitchTracker()(samples, rate=8000, num_frames=98))
    np.testing.assert_array_equal(frames[:, 13:], expected)
    np.testing.assert_array_equal(frames, more.of_blocks(np.array_split(samples, 3)))
    np.testing.assert_allclose(frames[:, 13:], more((32768 * samples).astype(np.int16))[:, 13:], atol=0.05)
    with pytest.raises(ValueError, match="pitch"):
        next(more.stream([samples]))


def test_high_must_be_above_low() -> None:
    with pytest.raises(ValueError, match="high must lie between low, 50, and 1000 Hz, got 40"):
        PitchTracker(high=40.0)


def test_the_defaults_are_those_of_kaldi() -> None:
    """As in its PitchExtractionOptions."""
    assert PitchTracker() == PitchTracker(
        frame_length=0.025, frame_shift=0.01, low=50.0, high=400.0, step=0.005, penalty=0.1, soft_min=10.0,
        ballast=7000.0,
    )  # fmt: skip
