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

from bochner.speech.audio import num_channels, recording_length
from bochner.speech.corpora.corpus_directory import PreparedCorpus, relative, write_corpus
from bochner.speech.manifest import Segment, Utterance, split_speakers
from bochner.speech.text_files import FilePath, Skipped
from bochner.storage import write_atomically

RECORDINGS, SUPERVISIONS = "recordings.jsonl", "supervisions.jsonl"
DIGITS = 8  # decimals of lhotse's times


def write_lhotse(utterances: Iterable[Utterance], directory: FilePath, *, corpus_dir: FilePath) -> tuple[Path, Path]:
    """Write recordings.jsonl and supervisions.jsonl of the utterances of the manifest in `corpus_dir`.

    Words and phones become the alignments "word" and "phone"; part and synthetic are stored in the field custom.
    """
    recordings: dict[str, dict[str, Any]] = {}
    supervisions = []
    for utterance in utterances:
        if utterance.audio is None:
            raise ValueError(f"utterance {utterance.id!r} has frames only; lhotse's recordings are audio.")
        if utterance.audio not in recordings:
            recordings[utterance.audio] = _recording(utterance.audio, Path(corpus_dir).resolve() / utterance.audio)
        supervisions.append(_supervision(utterance, recordings[utterance.audio]["channel_ids"]))
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    for name, lines in ((RECORDINGS, recordings.values()), (SUPERVISIONS, supervisions)):
        write_atomically(target / name, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode())
    return target / RECORDINGS, target / SUPERVISIONS


def prepare_lhotse(
    recordings: FilePath,
    supervisions: FilePath,
    directory: FilePath,
    *,
    part: str | None = None,
    sizes: Mapping[str, float] | None = None,
    seed: int = 0,
) -> PreparedCorpus:
    """Prepare a corpus directory from lhotse's two files (.jsonl or .jsonl.gz).

    The part of an utterance is `part` or that in its field custom; otherwise the speakers are split by `seed` in
    `sizes`. Paths are relative to the recordings file. An utterance of several channels is their mean, which must be
    that of all channels of the file. Utterances without a recording are skipped.
    """
    with _naming(recordings):
        lines = _lines(Path(recordings), ("id", "sources", "sampling_rate", "num_samples"))
        known = {line["id"]: line for line in lines}
    with _naming(supervisions):
        entries = list(_lines(Path(supervisions), ("id", "recording_id", "start", "duration")))
        parts = _parts(entries, part, sizes, seed)
    utterances = (_utterance(entry, known, parts, Path(recordings).parent, Path(directory)) for entry in entries)
    return write_corpus(directory, utterances)


@contextmanager
def _naming(file: FilePath) -> Iterator[None]:
    """Turn errors about the values of a file into errors that name it."""
    try:
        yield
    except (AttributeError, TypeError, ValueError) as error:
        if str(file) in str(error):
            raise
        raise ValueError(f"{os.fspath(file)}: {error}") from error


def _recording(name: str, path: Path) -> dict[str, Any]:
    count, rate = recording_length(path)
    channels = list(range(num_channels(path)))
    source = {"type": "file", "channels": channels, "source": str(path)}
    sizes = {"sampling_rate": rate, "num_samples": count, "duration": count / rate}
    return {"id": name, "sources": [source], **sizes, "channel_ids": channels}


def _supervision(utterance: Utterance, channels: list[int]) -> dict[str, Any]:
    mean = 0 if channels == [0] else channels
    alignment = {
        kind: [[label, _round(utterance.start + start), _round(end - start)] for label, start, end in segments]
        for kind, segments in (("word", utterance.words), ("phone", utterance.phones))
        if segments
    }
    return {
        "id": utterance.id,
        "recording_id": utterance.audio,
        "start": _round(utterance.start),
        "duration": _round(utterance.duration),
        "channel": mean if utterance.channel is None else utterance.channel,
        "text": utterance.text,
        "speaker": utterance.speaker,
        **({"language": utterance.language} if utterance.language else {}),
        "custom": {"part": utterance.part, "synthetic": utterance.synthetic},
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
        raise ValueError(f"{file} cannot be decompressed: {error}; it is damaged or truncated.") from error


def _parts(
    entries: list[dict[str, Any]], part: str | None, sizes: Mapping[str, float] | None, seed: int
) -> dict[str, str]:
    """The part of each utterance, by its id."""
    parts = {entry["id"]: part or (entry.get("custom") or {}).get("part") for entry in entries}
    if None not in parts.values():
        return {name: str(parts[name]) for name in parts}
    of_speaker = split_speakers((_speaker(entry) for entry in entries), seed=seed, sizes=sizes)
    return {entry["id"]: of_speaker[_speaker(entry)] for entry in entries}


def _speaker(supervision: Mapping[str, Any]) -> str:
    return str(supervision.get("speaker") or supervision["recording_id"])


def _utterance(
    entry: dict[str, Any], known: Mapping[str, Any], parts: Mapping[str, str], beside: Path, directory: Path
) -> Utterance | Skipped:
    name = str(entry["id"])
    recording = known.get(entry["recording_id"])
    if recording is None:
        return Skipped(name, f"no recording ({entry['recording_id']})")
    sources = recording["sources"]
    if len(sources) != 1 or sources[0].get("type") != "file":
        return Skipped(name, "no file (a recording must be one file)")
    alignment = entry.get("alignment") or {}
    try:
        return Utterance(
            id=name, speaker=_speaker(entry), part=parts[entry["id"]],
            text=" ".join(str(entry.get("text") or "").split()),
            audio=relative(beside / sources[0]["source"], directory), rate=recording["sampling_rate"],
            channel=_channel(entry.get("channel", 0), sources[0].get("channels", [0])),
            start=entry["start"], duration=entry["duration"], words=_segments(alignment.get("word", ()), entry),
            phones=_segments(alignment.get("phone", ()), entry), language=entry.get("language") or "",
            synthetic=bool((entry.get("custom") or {}).get("synthetic", False)),
        )  # fmt: skip
    except (TypeError, ValueError, KeyError) as error:
        return Skipped(name, str(error))


def _channel(channel: Any, channels: list[int]) -> int | None:
    """The channel of an utterance in a file with `channels`; None for all."""
    chosen = sorted(channel) if isinstance(channel, list) else [channel]
    if chosen == sorted(channels):
        return None
    if len(chosen) > 1 or chosen[0] not in channels:
        raise ValueError(f"channel must be one of {channels}, or all, got {channel}.")
    return int(chosen[0])


def _segments(items: Iterable[Any], entry: Mapping[str, Any]) -> tuple[Segment, ...]:
    """[symbol, start in the recording, duration, ...] -> segments that count from the start of the utterance."""
    segments = []
    for symbol, start, duration, *_ in items:
        first = max(_round(start - entry["start"]), 0.0)
        segments.append(Segment(symbol, first, min(_round(first + duration), entry["duration"])))
    return tuple(segments)


def _round(seconds: float) -> float:
    return round(seconds, DIGITS)
