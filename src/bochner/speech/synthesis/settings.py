"""All that decides what a synthetic corpus holds."""

from __future__ import annotations

from dataclasses import dataclass

from bochner.checks import nonnegative_int, one_of, positive_float, positive_int
from bochner.speech.synthesis.voices import Speaker, draw_speakers

LANGUAGES = ("english", "cantonese", "bengali")
FEWEST_SPEAKERS = 8


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to make; see `synthesize`."""

    language: str
    hours: float
    seed: int
    rate: int
    num_words: int
    minutes_per_speaker: float
    snr: tuple[float, float]
    telephone: float
    babble: float

    def __post_init__(self) -> None:
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
        return max(FEWEST_SPEAKERS, round(self.hours * 60 / self.minutes_per_speaker))

    def speakers(self) -> list[Speaker]:
        return draw_speakers(
            self.num_speakers, seed=self.seed, snr=self.snr, telephone=self.telephone, babble=self.babble
        )
