"""One speaker's session: sentence after sentence into one audio file, until there is enough."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bochner.speech.audio import Samples, write_audio
from bochner.speech.manifest import MANIFEST, Segment, Utterance, write_manifest
from bochner.speech.skipped import Skipped, write_skipped
from bochner.speech.synthesis.bengali import Bengali
from bochner.speech.synthesis.cantonese import Cantonese
from bochner.speech.synthesis.english import English
from bochner.speech.synthesis.recording import Said, babble_of, record, say
from bochner.speech.synthesis.settings import Settings
from bochner.speech.synthesis.streams import stream
from bochner.speech.synthesis.texts import Language, Prompt
from bochner.speech.synthesis.voices import Speaker

PIECES = "pieces"


def make_speaker(place: int, speaker: Speaker, *, folder: Path, settings: Settings) -> Path:
    """Record the speaker of number `place` into audio/; gives the folder with the manifest of what was recorded."""
    piece = folder / PIECES / speaker.name
    if (piece / MANIFEST).exists():
        return piece
    piece.mkdir(parents=True, exist_ok=True)
    file = f"audio/{speaker.name}.wav"
    sounds, utterances, skipped = _recorded(place, speaker, file, settings)
    write_audio(folder / file, np.concatenate(sounds), rate=settings.rate)
    write_skipped(piece, skipped)
    write_manifest(piece, utterances)  # last: its presence says that all is there
    return piece


class _Recording(NamedTuple):
    id: str
    prompt: Prompt
    said: Said
    sound: Samples


def _recorded(
    place: int, speaker: Speaker, file: str, settings: Settings
) -> tuple[list[Samples], list[Utterance], list[Skipped]]:
    wanted = round(settings.hours * 3600 * settings.rate / settings.num_speakers)
    sounds: list[Samples] = []
    utterances: list[Utterance] = []
    skipped: list[Skipped] = []
    first = 0
    for made in _attempts(place, speaker, settings):
        if isinstance(made, Skipped):
            skipped.append(made)
            _check_voice(speaker, len(utterances), skipped)
            continue
        utterances.append(_utterance(made, speaker, settings, file, first))
        sounds.append(made.sound)
        first += len(made.sound)
        if first >= wanted:
            break
    return sounds, utterances, skipped


def _attempts(place: int, speaker: Speaker, settings: Settings) -> Iterator[_Recording | Skipped]:
    """Recordings without end; each has a generator of its own, so that one more or less changes no other."""
    language, rate = _language(settings.language, settings.num_words), settings.rate
    before = stream(settings.seed, "babble", place)
    babble = babble_of(language, speaker, before, rate=rate) if speaker.babble else None
    for number in count(1):
        generator = stream(settings.seed, "utterance", place, number)
        prompt, name = language.prompt(speaker.part, generator), f"{speaker.name}-{number:04d}"
        try:
            said = say(prompt, language, speaker, generator)
        except ValueError as error:
            yield Skipped(name, str(error))
        else:
            yield _Recording(name, prompt, said, record(said, speaker, generator, rate=rate, babble=babble))


def _check_voice(speaker: Speaker, num_said: int, skipped: list[Skipped]) -> None:
    if len(skipped) > num_said + 10:  # or it would try for ever
        raise RuntimeError(f"the engine's voice {speaker.variant!r} does not say what it should: {skipped[-1].reason}.")


def _utterance(made: _Recording, speaker: Speaker, settings: Settings, file: str, first: int) -> Utterance:
    duration = len(made.sound) / settings.rate
    phones = _rounded(made.said.phones, duration)
    return Utterance(
        id=made.id,
        speaker=speaker.name,
        part=speaker.part,
        text=" ".join(made.prompt.tokens),
        audio=file,
        rate=settings.rate,
        start=first / settings.rate,
        duration=duration,
        words=_rounded(made.said.words, duration),
        phones=(*phones[:-1], phones[-1]._replace(end=duration)),  # silence to the very end
        language=settings.language,
        synthetic=True,
    )


def _rounded(segments: tuple[Segment, ...], duration: float) -> tuple[Segment, ...]:
    """Times to a tenth of a millisecond, which the samples of another rate do not resolve anyway."""
    return tuple(Segment(label, round(start, 4), min(round(end, 4), duration)) for label, start, end in segments)


@cache  # a process loads its word lists once
def _language(name: str, num_words: int) -> Language:
    if name == "cantonese":
        return Cantonese()
    return English(num_words=num_words) if name == "english" else Bengali(num_words=num_words)
