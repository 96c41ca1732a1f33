"""Frames of a corpus: made of its recordings or its own, normalised by speaker, kept in a folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bochner.speech.chain.corpus import SpeechCorpus
from bochner.speech.frames import FrameStore
from bochner.speech.frontend import Mfcc, Plp, extract, write_normalized
from bochner.speech.skipped import Skipped

FRONTENDS = {"mfcc": Mfcc, "plp": Plp}


@dataclass(frozen=True)
class Frames:
    """The normalised frames of all parts; frame t stands for offset + shift [t, t + 1) seconds."""

    store: FrameStore
    skipped: list[Skipped]
    shift: float
    offset: float


def frames_of(corpus: SpeechCorpus, folder: Path, *, frontend: str, workers: int, progress: bool) -> Frames:
    """What `folder` holds already, or the frames made anew."""
    given = all(said.audio is None for said in corpus.utterances)
    made = None if given else FRONTENDS[frontend](rate=_only("rate", corpus))
    raw = extract(
        corpus.utterances, folder / "raw", folder=corpus.folder, frontend=made, workers=workers, progress=progress
    )
    normal = folder / "frames"
    store = FrameStore(normal) if normal.exists() else write_normalized(raw.store, normal, groups=corpus.speaker_of)
    if made is None:  # how windows lie is unknown: the frame's own stretch is the best guess
        return Frames(store, raw.skipped, _only("frame_shift", corpus), 0.0)
    return Frames(store, raw.skipped, made.frame_shift, (made.frame_length - made.frame_shift) / 2)


def front_end_from(options: Mapping[str, Any] | None) -> Mfcc | Plp | None:
    """The front end whose `options()` are given; None for frames that a corpus gave.

    >>> front_end_from(Mfcc(rate=8000).options()) == Mfcc(rate=8000)
    True
    """
    if options is None:
        return None
    values = dict(options)
    made: Mfcc | Plp = FRONTENDS[values.pop("name")](**values)
    return made


def _only(field: str, corpus: SpeechCorpus) -> int | float:
    """The rate, or the frame shift, that all utterances have in common."""
    found = sorted({getattr(said, field) for said in corpus.utterances}, key=str)
    if len(found) > 1:
        raise ValueError(f"{corpus.folder} must have one {field}, got {found}; prepare each as a corpus of its own.")
    return found[0]
