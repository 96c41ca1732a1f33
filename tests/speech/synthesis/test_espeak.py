"""The engine: samples, events, and the times of phones."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from bochner.speech.synthesis.espeak import RATE, _cut, speak, time_phones, vowel_onset

SENTENCE = "[[D|@]] [[k|w|'I|k]] [[b|r|'aU|n]] [[d|'A:|g]], [[p|'i:|p|@|l]] [['O:|l]]"


@pytest.mark.parametrize("variant", ["m3", "f1", "klatt4", "zac"])
def test_previous_text_does_not_matter(variant):
    first = speak(SENTENCE, voice=f"en-us+{variant}", speed=160, pitch=40)
    speak("[[h|@|l|'oU]]", voice="en-us+f1")
    again = speak(SENTENCE, voice=f"en-us+{variant}", speed=160, pitch=40)
    assert np.array_equal(first.samples, again.samples)
    assert first.events == again.events


def test_arguments_have_an_effect():
    plain = speak(SENTENCE, voice="en-us")
    for changed in ({"speed": 250}, {"pitch": 90}, {"pitch_range": 5}, {"voice": "en-us+f1"}):
        assert not np.array_equal(speak(SENTENCE, **{"voice": "en-us", **changed}).samples, plain.samples)
    assert len(speak(SENTENCE, voice="en-us", speed=250).samples) < 0.9 * len(plain.samples)


def test_unknown_voices_are_named():
    with pytest.raises(ValueError, match="got 'klingon-xx'"):
        speak("a", voice="klingon-xx")


def level(speech, start, end):
    piece = speech.samples[round(start * RATE) : round(end * RATE)].astype(float)
    return np.sqrt(np.mean(piece**2))


def test_words_and_phones_are_those_asked_for_and_touch():
    words = time_phones(speak(SENTENCE, voice="en-us"))
    labels = [" ".join(phone.label for phone in word) for word in words]
    assert labels == ["D @", "k w I k", "b r aU n", "d A: g", "p i: p @ l", "O: l"]
    for word in words:
        assert all(a.end == b.start for a, b in pairwise(word))
    phones = [phone for word in words for phone in word]
    assert all(a.end <= b.start for a, b in pairwise(phones))
    assert words[4][0].start - words[3][-1].end > 0.1  # the comma


def test_a_closure_belongs_to_its_stop():
    """The p in people: silent first, then its burst; the vowel before it sounds to its end."""
    speech = speak(SENTENCE, voice="en-us")
    vowel, stop = time_phones(speech)[4][1:3]
    assert level(speech, vowel.end - 0.01, vowel.end) > 500
    assert level(speech, stop.start, stop.start + 0.03) < 50
    assert level(speech, stop.end - 0.02, stop.end) > 300


def test_after_a_pause_a_stop_begins_with_its_burst():
    """The p in people again, the first: what is silent before it cannot be told from the pause."""
    speech = speak(SENTENCE, voice="en-us")
    stop = time_phones(speech)[4][0]
    assert level(speech, stop.start - 0.02, stop.start) < 50
    assert level(speech, stop.start, stop.start + 0.01) > 300


def test_a_liquid_after_a_vowel_has_its_share_of_the_sound():
    """The engine reports the l of "all" only when it has ended."""
    speech = speak(SENTENCE, voice="en-us")
    vowel, liquid = time_phones(speech)[5]
    assert liquid.end - liquid.start > 0.03
    assert vowel.end - vowel.start > 0.03
    assert level(speech, liquid.start, liquid.start + 0.02) > 500


def naive_cut(rows, last):
    """The least-squares split, by trying all."""
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
    speech = speak("[[m|'A:|m|'A:|t]]", voice=f"en-us+{variant}")
    second, vowel = time_phones(speech)[0][2:4]
    announced = [event.sample / RATE for event in speech.events if event.label == "'A:"][1]
    assert 0.01 < announced - vowel.start < 0.06
    assert decibels(speech, vowel.start + 0.01) > decibels(speech, vowel.start - 0.02) + 4.0
    assert abs(decibels(speech, vowel.start - 0.02) - decibels(speech, (second.start + vowel.start) / 2)) < 2.0


def decibels(speech, middle):
    piece = speech.samples[round((middle - 0.01) * RATE) : round((middle + 0.01) * RATE)].astype(float)
    return 10 * np.log10(np.mean(piece**2))


def test_too_little_sound_leaves_the_event():
    assert vowel_onset(np.zeros(2000, np.int16), start=1000, event=1050) == 1050
