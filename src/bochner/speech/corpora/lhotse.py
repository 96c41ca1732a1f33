"""Manifests of lhotse: its recordings and supervisions as JSON lines, read and written without lhotse itself."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bochner.speech.audio import recording_length
from bochner.speech.corpora.corpus_directory import Prepared, finish, relative
from bochner.speech.manifest import Segment, Utterance, split_speakers
from bochner.speech.text_files import Skipped
from bochner.storage import write_atomically

RECORDINGS, SUPERVISIONS = "recordings.jsonl", "supervisions.jsonl"
DIGITS = 8  # decimals of lhotse's times


def write_lhotse(
    utterances: Iterable[Utterance], directory: str | os.PathLike[str], *, folder: str | os.PathLike[str]
) -> tuple[Path, Path]:
    """Write recordings.jsonl and supervisions.jsonl of a manifest's utterances; `folder` is that of the manifest.

    Words and phones become the alignments "word" and "phone"; part and synthetic stand in the field custom.
    """
    recordings: dict[str, dict[str, Any]] = {}
    supervisions = []
    for said in utterances:
        if said.audio is None:
            raise ValueError(f"utterance {said.id!r} has frames only; lhotse's recordings are audio.")
        if said.audio not in recordings:
            recordings[said.audio] = _recording(said.audio, Path(folder).resolve() / said.audio)
        supervisions.append(_supervision(said))
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    for name, lines in ((RECORDINGS, recordings.values()), (SUPERVISIONS, supervisions)):
        write_atomically(target / name, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode())
    return target / RECORDINGS, target / SUPERVISIONS


def prepare_lhotse(
    recordings: str | os.PathLike[str],
    supervisions: str | os.PathLike[str],
    directory: str | os.PathLike[str],
    *,
    part: str | None = None,
    sizes: Mapping[str, float] | None = None,
    seed: int = 0,
) -> Prepared:
    """Make a corpus directory of lhotse's two files (.jsonl or .jsonl.gz), whose recordings are files of one channel.

    The part of an utterance is `part`, or that in its field custom, or else all speakers are split by `seed` in
    `sizes`. Paths are relative to the recordings file. What has several channels, or no recording, is skipped.
    """
    with _naming(recordings):
        lines = _lines(Path(recordings), ("id", "sources", "sampling_rate", "num_samples"))
        known = {line["id"]: line for line in lines}
    with _naming(supervisions):
        said = list(_lines(Path(supervisions), ("id", "recording_id", "start", "duration")))
        parts = _parts(said, part, sizes, seed)
    found = (_utterance(one, known, parts, Path(recordings).parent, Path(directory)) for one in said)
    return finish(directory, found)


@contextmanager
def _naming(file: str | os.PathLike[str]) -> Iterator[None]:
    """Whatever is wrong with the values of a file is an error that names it."""
    try:
        yield
    except (AttributeError, TypeError, ValueError) as error:
        if str(file) in str(error):
            raise
        raise ValueError(f"{os.fspath(file)}: {error}") from error


def _recording(name: str, path: Path) -> dict[str, Any]:
    count, rate = recording_length(path)
    return {
        "id": name,
        "sources": [{"type": "file", "channels": [0], "source": str(path)}],
        "sampling_rate": rate,
        "num_samples": count,
        "duration": count / rate,
        "channel_ids": [0],
    }


def _supervision(said: Utterance) -> dict[str, Any]:
    alignment = {
        kind: [[label, _round(said.start + start), _round(end - start)] for label, start, end in segments]
        for kind, segments in (("word", said.words), ("phone", said.phones))
        if segments
    }
    return {
        "id": said.id,
        "recording_id": said.audio,
        "start": _round(said.start),
        "duration": _round(said.duration),
        "channel": 0,
        "text": said.text,
        "speaker": said.speaker,
        **({"language": said.language} if said.language else {}),
        "custom": {"part": said.part, "synthetic": said.synthetic},
        **({"alignment": alignment} if alignment else {}),
    }


def _lines(file: Path, fields: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(_bytes(file).splitlines(), start=1):
        try:
            stored = json.loads(line)
            if not isinstance(stored, dict) or any(field not in stored for field in fields):
                raise ValueError(f"expected an object with {', '.join(fields)}")
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{file}, line {number}: {error}.") from error
        yield stored


def _bytes(file: Path) -> bytes:
    content = file.read_bytes()
    if file.suffix != ".gz":
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{file} cannot be decompressed: {error}; it is damaged or cut short.") from error


def _parts(
    said: list[dict[str, Any]], part: str | None, sizes: Mapping[str, float] | None, seed: int
) -> dict[str, str]:
    """The part of each utterance, by its id."""
    given = {one["id"]: part or (one.get("custom") or {}).get("part") for one in said}
    if None not in given.values():
        return {name: str(given[name]) for name in given}
    of_speaker = split_speakers((_speaker(one) for one in said), seed=seed, sizes=sizes)
    return {one["id"]: of_speaker[_speaker(one)] for one in said}


def _speaker(supervision: Mapping[str, Any]) -> str:
    return str(supervision.get("speaker") or supervision["recording_id"])


def _utterance(
    one: dict[str, Any], known: Mapping[str, Any], parts: Mapping[str, str], beside: Path, directory: Path
) -> Utterance | Skipped:
    name = str(one["id"])
    recording = known.get(one["recording_id"])
    if recording is None:
        return Skipped(name, f"no recording ({one['recording_id']})")
    sources = recording["sources"]
    if len(sources) != 1 or sources[0].get("type") != "file" or sources[0].get("channels") != [0]:
        return Skipped(name, "stereo or no file (a recording must be one file of one channel)")
    alignment = one.get("alignment") or {}
    try:
        return Utterance(
            id=name,
            speaker=_speaker(one),
            part=parts[one["id"]],
            text=" ".join(str(one.get("text") or "").split()),
            audio=relative(beside / sources[0]["source"], directory),
            rate=recording["sampling_rate"],
            start=one["start"],
            duration=one["duration"],
            words=_segments(alignment.get("word", ()), one),
            phones=_segments(alignment.get("phone", ()), one),
            language=one.get("language") or "",
            synthetic=bool((one.get("custom") or {}).get("synthetic", False)),
        )
    except (TypeError, ValueError, KeyError) as error:
        return Skipped(name, str(error))


def _segments(items: Iterable[Any], one: Mapping[str, Any]) -> tuple[Segment, ...]:
    """[symbol, start in the recording, duration, perhaps a score] -> from the utterance's own beginning."""
    segments = []
    for symbol, start, duration, *_ in items:
        first = max(_round(start - one["start"]), 0.0)
        segments.append(Segment(symbol, first, min(_round(first + duration), one["duration"])))
    return tuple(segments)


def _round(seconds: float) -> float:
    return round(seconds, DIGITS)
