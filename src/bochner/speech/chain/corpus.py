"""Frames of a corpus: made of its recordings or its own, normalised by speaker, kept in a folder."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from bochner.speech.files import Skipped
from bochner.speech.frames import FrameStore
from bochner.speech.frontend import Mfcc, Plp, extract, write_normalized
from bochner.speech.lexicon import SILENCE, Lexicon, read_lexicon
from bochner.speech.manifest import MANIFEST, PARTS, Utterance, read_manifest

LEXICON = "lexicon.txt"
PAUSES = (SILENCE, "sil", "h#", "pau")  # phones that stand for no speech, by their usual names


@dataclass(frozen=True)
class SpeechCorpus:
    """The utterances and pronunciations of a directory that `bochner speech prepare` made."""

    folder: Path
    utterances: list[Utterance]
    lexicon: Lexicon

    @classmethod
    def read(cls, folder: Path) -> SpeechCorpus:
        if not (folder / MANIFEST).exists():
            raise ValueError(
                f"{folder} must be a corpus directory, but has no {MANIFEST}: run `bochner speech prepare`."
            )
        if not (folder / LEXICON).exists():
            raise ValueError(
                f"{folder} has no {LEXICON}; prepare it with --lexicon, or write lines `word phone phone ...` there."
            )
        return cls(folder, read_manifest(folder), _lexicon(folder / LEXICON))

    @cached_property
    def speaker_of(self) -> dict[str, str]:
        return {said.id: said.speaker for said in self.utterances}

    @cached_property
    def fingerprint(self) -> str:
        """A hash of what is said and how: other transcripts or pronunciations are another corpus."""
        content = b"".join((self.folder / name).read_bytes() for name in (MANIFEST, LEXICON))
        return hashlib.sha256(content).hexdigest()[:16]

    @property
    def parts(self) -> list[str]:
        there = {said.part for said in self.utterances}
        return [part for part in PARTS if part in there]

    @property
    def pauses(self) -> tuple[str, ...]:
        return tuple(phone for phone in self.lexicon.phones if phone in PAUSES)

    @property
    def says_phones(self) -> bool:
        """Whether the tokens are phones, each of which sounds like itself."""
        return self.lexicon.silence is None

    def part(self, name: str) -> list[Utterance]:
        found = [said for said in self.utterances if said.part == name]
        if not found:
            raise ValueError(f"part must be one of {self.parts}, those of {self.folder}, got {name!r}.")
        return found


def _lexicon(path: Path) -> Lexicon:
    """Where every word is a phone, silence is one of them, and none is put between."""
    lexicon = read_lexicon(path)
    return read_lexicon(path, silence=None) if spells_itself(lexicon) else lexicon


def spells_itself(lexicon: Lexicon) -> bool:
    """Whether each word is one phone of the same name, as in TIMIT's phone transcripts."""
    return all(pronunciations == ((word,),) for word, pronunciations in lexicon.entries.items())


def missing_words(utterances: Sequence[Utterance], lexicon: Lexicon) -> list[str]:
    return sorted({token for said in utterances for token in said.tokens if token not in lexicon})


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
