"""Synthetic speech with phone times, by the espeak-ng library inside `espeakng-loader` (GPL-3, an optional extra).

The library is called through its C interface. It is all global state, and some of it (the flutter of the voice) even
survives its own termination; so every call loads it anew, which takes under a millisecond and makes the sound depend
on the arguments alone: not on what was said before, nor on how many processes share the work.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.checks import positive_int
from bochner.speech.extra import imported

RATE = 22050  # samples per second of every voice used here

_SYNCHRONOUS, _PHONEME_EVENTS = 2, 1
_UTF8, _PHONEMES = 0x1, 0x100  # flags: the text's encoding, and [[phonemes]] inside it
_WORD, _PHONEME = 1, 7  # types of events
_SPEED, _PITCH, _PITCH_RANGE = 1, 3, 4  # parameters
_engine = threading.Lock()  # one loaded library in a process


class Event(NamedTuple):
    """A word or a phone begins: `label` is the phone in espeak's own notation, or "" where a word begins."""

    label: str
    sample: int


class Spoken(NamedTuple):
    """Sound at 22,050 Hz, int16 [samples], and its events in the order of time."""

    samples: NDArray[np.int16]
    events: list[Event]


class _Identity(ctypes.Union):
    _fields_ = (("number", ctypes.c_int), ("name", ctypes.c_char_p), ("string", ctypes.c_char * 8))


class _CEvent(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", _Identity),
    )


_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_CEvent))


def speak(text: str, *, voice: str, speed: int = 175, pitch: int = 50, pitch_range: int = 50) -> Spoken:
    """Say `text`: words, or phones in espeak's notation inside [[ ]].

    `voice` is a language with a variant ("en-us+f2"), `speed` is in words per minute, `pitch` and `pitch_range` go
    from 0 to 99. The same arguments give the same samples, but for variants with breath (whisper, f2 and others): their
    noise depends on memory that the library does not set.

    >>> spoken = speak("[[k|'a|t]]", voice="en-us")
    >>> [event.label for event in spoken.events]
    ['', 'k', "'a", 't', '_:', '_']
    """
    positive_int("speed", speed)
    pieces: list[NDArray[np.int16]] = []
    events: list[Event] = []

    def receive(wave: Any, count: int, stream: Any) -> int:
        if wave and count > 0:
            pieces.append(np.ctypeslib.as_array(wave, shape=(count,)).copy())
        events.extend(_wanted(stream))
        return 0

    with _engine, _loaded(_Callback(receive)) as library:
        if library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise ValueError(f"voice must be one that espeak-ng has, such as 'en-us+f2', got {voice!r}.")
        for parameter, value in ((_SPEED, speed), (_PITCH, pitch), (_PITCH_RANGE, pitch_range)):
            library.espeak_SetParameter(parameter, value, 0)
        _say(library, text.encode())
    return Spoken(np.concatenate(pieces) if pieces else np.zeros(0, np.int16), events)


def _wanted(stream: Any) -> Iterator[Event]:
    place = 0
    while stream[place].type != 0:
        event = stream[place]
        if event.type == _WORD:
            yield Event("", event.sample)
        elif event.type == _PHONEME:
            yield Event(event.id.string.decode(), event.sample)
        place += 1


@contextmanager
def _loaded(receive: Any) -> Iterator[ctypes.CDLL]:
    import _ctypes

    loader = imported("espeakng_loader", extra="synthesis")
    library = ctypes.CDLL(loader.get_library_path())
    library.espeak_Initialize.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_int]
    library.espeak_SetVoiceByName.argtypes = [ctypes.c_char_p]
    try:
        rate = library.espeak_Initialize(_SYNCHRONOUS, 0, loader.get_data_path().encode(), _PHONEME_EVENTS)
        if rate != RATE:
            raise RuntimeError(
                f"espeak-ng must start at {RATE} samples per second, got {rate}; reinstall espeakng-loader."
            )
        library.espeak_SetSynthCallback(receive)
        yield library
        library.espeak_Terminate()
    finally:
        _ctypes.dlclose(library._handle)


def _say(library: ctypes.CDLL, text: bytes) -> None:
    library.espeak_Synth.argtypes = [
        ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_int, ctypes.c_uint, ctypes.c_uint,
        ctypes.c_void_p, ctypes.c_void_p,
    ]  # fmt: skip
    status = library.espeak_Synth(text, len(text) + 1, 0, 1, 0, _UTF8 | _PHONEMES, None, None)
    if status != 0:
        raise RuntimeError(f"espeak-ng failed with status {status}.")
