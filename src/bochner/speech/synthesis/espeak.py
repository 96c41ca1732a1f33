"""Speech by espeak-ng with the times of its phones: the engine's events, corrected by the samples.

The engine reports a phone after the short pause before it, which would assign the closure of a stop to the vowel
before; it reports a vowel after a nasal or liquid only after the vowel has started (see `Generate` in its
synthesize.c); and it renders an l or r after a vowel together with the vowel and reports it when it is over. The
samples show all three, since pauses of the engine are silent up to the last bit or two.

After silence a phone begins with its sound, since a closure cannot be distinguished from the silence before it; the
hand labels of TIMIT follow the same rule.
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
from bochner.speech.frames import Array
from bochner.speech.manifest import Segment
from bochner.speech.runtime import imported

RATE = 22050  # samples per second of every voice used here

_SYNCHRONOUS, _PHONEME_EVENTS = 2, 1
_UTF8, _PHONEMES = 0x1, 0x100  # flags: the text's encoding, and [[phonemes]] inside it
_WORD, _PHONEME = 1, 7  # types of events
_SPEED, _PITCH, _PITCH_RANGE = 1, 3, 4  # parameters
_engine = threading.Lock()  # one loaded library in a process
STEP = int(0.0025 * RATE)
WINDOW = int(0.02 * RATE)  # longer than a period of the lowest voice, to average over its pulses
BODY = int(0.03 * RATE)  # of the vowel after the event, for its spectrum
EDGES = (0, 3, 6, 10, 14, 19, 25, 32, 41, 52, 66, 83, 104, 130)  # bands in bins of 43 Hz, narrow below, wide above
FLOOR = 10.0  # keeps the logarithm of silence finite; energies of speech are 1e8 and more
QUIET = 50  # of 32768: below every phone, above the residue in a pause
MAX_CLOSURE = int(0.08 * RATE)
MIN_PHONE = int(0.01 * RATE)
FUSED_SHARE = 0.4  # the liquid's share of the duration of vowel and liquid
STRESS = "',%="  # marks before a phone
SONORANTS = tuple("mnNlrwj")  # first letters of the engine's nasals and liquids
VOWELS = tuple("aAeEiIoOuUyYVQ@03&")


class Event(NamedTuple):
    """The beginning of a phone, `label` in espeak's notation, or of a word (label "")."""

    label: str
    sample: int


class EngineOutput(NamedTuple):
    """Samples at 22,050 Hz, int16 [samples], and their events in temporal order."""

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


def speak(text: str, *, voice: str, speed: int = 175, pitch: int = 50, pitch_range: int = 50) -> EngineOutput:
    """Synthesize `text`: words, or phones in espeak's notation inside [[ ]].

    `voice` is a language with a variant ("en-us+f2"), `speed` is in words per minute, `pitch` and `pitch_range` range
    from 0 to 99. The same arguments give the same samples, except for variants with breath (whisper, f2 and others),
    whose noise depends on uninitialised memory of the library.

    >>> output = speak("[[k|'a|t]]", voice="en-us")
    >>> [event.label for event in output.events]
    ['', 'k', "'a", 't', '_:', '_']
    """
    positive_int("speed", speed)
    pieces: list[NDArray[np.int16]] = []
    events: list[Event] = []

    def receive(wave: Any, count: int, stream: Any) -> int:
        if wave and count > 0:
            pieces.append(np.ctypeslib.as_array(wave, shape=(count,)).copy())
        events.extend(_words_and_phones(stream))
        return 0

    with _engine, _loaded(_Callback(receive)) as library:
        if library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise ValueError(f"voice must be one that espeak-ng has, such as 'en-us+f2', got {voice!r}.")
        for parameter, value in ((_SPEED, speed), (_PITCH, pitch), (_PITCH_RANGE, pitch_range)):
            library.espeak_SetParameter(parameter, value, 0)
        _synthesize(library, text.encode())
    return EngineOutput(np.concatenate(pieces) if pieces else np.zeros(0, np.int16), events)


def _words_and_phones(stream: Any) -> Iterator[Event]:
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


def _synthesize(library: ctypes.CDLL, text: bytes) -> None:
    library.espeak_Synth.argtypes = [
        ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_int, ctypes.c_uint, ctypes.c_uint,
        ctypes.c_void_p, ctypes.c_void_p,
    ]  # fmt: skip
    status = library.espeak_Synth(text, len(text) + 1, 0, 1, 0, _UTF8 | _PHONEMES, None, None)
    if status != 0:
        raise RuntimeError(f"espeak-ng failed with status {status}.")


def vowel_onset(samples: NDArray[np.int16], *, start: int, event: int) -> int:
    """The sample in [start, event] at which a vowel begins, after a nasal or liquid that begins at `start`.

    The log energies x_t in 13 bands, one row every 2.5 ms from `start` to 30 ms after the event, are split into the
    two segments of least variance: k minimises sum_{t<k} |x_t - mean_{<k}|^2 + sum_{t>=k} |x_t - mean_{>=k}|^2.
    For a nasal this is the end of the murmur, for a glide the middle of its movement. Cost O(n) for n rows.

    >>> from bochner.speech.synthesis.espeak import speak
    >>> output = speak("[[m|'A:|t]]", voice="en-us+m3")
    >>> m, vowel = [event.sample for event in output.events if event.label in ("m", "'A:")]
    >>> 0.01 < (vowel - vowel_onset(output.samples, start=m, event=vowel)) / RATE < 0.04
    True
    """
    centres = np.arange(start + WINDOW // 2, min(event + BODY, len(samples) - WINDOW // 2), STEP)
    last = int(np.searchsorted(centres, event, side="right"))  # rows centred before the event
    if last < 2:
        return event
    return int(centres[_cut(_log_bands(samples, centres), last)])


def _log_bands(samples: NDArray[np.int16], centres: Array) -> Array:
    windows = samples[centres[:, None] + np.arange(-(WINDOW // 2), WINDOW - WINDOW // 2)] * np.hanning(WINDOW)
    power = np.abs(np.fft.rfft(windows, n=512)[:, : EDGES[-1]]) ** 2
    return np.log(np.add.reduceat(power, EDGES[:-1], axis=1) + FLOOR)


def _cut(rows: Array, last: int) -> int:
    """The row k in 1..last at which the second segment begins."""
    counts = np.arange(1, min(last, len(rows) - 1) + 1)
    sums, total = np.cumsum(rows, axis=0)[counts - 1], rows.sum(axis=0)
    explained = (sums**2).sum(axis=1) / counts + ((total - sums) ** 2).sum(axis=1) / (len(rows) - counts)
    return int(counts[np.argmax(explained)])


def time_phones(output: EngineOutput) -> tuple[tuple[Segment, ...], ...]:
    """The phones of each word, in the engine's notation without stress, with start and end in seconds.

    Within a word they are contiguous; between words there may be silence.

    >>> from bochner.speech.synthesis.espeak import speak
    >>> [[phone.label for phone in word] for word in time_phones(speak("[[k|'a|t]] [[s|'A:|t]]", voice="en-us"))]
    [['k', 'a', 't'], ['s', 'A:', 't']]
    """
    phones = [event for event in output.events if event.label]
    starts = _starts(phones, output.samples)
    ends = [*starts[1:], len(output.samples)]
    words: list[list[Segment]] = []
    place = 0
    for event in output.events:
        if not event.label:
            words.append([])
            continue
        start, end, place = starts[place], ends[place], place + 1
        if not event.label.startswith("_") and words:
            words[-1].append(Segment(event.label.lstrip(STRESS), start / RATE, end / RATE))
    return tuple(tuple(word) for word in words)


def _starts(phones: list[Event], samples: NDArray[np.int16]) -> list[int]:
    """The sample where each phone begins, pauses included."""
    loud = np.abs(samples.astype(np.int32)) >= QUIET
    starts: list[int] = []
    for place, phone in enumerate(phones):
        before = phones[place - 1] if place else Event("_", 0)
        if _is_pause(phone) or _is_pause(before):
            starts.append(phone.sample)
        elif _begins(before, SONORANTS) and _begins(phone, VOWELS):
            starts.append(vowel_onset(samples, start=before.sample, event=phone.sample))
        else:
            starts.append(_after_last_loud(loud, max(before.sample, phone.sample - MAX_CLOSURE), phone.sample))
    return _with_fused(phones, starts, len(samples))


def _is_pause(phone: Event) -> bool:
    return phone.label.startswith("_")


def _begins(phone: Event, letters: tuple[str, ...]) -> bool:
    return phone.label.lstrip(STRESS).startswith(letters)


def _after_last_loud(loud: NDArray[np.bool_], low: int, high: int) -> int:
    places = np.flatnonzero(loud[low:high])
    return low + int(places[-1]) + 1 if len(places) else low


def _with_fused(phones: list[Event], starts: list[int], total: int) -> list[int]:
    """A phone without samples was rendered with the one before it, and receives its end."""
    ends = [*starts[1:], total]
    for place in range(1, len(phones)):
        silent = ends[place] - starts[place] < MIN_PHONE and not _is_pause(phones[place])
        if silent and not _is_pause(phones[place - 1]):
            length = ends[place] - starts[place - 1]
            starts[place] = ends[place] - int(FUSED_SHARE * length)
    return starts
