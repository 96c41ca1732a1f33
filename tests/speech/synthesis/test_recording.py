"""Effects compared with their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from bochner.speech.synthesis.recording import add_noise, coloured_noise, mu_law, reverberate, room_response, telephone
from tests.speech.made import tone


def spectrum(samples: np.ndarray, rate: int = 16000) -> tuple[np.ndarray, np.ndarray]:
    pieces = samples[: len(samples) // 512 * 512].reshape(-1, 512) * np.hanning(512)
    return np.fft.rfftfreq(512, 1 / rate), np.mean(np.abs(np.fft.rfft(pieces)) ** 2, axis=0)


@pytest.mark.parametrize("slope", [0.0, 1.0, 2.0])
def test_noise_has_its_colour_and_unit_power(slope):
    noise = coloured_noise(200_000, slope=slope, generator=np.random.default_rng(0))
    frequency, power = spectrum(noise)
    band = (frequency > 300) & (frequency < 6000)
    fitted = np.polyfit(np.log(frequency[band]), np.log(power[band]), 1)[0]
    assert fitted == pytest.approx(-slope, abs=0.1)
    assert np.mean(noise.astype(float) ** 2) == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize("snr", [-5.0, 0.0, 20.0])
def test_noise_is_added_at_the_ratio_asked_for(snr):
    speech, noise = tone(2.0), coloured_noise(32000, slope=1.0, generator=np.random.default_rng(1))
    rest = add_noise(speech, 7 * noise, snr=snr).astype(float) - speech
    assert 10 * np.log10(np.mean(speech.astype(float) ** 2) / np.mean(rest**2)) == pytest.approx(snr, abs=0.01)


def test_noise_of_another_length_is_refused():
    with pytest.raises(ValueError, match="noise must have the 8000 samples"):
        add_noise(tone(), tone()[1:], snr=0.0)


def test_a_room_decays_by_sixty_decibels():
    response = room_response(rate=16000, reverberation=0.4, direct_ratio=6.0, generator=np.random.default_rng(0))
    assert response[0] == 1.0
    assert not response[1:80].any()  # no echo within 5 ms
    tail = response[1:].astype(float) ** 2
    assert 10 * np.log10(1 / tail.sum()) == pytest.approx(6.0, abs=0.01)
    early, late = tail[100:900].mean(), tail[3300:4100].mean()  # 0.2 s apart: 30 dB
    assert 10 * np.log10(early / late) == pytest.approx(30, abs=1.5)


def test_rooms_and_telephones_do_not_move_the_speech():
    click = np.zeros(8000, dtype=np.float32)
    click[3000] = 0.5
    response = room_response(rate=16000, reverberation=0.3, direct_ratio=6.0, generator=np.random.default_rng(0))
    for recorded in (reverberate(click, response), telephone(click, rate=16000), telephone(click, rate=8000)):
        assert len(recorded) == len(click)
        assert np.argmax(np.abs(recorded)) == 3000


@pytest.mark.parametrize("rate", [8000, 16000])
def test_a_telephone_passes_its_band_alone(rate):
    time = np.arange(2 * rate) / rate
    for frequency, low, high in ((100, 0, 0.06), (1000, 0.9, 1.1), (3000, 0.9, 1.1), (3900, 0, 0.06)):
        sent = (0.5 * np.sin(2 * np.pi * frequency * time)).astype(np.float32)
        gain = telephone(sent, rate=rate)[500:-500].std() / sent.std()
        assert low <= gain <= high, frequency


def test_mu_law_has_its_levels_and_its_error():
    samples = np.linspace(-1, 1, 100_001, dtype=np.float32)
    coded = mu_law(samples)
    assert len(np.unique(coded)) == 255
    assert np.all(np.abs(coded - samples) <= 0.025 * np.abs(samples) + 1e-4)
    assert np.abs(coded - samples).max() > 0.01
