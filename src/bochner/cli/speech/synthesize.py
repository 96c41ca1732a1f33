"""`bochner speech synthesize`: a corpus for everyone without a licence."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal


def synthesize(
    out: Path,
    *,
    language: Literal["english", "cantonese", "bengali"] = "english",
    hours: float = 0.1,
    seed: int = 0,
    num_words: int = 2000,
    minutes_per_speaker: float = 3.0,
    snr: tuple[float, float] = (5.0, 20.0),
    telephone: float = 0.5,
    babble: float = 0.3,
    rate: int = 16000,
    workers: int = 1,
) -> None:
    """Make a corpus directory of synthetic speech, with the times of all its words and phones.

    Examples:

        bochner speech synthesize corpus --hours 0.1
        bochner speech synthesize corpus --language cantonese --hours 2 --workers 2
        bochner speech synthesize corpus --hours 0.1 --num_words 100 --snr [20,40] --telephone 0 --babble 0

    Many voices at many speeds and pitches, in rooms, in noise, on telephones; hard enough that error rates are far
    from zero. No voice and no sentence is in two parts. The same settings give the same bytes; stopped, it goes on
    where it was when the same command is given again. Results on it say nothing about recordings of people.

    It needs `pip install 'bochner[synthesis]'`, whose espeak-ng is GPL-3.

    Args:
        out: The corpus directory to make.
        language: English (words), Cantonese (characters) or Bengali (words).
        hours: How much of it.
        seed: Of everything random.
        num_words: How many words English and Bengali have.
        minutes_per_speaker: How long each speaks; there are at least 8 speakers.
        snr: Least and greatest signal-to-noise ratio of a speaker, in dB.
        telephone: Share of the speakers on a telephone.
        babble: Share of the speakers among other voices.
        rate: Samples a second.
        workers: Processes.
    """
    from bochner.cli.speech.preparation import say_corpus
    from bochner.speech.manifest import MANIFEST
    from bochner.speech.synthesis import synthesize as make

    finished = (out / MANIFEST).exists()
    corpus = make(
        out, language=language, hours=hours, seed=seed, rate=rate, num_words=num_words,
        minutes_per_speaker=minutes_per_speaker, snr=snr, telephone=telephone, babble=babble, workers=workers,
        progress=sys.stderr.isatty(),
    )  # fmt: skip
    say_corpus(corpus, finished=finished)
