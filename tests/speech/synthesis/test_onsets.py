"""Vowels after nasals and liquids begin where the sound changes, before the engine says so."""

from __future__ import annotations

import numpy as np
import pytest

from bochner.speech.synthesis.espeak import RATE, _cut, speak, time_phones, vowel_onset


def naive_cut(rows, last):
    """The split of least squares, by trying each."""
    spread = [((p - p.mean(axis=0)) ** 2).sum() for k in range(1, last + 1) for p in (rows[:k], rows[k:])]
    return 1 + int(np.argmin(np.add.reduceat(spread, range(0, len(spread), 2))))


@pytest.mark.parametrize("seed", range(5))
def test_the_cut_is_that_of_least_squares(seed):
    generator = np.random.default_rng(seed)
    rows = generator.standard_normal((20, 4)) + np.where(np.arange(20) < 7, 0.0, 0.8)[:, None]
    for last in (3, 12, 19):
        assert _cut(rows, last) == naive_cut(rows, last)


@pytest.mark.parametrize("variant", ["m3", "f1", "Andy"])
def test_a_murmur_ends_where_the_vowel_begins(variant):
    """Of m and a: the murmur is even and weak to its end, and 10 ms later the vowel is 4 dB louder at least."""
    spoken = speak("[[m|'A:|m|'A:|t]]", voice=f"en-us+{variant}")
    second, vowel = time_phones(spoken)[0][2:4]
    said = [event.sample / RATE for event in spoken.events if event.label == "'A:"][1]
    assert 0.01 < said - vowel.start < 0.06
    assert decibels(spoken, vowel.start + 0.01) > decibels(spoken, vowel.start - 0.02) + 4.0
    assert abs(decibels(spoken, vowel.start - 0.02) - decibels(spoken, (second.start + vowel.start) / 2)) < 2.0


def decibels(spoken, middle):
    piece = spoken.samples[round((middle - 0.01) * RATE) : round((middle + 0.01) * RATE)].astype(float)
    return 10 * np.log10(np.mean(piece**2))


def test_too_little_sound_leaves_the_event():
    assert vowel_onset(np.zeros(2000, np.int16), start=1000, event=1050) == 1050
