"""Synthetic speakers: a voice of the engine, its speed and pitch, and the recording conditions."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bochner.checks import nonnegative_int, one_of, positive_float, positive_int
from bochner.speech.manifest import PARTS, split_speakers

USES = ("voices", "speaker", "babble", "utterance")
LANGUAGES = ("english", "cantonese", "bengali")
MIN_SPEAKERS = 8
# The engine's human-like variants, without those with an echo, which hides pauses, and those with breath, which is not
# reproducible.
FEMALE = (
    "Andrea", "Annie", "anika", "aunty", "belinda", "f1", "grandma", "linda", "shelby", "steph", "steph2",
)  # fmt: skip
MALE = (
    "Alex", "Andy", "Denis", "Gene", "Gene2", "Jacky", "Lee", "Mario", "Michael", "Mike", "Nguyen", "adam",
    "antonio", "benjamin", "boris", "david", "ed", "edward", "edward2", "grandpa", "gustave", "ian", "iven",
    "iven3", "john", "kaukovalta", "klatt2", "klatt4", "m1", "m3", "m4", "m5", "m6", "m7", "m8", "marcelo", "max",
    "mike2", "norbert", "paul", "pedro", "quincy", "rob", "travis", "zac",
)  # fmt: skip
SPEEDS = (130, 215)  # words per minute
PITCHES = (25, 75)
PITCH_RANGES = (25, 75)
REVERBERATION = (0.15, 0.5)  # seconds
DIRECT_RATIOS = (3.0, 15.0)  # dB, of a microphone 15 to 60 cm away: 20 log10(critical distance / distance)
HANDSET = 12.0  # dB more: a telephone is at a quarter of the distance from the mouth


def stream(seed: int, use: str, *places: int) -> np.random.Generator:
    """An independent generator for each seed, use and place.

    >>> stream(0, "utterance", 3, 1).random() == stream(0, "utterance", 3, 1).random()
    True
    >>> stream(0, "utterance", 3).random() == stream(0, "utterance", 3, 0).random()
    False
    """
    return np.random.default_rng(
        [USES.index(use), len(places), *places, seed]
    )  # the number of places, since NumPy pads with zeros


@dataclass(frozen=True, kw_only=True)
class SynthesisSettings:
    """The settings of a synthetic corpus.

    `rate` is the sampling rate in Hz, `num_words` the vocabulary of English and Bengali. `snr` (dB, least and greatest
    of a speaker), `telephone` and `babble` (shares of the speakers) set the difficulty. There are at least eight
    speakers, of `minutes_per_speaker` each.
    """

    language: str
    hours: float
    seed: int
    num_words: int = 2000
    minutes_per_speaker: float = 3.0
    rate: int = 16000
    snr: tuple[float, float] = (5.0, 20.0)
    telephone: float = 0.5
    babble: float = 0.3

    def __post_init__(self) -> None:
        object.__setattr__(self, "snr", tuple(float(ratio) for ratio in self.snr))
        one_of("language", self.language, LANGUAGES)
        positive_float("hours", self.hours)
        nonnegative_int("seed", self.seed)
        positive_int("rate", self.rate)
        positive_float("minutes_per_speaker", self.minutes_per_speaker)
        if not (len(self.snr) == 2 and self.snr[0] <= self.snr[1]):
            raise ValueError(f"snr must be two ratios in dB, the lower first, got {self.snr!r}.")
        for name in ("telephone", "babble"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must be a share from 0 to 1, got {getattr(self, name)!r}.")

    @property
    def num_speakers(self) -> int:
        return max(MIN_SPEAKERS, round(self.hours * 60 / self.minutes_per_speaker))

    def speakers(self) -> list[Speaker]:
        return draw_speakers(
            self.num_speakers, seed=self.seed, snr=self.snr, telephone=self.telephone, babble=self.babble
        )


@dataclass(frozen=True, kw_only=True)
class Speaker:
    """A synthetic speaker. `snr` is the centre of the signal-to-noise ratios (dB) of its recordings."""

    name: str
    part: str
    variant: str
    speed: int
    pitch: int
    pitch_range: int
    telephone: bool
    babble: bool
    reverberation: float
    direct_ratio: float
    snr: float


def draw_speakers(
    num_speakers: int, *, seed: int, snr: tuple[float, float], telephone: float, babble: float
) -> list[Speaker]:
    """Speakers for the four parts, 70, 10, 10 and 10 percent; no variant of the engine's voice is in two parts.

    `snr` bounds the speakers' signal-to-noise ratio (dB); `telephone` and `babble` are the shares of speakers on a
    telephone and among other voices (the others are recorded in coloured noise).

    >>> speakers = draw_speakers(8, seed=0, snr=(5.0, 20.0), telephone=0.5, babble=0.3)
    >>> [speaker.part for speaker in speakers]
    ['train', 'train', 'train', 'train', 'train', 'heldout', 'dev', 'test']
    """
    names = [f"s{place:04d}" for place in range(positive_int("num_speakers", num_speakers))]
    parts = sorted(split_speakers(names, seed=seed).values(), key=PARTS.index)
    variants = _variants(seed)
    speakers = []
    for place, (name, part) in enumerate(zip(names, parts, strict=True)):
        generator = stream(seed, "speaker", place)
        variant = variants[part][place % len(variants[part])]
        speaker = Speaker(
            name=f"{name}-{variant}",
            part=part,
            variant=variant,
            speed=int(generator.integers(*SPEEDS)),
            pitch=int(generator.integers(*PITCHES)),
            pitch_range=int(generator.integers(*PITCH_RANGES)),
            telephone=bool(generator.random() < telephone),
            babble=bool(generator.random() < babble),
            reverberation=float(generator.uniform(*REVERBERATION)),
            direct_ratio=float(generator.uniform(*DIRECT_RATIOS)),
            snr=float(generator.uniform(*snr)),
        )
        handset = replace(speaker, direct_ratio=speaker.direct_ratio + HANDSET)
        speakers.append(handset if speaker.telephone else speaker)
    return speakers


def _variants(seed: int) -> dict[str, list[str]]:
    """Each part's voices, in a shuffled order."""
    sexes = {**dict.fromkeys(FEMALE, "f"), **dict.fromkeys(MALE, "m")}
    part_of = split_speakers(sexes, seed=seed, alike=sexes)
    shuffled = stream(seed, "voices").permutation(sorted(sexes))
    return {part: [str(name) for name in shuffled if part_of[str(name)] == part] for part in PARTS}
