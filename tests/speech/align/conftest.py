"""An artificial language: phones are Gaussians in 6 dimensions with a drift, words have two to four phones."""

from dataclasses import dataclass

import numpy as np
import pytest

from bochner.speech.lexicon import Lexicon
from bochner.speech.manifest import Segment, Utterance

PHONES = tuple("abdgmost")
SHIFT = 0.01


@dataclass
class Made:
    lexicon: Lexicon
    utterances: list[Utterance]
    frames: dict[str, np.ndarray]


@pytest.fixture(scope="session")
def made() -> Made:
    return make(seed=0, num_utterances=40)


def make(*, seed: int, num_utterances: int) -> Made:
    generator = np.random.default_rng(seed)
    sounds = {phone: generator.standard_normal((3, 6)) * 2.5 for phone in ("SIL", *PHONES)}
    words = {"".join(generator.choice(PHONES, size=size)): None for size in (2, 2, 3, 3, 3, 4)}
    lexicon = Lexicon({word: [tuple(word)] for word in words})
    utterances, frames = [], {}
    for number in range(num_utterances):
        tokens = generator.choice(lexicon.words, size=4).tolist()
        name, speaker = f"u{number:02d}", f"speaker{number % 4}"
        phones = ["SIL", *"".join(tokens[:2]), "SIL", *"".join(tokens[2:]), "SIL"]
        frames[name], segments = _frames_of(phones, sounds, generator, shift=0.3 * (number % 4))
        utterances.append(_utterance(name, speaker, tokens, segments))
    return Made(lexicon, utterances, frames)


def _frames_of(phones, sounds, generator, *, shift):
    rows, segments, time = [], [], 0
    for phone in phones:
        lasting = generator.integers(2, 5, size=3)
        states = np.repeat(sounds[phone], lasting, axis=0)
        rows.append(states + shift + 0.5 * generator.standard_normal(states.shape))
        segments.append(Segment(phone, time * SHIFT, (time + len(states)) * SHIFT))
        time += len(states)
    return np.concatenate(rows).astype(np.float32), tuple(segments)


def _utterance(name, speaker, tokens, segments):
    duration = segments[-1].end
    return Utterance(
        id=name,
        speaker=speaker,
        part="train",
        text=" ".join(tokens),
        audio="x.wav",
        rate=16000,
        duration=duration,
        phones=segments,
    )
