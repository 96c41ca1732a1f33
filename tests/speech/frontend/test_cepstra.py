"""Filterbanks, MFCC and PLP compared with their formulas, and errors."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from bochner.speech.frontend import Fbank, Framing, Mfcc, Plp
from tests.speech.frontend import oracles


def babble(rate: int, seconds: float = 0.2) -> np.ndarray:
    """A signal with harmonics, noise and a changing level, as 16-bit numbers."""
    generator = np.random.default_rng(0)
    t = np.arange(round(rate * seconds)) / rate
    voice = sum(np.sin(2 * np.pi * 120 * k * t * (1 + 0.2 * t)) / k for k in range(1, 20))
    sound = (voice + 0.3 * generator.standard_normal(len(t))) * (0.2 + np.sin(7 * t) ** 2)
    return (sound / np.abs(sound).max() * 12000).astype(np.int16)


@pytest.mark.parametrize(("rate", "num_bins"), [(16000, 23), (8000, 15), (11025, 40)])
def test_filterbank(rate: int, num_bins: int) -> None:
    expected = oracles.fbank(babble(rate).astype(float), rate, num_bins)
    found = Fbank(rate=rate, num_bins=num_bins)(babble(rate))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize(("rate", "num_bins", "num_cepstra"), [(16000, 23, 13), (8000, 15, 10)])
def test_mfcc(rate: int, num_bins: int, num_cepstra: int) -> None:
    expected = oracles.mfcc(babble(rate).astype(float), rate, num_bins, num_cepstra)
    found = Mfcc(rate=rate, num_bins=num_bins, num_cepstra=num_cepstra)(babble(rate))
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize(("rate", "num_bins", "order", "num_cepstra"), [(16000, 23, 12, 13), (8000, 15, 10, 8)])
def test_plp(rate: int, num_bins: int, order: int, num_cepstra: int) -> None:
    expected = oracles.plp(babble(rate).astype(float), rate, num_bins, order, num_cepstra)
    plp = Plp(rate=rate, num_bins=num_bins, order=order, num_cepstra=num_cepstra)
    np.testing.assert_allclose(plp(babble(rate)), expected[:, :-1], atol=1e-3)
    without_energy = dataclasses.replace(plp, energy=False)(babble(rate))
    np.testing.assert_allclose(without_energy[:, 0], expected[:, -1], atol=1e-3)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_kaldis_own_numbers(place: int) -> None:
    """What compute-plp-feats and compute-mfcc-feats of Kaldi 5.5 print for a tone swept from 300 to 3300 Hz.

    The printed values are test data of kaldifeat (`test-plp.txt`, `test-mfcc.txt`: --dither=0, all else by default);
    the samples are `sox -n -r 16000 -b 16 test.wav synth 1.2 sine 300-3300`, whose noise the values fix. Most bands
    hold that noise alone, 90 dB under the tone: there Kaldi's float32 is 3e-2 from float64 in an MFCC of 100.
    """
    # The wav was rebuilt: the seed of its dither noise is the one, of 23 million, that fits row 0 of the MFCCs.
    stretch = json.loads((Path(__file__).parent / "kaldi_sweep.json").read_text())[place]
    samples = np.array(stretch["samples"], np.int16)
    np.testing.assert_allclose(Plp()(samples), stretch["plp"], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(Mfcc()(samples), stretch["mfcc"], rtol=1e-3, atol=4e-2 if place == 2 else 5e-3)


def test_energy_stands_first_in_a_filterbank() -> None:
    both = Fbank(energy=True)(babble(16000))
    np.testing.assert_array_equal(both[:, 1:], Fbank()(babble(16000)))
    np.testing.assert_array_equal(both[:, 0], Mfcc()(babble(16000))[:, 0])


def test_the_first_cepstrum_without_energy_is_c0() -> None:
    c0 = Mfcc(energy=False)(babble(16000))[:, 0]
    np.testing.assert_allclose(c0, Fbank()(babble(16000)).sum(1) / np.sqrt(23), rtol=1e-4)


@pytest.mark.parametrize("frontend", [Mfcc(), Fbank(), Plp()])
def test_floats_and_integers_are_the_same_sound(frontend: Framing) -> None:
    np.testing.assert_array_equal(frontend(babble(16000)), frontend(babble(16000) / 32768))


@pytest.mark.parametrize("frontend", [Mfcc(lifter=0.0), Plp(lifter=0.0)])
def test_lifter(frontend: Mfcc | Plp) -> None:
    k = np.arange(13)
    expected = frontend(babble(16000)) * np.where(k, 1 + 11 * np.sin(np.pi * k / 22), 1)
    np.testing.assert_allclose(dataclasses.replace(frontend, lifter=22.0)(babble(16000)), expected, atol=1e-3)


@pytest.mark.parametrize("kind", [Mfcc, Fbank, Plp])
def test_frames_in_time(kind: type[Mfcc]) -> None:
    sound = babble(16000)  # 3200 samples
    assert kind()(sound).shape == (1 + (3200 - 400) // 160, kind().dim)
    assert len(kind(frame_shift=0.005)(sound)) == 1 + (3200 - 400) // 80
    assert len(kind(frame_length=0.020)(sound)) == 1 + (3200 - 320) // 160
    assert len(kind(snip_edges=False)(sound)) == 20
    assert kind(rate=8000)(sound).shape == (1 + (3200 - 200) // 80, kind().dim)


@pytest.mark.parametrize("kind", [Mfcc, Fbank, Plp])
def test_digital_silence_is_finite(kind: type[Mfcc]) -> None:
    assert np.isfinite(kind()(np.zeros(4000))).all()


@pytest.mark.parametrize("kind", [Mfcc, Fbank, Plp])
def test_dither_is_a_function_of_its_seed(kind: type[Mfcc]) -> None:
    silence = np.zeros(4000)
    first = kind(dither=1.0, seed=3)(silence)
    np.testing.assert_array_equal(first, kind(dither=1.0, seed=3)(silence))
    assert not np.allclose(first, kind(dither=1.0, seed=4)(silence))
    assert np.ptp(first[:, 1]) > 0 == np.ptp(kind()(silence)[:, 1])


def test_dither_has_the_size_it_is_given() -> None:
    energy = Mfcc(dither=2.0)(np.zeros(160_000))[:, 0]
    assert np.exp(energy).mean() / 400 == pytest.approx(4.0, rel=0.02)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (np.zeros(399), "must last for one frame, 400 samples at 16000 Hz, got 399"),
        (np.zeros(0), "must last for one frame"),
        (np.zeros((4000, 2)), r"one channel, got \[4000, 2\]"),
        (np.full(4000, np.nan), "must be finite"),
        (np.zeros(4000, np.int32), "must be floats in .* or int16, got int32"),
    ],
)
@pytest.mark.parametrize("frontend", [Mfcc(), Fbank(), Plp()])
def test_samples_that_are_refused(frontend: Framing, samples: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        frontend(samples)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 0}, "rate must be an integer of at least 1"),
        ({"frame_shift": 0.0}, "frame_shift must be a positive"),
        ({"frame_length": -1.0}, "frame_length must be a positive"),
        ({"num_bins": 2}, "num_bins must be at least 3"),
        ({"low": 9000.0}, "low and high must satisfy"),
        ({"high": 9000.0}, "low and high must satisfy"),
        ({"dither": -1.0}, "dither must be a non-negative"),
        ({"seed": -1}, "seed must be an integer of at least 0"),
    ],
)
@pytest.mark.parametrize("kind", [Mfcc, Fbank, Plp])
def test_options_that_are_refused(kind: type[Framing], options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(**options)


def test_too_many_cepstra() -> None:
    with pytest.raises(ValueError, match="at most num_bins, 10, got 13"):
        Mfcc(num_bins=10)
    with pytest.raises(ValueError, match=r"at most order \+ 1 = 9, got 13"):
        Plp(order=8)


def test_options_name_the_front_end() -> None:
    assert Plp(rate=8000).options()["name"] == "plp"
    assert Plp(**{k: v for k, v in Plp(rate=8000, order=14).options().items() if k != "name"}) == Plp(
        rate=8000, order=14
    )
