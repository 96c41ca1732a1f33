"""Kaldi's data directories (wav.scp, segments, text, utt2spk, feats.scp), read and written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bochner.checks import positive_float
from bochner.speech.audio import AudioError, recording_length
from bochner.speech.corpora.corpus_directory import PreparedCorpus, relative, write_corpus
from bochner.speech.kaldi_formats import read_matrix
from bochner.speech.manifest import PARTS, Utterance
from bochner.speech.text_files import FilePath, Skipped
from bochner.storage import write_atomically


def prepare_kaldi(
    sources: Mapping[str, FilePath],
    directory: FilePath,
    *,
    root: FilePath = ".",
    frame_shift: float = 0.01,
    language: str = "",
) -> PreparedCorpus:
    """Prepare a corpus directory from Kaldi data directories, one for each part: {"train": "data/train", ...}.

    Requires text and utt2spk, and wav.scp (optionally with segments) or feats.scp, or both. Paths in them are relative
    to `root`. A wav.scp line with a command (`sph2pipe ... |`) is not run but reported as skipped, as is an utterance
    that is missing in one of the files.
    """
    positive_float("frame_shift", frame_shift)
    entries: list[Utterance | Skipped] = []
    for part, source in sources.items():
        if part not in PARTS:
            raise ValueError(f"sources must name parts of {PARTS}, got {part!r}.")
        entries.extend(_read(Path(source), part, Path(directory), Path(root), frame_shift, language))
    return write_corpus(directory, entries)


def write_kaldi(utterances: Iterable[Utterance], directory: FilePath, *, corpus_dir: FilePath) -> None:
    """Write data directories `directory`/train, ... of the utterances of the manifest in `corpus_dir`.

    Each has wav.scp and segments if there is audio, feats.scp if there are frames (in archives, not .npy files), text,
    utt2spk and spk2utt, sorted by bytes as Kaldi requires.
    """
    by_part: dict[str, list[Utterance]] = {}
    for utterance in utterances:
        by_part.setdefault(utterance.part, []).append(utterance)
    for part, members in by_part.items():
        target = Path(directory) / part
        target.mkdir(parents=True, exist_ok=True)
        for name, table in _tables(members, Path(corpus_dir).resolve()).items():
            lines = sorted(f"{key} {value}".rstrip().encode() for key, value in table.items())
            write_atomically(target / name, b"".join(line + b"\n" for line in lines))


def read_table(path: Path) -> dict[str, str]:
    """Lines `key value`, where the value is the rest of the line; a repeated key is an error."""
    table: dict[str, str] = {}
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        try:
            key, _, value = line.decode("utf-8").strip().partition(" ")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}, line {number}: not UTF-8 ({error}).") from error
        if key in table:
            raise ValueError(f"{path}, line {number}: {key!r} is given twice.")
        if key:
            table[key] = value.strip()
    return table


def _read(
    source_dir: Path, part: str, directory: Path, root: Path, frame_shift: float, language: str
) -> Iterator[Utterance | Skipped]:
    text, speakers = read_table(source_dir / "text"), read_table(source_dir / "utt2spk")
    tables = {
        name: read_table(source_dir / name) if (source_dir / name).is_file() else {}
        for name in ("wav.scp", "segments", "feats.scp", "utt2num_frames")
    }
    if not (tables["wav.scp"] or tables["feats.scp"]):
        raise ValueError(f"{source_dir} must hold wav.scp or feats.scp, got neither.")
    for name in sorted(speakers.keys() | text.keys()):
        if name not in speakers or name not in text:
            yield Skipped(name, f"not in {'utt2spk' if name not in speakers else 'text'}")
            continue
        try:
            source = _source(name, tables, directory, root, frame_shift, source_dir)
        except AudioError as error:
            yield Skipped(name, error.reason)
            continue
        except (ValueError, OSError) as error:
            yield Skipped(name, str(error))
            continue
        words = " ".join(text[name].split())
        yield Utterance(id=name, speaker=speakers[name], part=part, text=words, language=language, **source)


def _source(
    name: str,
    tables: Mapping[str, Mapping[str, str]],
    directory: Path,
    root: Path,
    frame_shift: float,
    source_dir: Path,
) -> dict[str, Any]:
    """The fields of an utterance that locate its samples or frames."""
    fields: dict[str, Any] = {}
    if tables["wav.scp"]:
        fields |= _audio(name, tables, directory, root, source_dir)
    if tables["feats.scp"]:
        if name not in tables["feats.scp"]:
            raise ValueError("not in feats.scp")
        fields |= {"frames": _archive(tables["feats.scp"][name], directory, root), "frame_shift": frame_shift}
    if "duration" not in fields:
        fields["duration"] = frame_shift * _num_frames(name, tables, root)
    return fields


def _audio(
    name: str, tables: Mapping[str, Mapping[str, str]], directory: Path, root: Path, source_dir: Path
) -> dict[str, Any]:
    recording, start, end = name, 0.0, None
    if tables["segments"]:
        if name not in tables["segments"]:
            raise ValueError("not in segments")
        recording, start, end = _segment(tables["segments"][name], source_dir)
    if recording not in tables["wav.scp"]:
        raise ValueError(f"not in wav.scp (recording {recording})")
    source = tables["wav.scp"][recording]
    if source.endswith("|"):
        raise ValueError(f"command in wav.scp ({source}; run it once and name the file)")
    count, rate = recording_length(root / source)
    if count == 0:
        raise ValueError("no samples")
    duration = (count / rate if end is None else min(end, count / rate)) - start
    if duration <= 0:
        raise ValueError(f"segment outside of the recording ({start} s to {end} s of {count / rate:.3f} s)")
    audio = relative(root / source, directory)
    return {"audio": audio, "rate": rate, "start": start, "duration": duration}


def _segment(line: str, source_dir: Path) -> tuple[str, float, float | None]:
    fields = line.split()
    try:
        recording, start, end = fields[0], float(fields[1]), float(fields[2])
    except (IndexError, ValueError) as error:
        raise ValueError(f"broken line (segments: {line!r} in {source_dir})") from error
    return recording, start, None if end < 0 else end  # Kaldi's -1: to the end


def _archive(place: str, directory: Path, root: Path) -> str:
    path, colon, offset = place.rpartition(":")
    if not colon or not offset.isdecimal():
        raise ValueError(f"no place in an archive (feats.scp: {place!r}, expected file.ark:offset)")
    return f"{relative(root / path, directory)}:{offset}"


def _num_frames(name: str, tables: Mapping[str, Mapping[str, str]], root: Path) -> int:
    if name in tables["utt2num_frames"]:
        return int(tables["utt2num_frames"][name])
    path, _, offset = tables["feats.scp"][name].rpartition(":")
    return len(read_matrix(f"{root / path}:{offset}"))


def _tables(members: Iterable[Utterance], corpus_dir: Path) -> dict[str, dict[str, str]]:
    tables: dict[str, dict[str, str]] = {name: {} for name in ("text", "utt2spk", "spk2utt", "utt2dur")}
    for utterance in sorted(members, key=lambda utterance: utterance.id.encode()):
        tables["text"][utterance.id] = utterance.text
        tables["utt2spk"][utterance.id] = utterance.speaker
        tables["spk2utt"][utterance.speaker] = f"{tables['spk2utt'].get(utterance.speaker, '')} {utterance.id}".strip()
        tables["utt2dur"][utterance.id] = f"{utterance.duration:.6f}"
        if utterance.channel is not None:
            raise ValueError(
                f"utterance {utterance.id!r} is channel {utterance.channel} of {utterance.audio}, but wav.scp names "
                "whole files; write the channel to a file of its own."
            )
        if utterance.audio is not None:
            recording = utterance.audio.replace("/", "_").replace(" ", "_")
            tables.setdefault("wav.scp", {})[recording] = str(corpus_dir / utterance.audio)
            times = f"{recording} {utterance.start:.6f} {utterance.start + utterance.duration:.6f}"
            tables.setdefault("segments", {})[utterance.id] = times
        if utterance.frames is not None:
            if utterance.frames.endswith(".npy"):
                raise ValueError(
                    f"utterance {utterance.id!r} has its frames in {utterance.frames}, not in an archive (.ark)."
                )
            tables.setdefault("feats.scp", {})[utterance.id] = str(corpus_dir / utterance.frames)
    return tables
