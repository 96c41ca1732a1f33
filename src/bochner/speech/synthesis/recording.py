"""One recorded utterance of a synthetic speaker: said, timed, and heard through room, noise and line."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bochner.speech.audio import Samples, resample
from bochner.speech.lexicon import SILENCE
from bochner.speech.manifest import Segment
from bochner.speech.synthesis.effects import add_noise, coloured_noise, reverberate, room_response, telephone
from bochner.speech.synthesis.espeak import RATE, speak
from bochner.speech.synthesis.texts import Language, Prompt
from bochner.speech.synthesis.timing import time_phones
from bochner.speech.synthesis.voices import FEMALE, MALE, Speaker

SILENCES = (0.1, 0.3)  # seconds before and after
SLOPES = (0.0, 2.0)  # white to brown
SNR_SPREAD = 3.0  # dB around the speaker's
LEVELS = (0.02, 0.1)  # root mean square
PEAK = 0.95
BABBLE_VOICES, BABBLE_SECONDS = 4, 8.0


class Said(NamedTuple):
    """Clean speech at the engine's rate with its words and phones; silence stands before, after and at pauses."""

    samples: Samples
    words: tuple[Segment, ...]
    phones: tuple[Segment, ...]


def say(prompt: Prompt, language: Language, speaker: Speaker, generator: np.random.Generator) -> Said:
    """Let a speaker say a sentence. Where the engine said other words or phones, a ValueError has the reason."""
    spoken = speak(
        prompt.spoken,
        voice=f"{language.voice}+{speaker.variant}",
        speed=speaker.speed,
        pitch=speaker.pitch,
        pitch_range=speaker.pitch_range,
    )
    heard = time_phones(spoken)
    if len(heard) != len(prompt.tokens) or not all(heard):
        raise ValueError(f"engine said other words ({len(heard)} for {len(prompt.tokens)} in {prompt.spoken!r})")
    before, after = generator.uniform(*SILENCES, size=2)
    clean = (spoken.samples / np.float32(32768)).astype(np.float32)
    samples = np.pad(clean, (round(before * RATE), round(after * RATE)))
    words = [_moved(phones, round(before * RATE) / RATE) for phones in language.phones(prompt, heard)]
    spans = (Segment(token, word[0].start, word[-1].end) for token, word in zip(prompt.tokens, words, strict=True))
    return Said(samples, tuple(spans), _with_silence(words, len(samples) / RATE))


def record(
    said: Said, speaker: Speaker, generator: np.random.Generator, *, rate: int, babble: Samples | None
) -> Samples:
    """The recording of what was said, at `rate`: room, then noise, then telephone; no sample is clipped."""
    samples = resample(said.samples, rate=RATE, new_rate=rate)
    response = room_response(
        rate=rate, reverberation=speaker.reverberation, direct_ratio=speaker.direct_ratio, generator=generator
    )
    samples = reverberate(samples, response)
    noise = _noise(len(samples), babble, generator)
    samples = _levelled(
        add_noise(samples, noise, snr=speaker.snr + generator.uniform(-SNR_SPREAD, SNR_SPREAD)), generator
    )
    return telephone(samples, rate=rate) if speaker.telephone else samples


def babble_of(language: Language, speaker: Speaker, generator: np.random.Generator, *, rate: int) -> Samples:
    """Other people talking at once in the background, a few seconds that may be repeated."""
    total = np.zeros(round(BABBLE_SECONDS * RATE), dtype=np.float32)
    for _ in range(BABBLE_VOICES):
        voice = str(generator.choice([name for name in FEMALE + MALE if name != speaker.variant]))
        spoken = speak(language.prompt(speaker.part, generator).spoken, voice=f"{language.voice}+{voice}")
        total += np.resize(spoken.samples / np.float32(32768), len(total))
    return resample(total, rate=RATE, new_rate=rate)


def _noise(count: int, babble: Samples | None, generator: np.random.Generator) -> Samples:
    if babble is None:
        return coloured_noise(count, slope=generator.uniform(*SLOPES), generator=generator)
    return np.resize(np.roll(babble, int(generator.integers(len(babble)))), count)


def _levelled(samples: Samples, generator: np.random.Generator) -> Samples:
    level = float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))
    gain = generator.uniform(*LEVELS) / max(level, 1e-9)
    return samples * np.float32(min(gain, PEAK / max(float(np.abs(samples).max()), 1e-9)))


def _moved(phones: tuple[Segment, ...], seconds: float) -> tuple[Segment, ...]:
    return tuple(Segment(label, start + seconds, end + seconds) for label, start, end in phones)


def _with_silence(words: list[tuple[Segment, ...]], duration: float) -> tuple[Segment, ...]:
    """All phones in order, and silence wherever none of them sounds."""
    phones: list[Segment] = []
    last = 0.0
    for phone in (phone for word in words for phone in word):
        if phone.start > last:
            phones.append(Segment(SILENCE, last, phone.start))
        phones.append(phone)
        last = phone.end
    return (*phones, Segment(SILENCE, last, duration))
