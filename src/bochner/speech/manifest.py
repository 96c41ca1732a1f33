"""Utterances and their manifest, and the split of speakers into train, heldout, dev and test."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bochner.checks import nonnegative_float, nonnegative_int, one_of, positive_float, positive_int
from bochner.speech.text_files import FilePath
from bochner.storage import write_atomically

PARTS = ("train", "heldout", "dev", "test")
MANIFEST = "utterances.jsonl"
ROUNDING = 1e-3  # seconds that a segment may end after its utterance
SHARES = {"train": 0.7, "heldout": 0.1, "dev": 0.1, "test": 0.1}


class Segment(NamedTuple):
    """A word or phone with its times in seconds from the beginning of the utterance."""

    label: str
    start: float
    end: float


@dataclass(frozen=True, kw_only=True)
class Utterance:
    """A segment of speech by one speaker: the location of its samples or frames, and its transcript.

    `text` holds tokens (words, characters, phones) joined by single spaces. `audio` is a path relative to the directory
    of the manifest, `rate` the samples per second to which it is resampled if it has another rate, and the utterance is
    `duration` seconds of it from `start`; `channel` is counted from 0, by default the mean of all. A corpus of frames
    without audio names them in `frames` ("file.ark:offset" or the relative path of an .npy file), `frame_shift` seconds
    apart. Segments count from the beginning of the utterance. A speaker is in only one of the
    four parts: train; heldout, which controls training; dev, for choices; test, which is evaluated once.

    >>> Utterance(id="ann-1", speaker="ann", part="train", text="yes no", audio="1.wav", rate=8000, duration=1.5).tokens
    ('yes', 'no')
    """

    id: str
    speaker: str
    part: str
    text: str
    duration: float
    audio: str | None = None
    rate: int | None = None
    start: float = 0.0
    channel: int | None = None
    frames: str | None = None
    frame_shift: float | None = None
    words: tuple[Segment, ...] = ()
    phones: tuple[Segment, ...] = ()
    language: str = ""
    synthetic: bool = False

    def __post_init__(self) -> None:
        for name, value in (("id", self.id), ("speaker", self.speaker)):
            if not isinstance(value, str) or len(value.split()) != 1 or value != value.strip():
                raise ValueError(f"{name} must be text without spaces, got {value!r}.")
        one_of("part", self.part, PARTS)
        if not isinstance(self.text, str) or self.text != " ".join(self.text.split()):
            raise ValueError(f"text must be tokens joined by single spaces, got {self.text!r}.")
        object.__setattr__(self, "duration", positive_float("duration", self.duration))
        object.__setattr__(self, "start", nonnegative_float("start", self.start))
        self._check_source()
        for name in ("words", "phones"):
            object.__setattr__(self, name, _segments(name, getattr(self, name), self.duration))
        if not isinstance(self.language, str) or not isinstance(self.synthetic, bool):
            raise ValueError(
                f"language must be text and synthetic true or false, got {self.language!r} and {self.synthetic!r}."
            )

    @property
    def tokens(self) -> tuple[str, ...]:
        return tuple(self.text.split())

    def replace(self, **changes: Any) -> Utterance:
        """The same utterance with some fields changed."""
        return dataclasses.replace(self, **changes)

    def _check_source(self) -> None:
        if self.audio is None and self.frames is None:
            raise ValueError("an utterance must have audio or frames, got neither.")
        for name in ("audio", "frames"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value):
                raise ValueError(f"{name} must be a path or left out, got {value!r}.")
        if self.audio is not None or self.rate is not None:
            positive_int("rate", self.rate)
        if self.channel is not None:
            nonnegative_int("channel", self.channel)
        if self.frames is not None or self.frame_shift is not None:
            positive_float("frame_shift", self.frame_shift)


def read_manifest(path: FilePath) -> list[Utterance]:
    """The utterances of a manifest, or of the corpus directory that holds one; errors name the file and the line."""
    file = manifest_path(path)
    return list(check_utterances(_read_lines(file), where=str(file)))


def write_manifest(path: FilePath, utterances: Iterable[Utterance]) -> Path:
    """Write utterances atomically to a manifest or into a corpus directory; returns the path of the manifest.

    >>> import tempfile
    >>> utterance = Utterance(id="ann-1", speaker="ann", part="train", text="yes", audio="1.wav", rate=8000,
    ...     duration=1.5, phones=(Segment("y", 0.0, 0.4), Segment("eh", 0.4, 0.9), Segment("s", 0.9, 1.5)))
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     print(write_manifest(directory, [utterance]).read_text().strip()[:64])
    ...     read_manifest(directory) == [utterance]
    {"id": "ann-1", "speaker": "ann", "part": "train", "text": "yes"
    True
    """
    file = manifest_path(path)
    lines = [_to_line(utterance) for utterance in check_utterances(utterances, where=str(file))]
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, "".join(lines).encode())
    return file


def manifest_path(path: FilePath) -> Path:
    """`path` itself if it names a .jsonl file, otherwise the manifest in the directory `path`."""
    path = Path(path)
    return path if path.suffix == ".jsonl" else path / MANIFEST


def check_utterances(utterances: Iterable[Utterance], *, where: str = "the corpus") -> Iterator[Utterance]:
    """The same utterances, one by one; a repeated id or a speaker in two parts is an error."""
    seen: set[str] = set()
    part_of: dict[str, str] = {}
    for utterance in utterances:
        if utterance.id in seen:
            raise ValueError(f"{where}: utterance {utterance.id!r} is repeated; ids must be unique.")
        seen.add(utterance.id)
        known = part_of.setdefault(utterance.speaker, utterance.part)
        if known != utterance.part:
            raise ValueError(
                f"{where}: speaker {utterance.speaker!r} is in two parts, {known} and {utterance.part} "
                f"(utterance {utterance.id!r}); put all utterances of a speaker into one."
            )
        yield utterance


def _read_lines(file: Path) -> Iterator[Utterance]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                yield _from_line(line)
            except (ValueError, TypeError, RecursionError) as error:
                raise ValueError(f"{file}, line {number}: {error}") from error


def _from_line(line: bytes) -> Utterance:
    stored = json.loads(line)
    if not isinstance(stored, dict):
        raise ValueError(f"an utterance must be a JSON object, got {type(stored).__name__}.")
    fields = {field.name: field for field in dataclasses.fields(Utterance)}
    if unknown := sorted(stored.keys() - fields.keys()):
        raise ValueError(f"unknown fields {unknown}; an utterance has {list(fields)}.")
    needed = [name for name, field in fields.items() if field.default is dataclasses.MISSING]
    if missing := [name for name in needed if name not in stored]:
        raise ValueError(f"fields {missing} are missing.")
    return Utterance(**stored)


def _to_line(utterance: Utterance) -> str:
    """One line of JSON, without fields at their default."""
    fields = dataclasses.fields(Utterance)
    stored = {field.name: getattr(utterance, field.name) for field in fields}
    shown = {field.name: stored[field.name] for field in fields if stored[field.name] != field.default}
    return json.dumps(shown, ensure_ascii=False, allow_nan=False) + "\n"


def _segments(name: str, values: Iterable[Any], duration: float) -> tuple[Segment, ...]:
    segments = tuple(_segment(name, value) for value in values)
    last = 0.0
    for segment in segments:
        if not last <= segment.start <= segment.end <= duration + ROUNDING:
            raise ValueError(
                f"{name} must be ordered and inside the utterance's {duration} s, got {tuple(segment)} after {last} s."
            )
        last = segment.start  # segments may overlap, as words run together in speech
    return segments


def _segment(name: str, value: Any) -> Segment:
    try:
        label, start, end = value
        start, end = float(start), float(end)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be [label, start, end], got {value!r}.") from error
    if not isinstance(label, str) or not label or not (math.isfinite(start) and math.isfinite(end)):
        raise ValueError(f"{name} must be [label, start, end], got {value!r}.")
    return Segment(label, start, end)


def split_speakers(
    speakers: Iterable[str],
    *,
    seed: int,
    sizes: Mapping[str, float] | None = None,
    alike: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The part of each speaker: a random permutation by `seed`, divided by `sizes`.

    `sizes` gives for each part a number of speakers, which sum to all of them, or a share, which sum to one (every part
    gets at least one speaker); `alike` maps speakers to groups, such as the sex, which are distributed evenly over the
    parts. The result does not depend on the order of `speakers`.

    >>> split_speakers(["ann", "bob", "cy", "dee"], seed=0, sizes={"train": 3, "test": 1})
    {'ann': 'train', 'bob': 'train', 'cy': 'train', 'dee': 'test'}
    """
    names = sorted(set(speakers))
    counts = _counts(dict(SHARES) if sizes is None else dict(sizes), len(names))
    order = np.random.default_rng(nonnegative_int("seed", seed)).permutation(len(names))
    shuffled = _interleaved([names[i] for i in order], alike or {})
    parts = [part for part in PARTS for _ in range(counts.get(part, 0))]
    part_of = dict(zip(shuffled, parts, strict=True))
    return {name: part_of[name] for name in names}


def _counts(sizes: dict[str, float], num_speakers: int) -> dict[str, int]:
    for part, size in sizes.items():
        one_of("sizes", part, PARTS)
        nonnegative_float(f"sizes[{part!r}]", size)
    total = sum(sizes.values())
    if all(isinstance(size, int) for size in sizes.values()):
        if total != num_speakers:
            raise ValueError(f"sizes must sum to the {num_speakers} speakers, got {sizes} (sum {total}).")
        return {part: int(size) for part, size in sizes.items()}
    if abs(total - 1.0) > 1e-9:
        raise ValueError(f"sizes must be numbers of speakers or shares that sum to 1, got {sizes} (sum {total}).")
    return _largest_remainders({part: size for part, size in sizes.items() if size > 0}, num_speakers)


def _largest_remainders(shares: dict[str, float], num_speakers: int) -> dict[str, int]:
    """Integers near the shares of `num_speakers` that sum to it, at least one each."""
    if num_speakers < len(shares):
        raise ValueError(
            f"{len(shares)} parts need at least as many speakers, got {num_speakers}; give sizes with fewer parts."
        )
    spare = num_speakers - len(shares)
    quota = {part: max(share * num_speakers - 1, 0.0) for part, share in shares.items()}
    scale = spare / max(sum(quota.values()), 1e-12)
    counts = {part: 1 + int(scale * size) for part, size in quota.items()}
    by_remainder = sorted(quota, key=lambda part: int(scale * quota[part]) - scale * quota[part])
    for part in by_remainder[: num_speakers - sum(counts.values())]:
        counts[part] += 1
    return counts


def _interleaved(shuffled: list[str], alike: Mapping[str, str]) -> list[str]:
    """The members of all groups, each group spread evenly over the list."""
    members: dict[str, list[str]] = {}
    for name in shuffled:
        members.setdefault(alike.get(name, ""), []).append(name)
    places = {name: (k + 0.5) / len(group) for group in members.values() for k, name in enumerate(group)}
    return sorted(shuffled, key=lambda name: places[name])  # a stable sort keeps ties shuffled
