"""When each phone of synthetic speech sounds: the engine's events, put right by the samples.

The engine announces a phone after the short pause before it, so the closure of a stop would count to the vowel that
ended; it announces a vowel after a nasal or liquid only once the vowel has started (`Generate` in its synthesize.c says
so); and it sounds an l or r after a vowel together with the vowel and announces it when it is over. The samples show
all three: pauses of the engine are silent to the last bit or two.

After silence a phone begins with its sound: nothing tells a closure there from the silence before it, and so it
is with the hand labels of TIMIT.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bochner.speech.manifest import Segment
from bochner.speech.synthesis.espeak import RATE, Event, Spoken
from bochner.speech.synthesis.onsets import vowel_onset

QUIET = 50  # of 32768: below every phone, above what remains in a pause
LONGEST_CLOSURE = int(0.08 * RATE)
SHORTEST_PHONE = int(0.01 * RATE)
FUSED_SHARE = 0.4  # of vowel and liquid together, for the liquid
STRESS = "',%="  # marks before a phone
SONORANTS = tuple("mnNlrwj")  # how the engine's nasals and liquids begin
VOWELS = tuple("aAeEiIoOuUyYVQ@03&")


def time_phones(spoken: Spoken) -> tuple[tuple[Segment, ...], ...]:
    """The phones of each word, in the engine's notation without stress, with start and end in seconds.

    Within a word they touch; where two words do not, there is silence.

    >>> from bochner.speech.synthesis.espeak import speak
    >>> [[phone.label for phone in word] for word in time_phones(speak("[[k|'a|t]] [[s|'A:|t]]", voice="en-us"))]
    [['k', 'a', 't'], ['s', 'A:', 't']]
    """
    phones = [event for event in spoken.events if event.label]
    starts = _starts(phones, spoken.samples)
    ends = [*starts[1:], len(spoken.samples)]
    words: list[list[Segment]] = []
    place = 0
    for event in spoken.events:
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
            starts.append(_after_last_loud(loud, max(before.sample, phone.sample - LONGEST_CLOSURE), phone.sample))
    return _with_fused(phones, starts, len(samples))


def _is_pause(phone: Event) -> bool:
    return phone.label.startswith("_")


def _begins(phone: Event, letters: tuple[str, ...]) -> bool:
    return phone.label.lstrip(STRESS).startswith(letters)


def _after_last_loud(loud: NDArray[np.bool_], low: int, high: int) -> int:
    places = np.flatnonzero(loud[low:high])
    return low + int(places[-1]) + 1 if len(places) else low


def _with_fused(phones: list[Event], starts: list[int], total: int) -> list[int]:
    """A phone left without sound was sounded with the one before it: it gets the end of that."""
    ends = [*starts[1:], total]
    for place in range(1, len(phones)):
        silent = ends[place] - starts[place] < SHORTEST_PHONE and not _is_pause(phones[place])
        if silent and not _is_pause(phones[place - 1]):
            length = ends[place] - starts[place - 1]
            starts[place] = ends[place] - int(FUSED_SHARE * length)
    return starts
