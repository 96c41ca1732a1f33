"""The engine: the same sound for the same arguments, and times that agree with it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from bochner.speech.synthesis.espeak import RATE, speak, time_phones

SENTENCE = "[[D|@]] [[k|w|'I|k]] [[b|r|'aU|n]] [[d|'A:|g]], [[p|'i:|p|@|l]] [['O:|l]]"


@pytest.mark.parametrize("variant", ["m3", "f1", "klatt4", "zac"])
def test_what_was_said_before_does_not_matter(variant):
    first = speak(SENTENCE, voice=f"en-us+{variant}", speed=160, pitch=40)
    speak("[[h|@|l|'oU]]", voice="en-us+f1")
    again = speak(SENTENCE, voice=f"en-us+{variant}", speed=160, pitch=40)
    assert np.array_equal(first.samples, again.samples)
    assert first.events == again.events


def test_arguments_are_heard():
    plain = speak(SENTENCE, voice="en-us")
    for changed in ({"speed": 250}, {"pitch": 90}, {"pitch_range": 5}, {"voice": "en-us+f1"}):
        assert not np.array_equal(speak(SENTENCE, **{"voice": "en-us", **changed}).samples, plain.samples)
    assert len(speak(SENTENCE, voice="en-us", speed=250).samples) < 0.9 * len(plain.samples)


def test_unknown_voices_are_named():
    with pytest.raises(ValueError, match="got 'klingon-xx'"):
        speak("a", voice="klingon-xx")


def level(spoken, start, end):
    piece = spoken.samples[round(start * RATE) : round(end * RATE)].astype(float)
    return np.sqrt(np.mean(piece**2))


def test_words_and_phones_are_those_asked_for_and_touch():
    words = time_phones(speak(SENTENCE, voice="en-us"))
    said = [" ".join(phone.label for phone in word) for word in words]
    assert said == ["D @", "k w I k", "b r aU n", "d A: g", "p i: p @ l", "O: l"]
    for word in words:
        assert all(a.end == b.start for a, b in pairwise(word))
    phones = [phone for word in words for phone in word]
    assert all(a.end <= b.start for a, b in pairwise(phones))
    assert words[4][0].start - words[3][-1].end > 0.1  # the comma


def test_a_closure_belongs_to_its_stop():
    """The p in people: silent first, then its burst; the vowel before it sounds to its end."""
    spoken = speak(SENTENCE, voice="en-us")
    vowel, stop = time_phones(spoken)[4][1:3]
    assert level(spoken, vowel.end - 0.01, vowel.end) > 500
    assert level(spoken, stop.start, stop.start + 0.03) < 50
    assert level(spoken, stop.end - 0.02, stop.end) > 300


def test_after_a_pause_a_stop_begins_with_its_burst():
    """The p in people again, the first: what is silent before it cannot be told from the pause."""
    spoken = speak(SENTENCE, voice="en-us")
    stop = time_phones(spoken)[4][0]
    assert level(spoken, stop.start - 0.02, stop.start) < 50
    assert level(spoken, stop.start, stop.start + 0.01) > 300


def test_a_liquid_after_a_vowel_has_its_share_of_the_sound():
    """The engine announces the l of all when it is over."""
    spoken = speak(SENTENCE, voice="en-us")
    vowel, liquid = time_phones(spoken)[5]
    assert liquid.end - liquid.start > 0.03
    assert vowel.end - vowel.start > 0.03
    assert level(spoken, liquid.start, liquid.start + 0.02) > 500
