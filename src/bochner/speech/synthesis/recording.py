"""Simulated recordings: noise, rooms and telephone lines, and one speaker's session."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.signal import fftconvolve, firwin

from bochner.checks import nonnegative_float, positive_float, positive_int
from bochner.speech.audio import Samples, resample, write_audio
from bochner.speech.lexicon import SILENCE
from bochner.speech.manifest import MANIFEST, Segment, Utterance, write_manifest
from bochner.speech.synthesis.espeak import RATE, speak, time_phones
from bochner.speech.synthesis.languages import Bengali, Cantonese, English, Language, Prompt
from bochner.speech.synthesis.speakers import FEMALE, MALE, Speaker, SynthesisSettings, stream
from bochner.speech.text_files import Skipped, write_skipped

TELEPHONE_RATE = 8000
TELEPHONE_BAND = (300.0, 3400.0)  # Hz
TAPS = 255
MU = 255.0
MIN_ECHO_DELAY = 0.005  # seconds after the direct sound
SILENCES = (0.1, 0.3)  # seconds before and after
SLOPES = (0.0, 2.0)  # white to brown
SNR_SPREAD = 3.0  # dB around the speaker's
LEVELS = (0.02, 0.1)  # root mean square
PEAK = 0.95
BABBLE_VOICES, BABBLE_SECONDS = 4, 8.0
PIECES = "pieces"
MAX_FAILURES = 10  # of a voice, beyond its successful utterances


def coloured_noise(num_samples: int, *, slope: float, generator: np.random.Generator) -> Samples:
    """Noise with power 1 / frequency^slope and unit variance: 0 is white, 1 pink, 2 brown. Cost O(n log n).

    >>> coloured_noise(4, slope=1.0, generator=np.random.default_rng(0)).shape
    (4,)
    """
    length = next_fast_len(max(positive_int("num_samples", num_samples), 2), real=True)
    spectrum = rfft(generator.standard_normal(length, dtype=np.float32))
    spectrum[0] = 0.0
    spectrum[1:] *= np.arange(1, len(spectrum), dtype=np.float32) ** (-nonnegative_float("slope", slope) / 2)
    return _unit_power(irfft(spectrum, length)[:num_samples])


def add_noise(speech: Samples, noise: Samples, *, snr: float) -> Samples:
    """speech + g noise, with g so that 10 log10(power of speech / power of g noise) = snr (dB)."""
    if len(noise) != len(speech):
        raise ValueError(f"noise must have the {len(speech)} samples of the speech, got {len(noise)}.")
    power = float(np.mean(np.square(speech, dtype=np.float64)))
    gain = np.sqrt(power * 10 ** (-snr / 10))
    return (speech + np.float32(gain) * _unit_power(noise)).astype(np.float32)


def room_response(*, rate: int, reverberation: float, direct_ratio: float, generator: np.random.Generator) -> Samples:
    """A room: the direct sound at sample 0, then noise that decays by 60 dB in `reverberation` seconds.

    h[0] = 1 and h[t] = g e[t] 10^(-3 t / T), e white, g so that the direct sound has `direct_ratio` dB more energy than
    all echoes together (Polack's model of diffuse reverberation, 1988).
    """
    times = np.arange(1, max(round(positive_float("reverberation", reverberation) * rate), 2)) / rate
    tail = generator.standard_normal(len(times)) * 10 ** (-3 * times / reverberation)
    tail[times < MIN_ECHO_DELAY] = 0.0
    energy = max(float(np.sum(tail**2)), 1e-12)
    return np.concatenate([[1.0], tail * np.sqrt(10 ** (-direct_ratio / 10) / energy)]).astype(np.float32)


def reverberate(samples: Samples, response: Samples) -> Samples:
    """The samples convolved with the response of the room, truncated to their length."""
    return fftconvolve(samples, response)[: len(samples)].astype(np.float32)


def telephone(samples: Samples, *, rate: int) -> Samples:
    """A telephone line, back at `rate`: 8 kHz, 300 to 3400 Hz by a zero-phase filter, 8-bit mu-law."""
    narrow = resample(samples, rate=rate, new_rate=TELEPHONE_RATE)
    band = firwin(TAPS, TELEPHONE_BAND, pass_zero=False, fs=TELEPHONE_RATE).astype(np.float32)
    coded = mu_law(fftconvolve(narrow, band, mode="same"))
    return resample(coded, rate=TELEPHONE_RATE, new_rate=rate)[: len(samples)]


def mu_law(samples: Samples) -> Samples:
    """Round to the 256 levels of mu-law: uniform in sign(x) log(1 + 255 |x|) / log 256 (ITU-T G.711's curve).

    >>> float(mu_law(np.array([1.0], dtype=np.float32))[0])
    1.0
    """
    x = np.clip(samples, -1.0, 1.0)
    level = np.round(127 * np.sign(x) * np.log1p(MU * np.abs(x)) / np.log1p(MU)) / 127
    return (np.sign(level) * np.expm1(np.abs(level) * np.log1p(MU)) / MU).astype(np.float32)


def _unit_power(samples: Samples) -> Samples:
    power = float(np.mean(np.square(samples, dtype=np.float64)))
    return (samples / np.sqrt(max(power, 1e-20))).astype(np.float32)


class CleanSpeech(NamedTuple):
    """Clean speech at the engine's rate with its timed words and phones, including silence."""

    samples: Samples
    words: tuple[Segment, ...]
    phones: tuple[Segment, ...]


def speak_prompt(prompt: Prompt, language: Language, speaker: Speaker, generator: np.random.Generator) -> CleanSpeech:
    """Synthesize a sentence; a ValueError has the reason if the engine produced other words or phones."""
    settings = {"speed": speaker.speed, "pitch": speaker.pitch, "pitch_range": speaker.pitch_range}
    output = speak(prompt.engine_text, voice=f"{language.voice}+{speaker.variant}", **settings)
    timed = time_phones(output)
    if len(timed) != len(prompt.tokens) or not all(timed):
        raise ValueError(
            f"engine produced other words ({len(timed)} for {len(prompt.tokens)} in {prompt.engine_text!r})"
        )
    before, after = generator.uniform(*SILENCES, size=2)
    clean = (output.samples / np.float32(32768)).astype(np.float32)
    samples = np.pad(clean, (round(before * RATE), round(after * RATE)))
    shift = round(before * RATE) / RATE
    words = [
        tuple(Segment(label, start + shift, end + shift) for label, start, end in phones)
        for phones in language.phones(prompt, timed)
    ]
    spans = (Segment(token, word[0].start, word[-1].end) for token, word in zip(prompt.tokens, words, strict=True))
    return CleanSpeech(samples, tuple(spans), _with_silence(words, len(samples) / RATE))


def record(
    speech: CleanSpeech, speaker: Speaker, generator: np.random.Generator, *, rate: int, babble: Samples | None
) -> Samples:
    """The recording of clean speech at `rate`: room, then noise, then telephone; no sample is clipped."""
    samples = resample(speech.samples, rate=RATE, new_rate=rate)
    response = room_response(
        rate=rate, reverberation=speaker.reverberation, direct_ratio=speaker.direct_ratio, generator=generator
    )
    samples = reverberate(samples, response)
    noise = _noise(len(samples), babble, generator)
    snr = speaker.snr + generator.uniform(-SNR_SPREAD, SNR_SPREAD)
    samples = _scaled(add_noise(samples, noise, snr=snr), generator)
    return telephone(samples, rate=rate) if speaker.telephone else samples


def draw_babble(language: Language, speaker: Speaker, generator: np.random.Generator, *, rate: int) -> Samples:
    """Several other voices at once, a few seconds that may be repeated."""
    total = np.zeros(round(BABBLE_SECONDS * RATE), dtype=np.float32)
    for _ in range(BABBLE_VOICES):
        voice = str(generator.choice([name for name in FEMALE + MALE if name != speaker.variant]))
        output = speak(language.prompt(speaker.part, generator).engine_text, voice=f"{language.voice}+{voice}")
        total += np.resize(output.samples / np.float32(32768), len(total))
    return resample(total, rate=RATE, new_rate=rate)


def _noise(count: int, babble: Samples | None, generator: np.random.Generator) -> Samples:
    if babble is None:
        return coloured_noise(count, slope=generator.uniform(*SLOPES), generator=generator)
    return np.resize(np.roll(babble, int(generator.integers(len(babble)))), count)


def _scaled(samples: Samples, generator: np.random.Generator) -> Samples:
    level = float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))
    gain = generator.uniform(*LEVELS) / max(level, 1e-9)
    return samples * np.float32(min(gain, PEAK / max(float(np.abs(samples).max()), 1e-9)))


def _with_silence(words: list[tuple[Segment, ...]], duration: float) -> tuple[Segment, ...]:
    """All phones in order, with silence in the gaps."""
    phones: list[Segment] = []
    last = 0.0
    for phone in (phone for word in words for phone in word):
        if phone.start > last:
            phones.append(Segment(SILENCE, last, phone.start))
        phones.append(phone)
        last = phone.end
    return (*phones, Segment(SILENCE, last, duration))


def record_speaker(place: int, speaker: Speaker, *, corpus_dir: Path, settings: SynthesisSettings) -> Path:
    """Record the speaker of number `place` into audio/; returns the directory with the manifest of its utterances."""
    piece = corpus_dir / PIECES / speaker.name
    if (piece / MANIFEST).exists():
        return piece
    piece.mkdir(parents=True, exist_ok=True)
    file = f"audio/{speaker.name}.wav"
    num_samples = round(settings.hours * 3600 * settings.rate / settings.num_speakers)
    recordings: list[Samples] = []
    utterances: list[Utterance] = []
    skipped: list[Skipped] = []
    for result in _attempts(place, speaker, settings):
        if isinstance(result, Skipped):
            skipped.append(result)
            if len(skipped) > len(utterances) + MAX_FAILURES:
                raise RuntimeError(f"the engine's voice {speaker.variant!r} fails: {result.reason}.")
            continue
        start = sum(map(len, recordings))
        utterances.append(_utterance(result, speaker, settings, file, start))
        recordings.append(result.samples)
        if start + len(result.samples) >= num_samples:
            break
    write_audio(corpus_dir / file, np.concatenate(recordings), rate=settings.rate)
    write_skipped(piece, skipped)
    write_manifest(piece, utterances)  # last: its presence marks the speaker as complete
    return piece


class _Recording(NamedTuple):
    id: str
    prompt: Prompt
    speech: CleanSpeech
    samples: Samples


def _attempts(place: int, speaker: Speaker, settings: SynthesisSettings) -> Iterator[_Recording | Skipped]:
    """Endless recordings, each with its own generator, so that their number does not change any of them."""
    language, rate = _language(settings.language, settings.num_words), settings.rate
    generator = stream(settings.seed, "babble", place)
    babble = draw_babble(language, speaker, generator, rate=rate) if speaker.babble else None
    for number in count(1):
        generator = stream(settings.seed, "utterance", place, number)
        prompt, name = language.prompt(speaker.part, generator), f"{speaker.name}-{number:04d}"
        try:
            speech = speak_prompt(prompt, language, speaker, generator)
        except ValueError as error:
            yield Skipped(name, str(error))
        else:
            samples = record(speech, speaker, generator, rate=rate, babble=babble)
            yield _Recording(name, prompt, speech, samples)


def _utterance(
    recording: _Recording, speaker: Speaker, settings: SynthesisSettings, file: str, start: int
) -> Utterance:
    duration = len(recording.samples) / settings.rate
    phones = _rounded(recording.speech.phones, duration)
    phones = (*phones[:-1], phones[-1]._replace(end=duration))  # the last silence ends with the utterance
    return Utterance(
        id=recording.id, speaker=speaker.name, part=speaker.part, text=" ".join(recording.prompt.tokens), audio=file,
        rate=settings.rate, start=start / settings.rate, duration=duration, phones=phones,
        words=_rounded(recording.speech.words, duration), language=settings.language, synthetic=True,
    )  # fmt: skip


def _rounded(segments: tuple[Segment, ...], duration: float) -> tuple[Segment, ...]:
    """Times rounded to a tenth of a millisecond, about the distance of samples."""
    return tuple(Segment(label, round(start, 4), min(round(end, 4), duration)) for label, start, end in segments)


@cache  # a process loads its word lists once
def _language(name: str, num_words: int) -> Language:
    if name == "cantonese":
        return Cantonese()
    return English(num_words=num_words) if name == "english" else Bengali(num_words=num_words)
