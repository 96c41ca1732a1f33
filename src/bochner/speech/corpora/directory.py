"""Any directory of recordings with transcripts."""

from __future__ import annotations

import csv
import logging
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bochner.checks import one_of, positive_int
from bochner.speech.audio import AudioError, recording_length
from bochner.speech.corpora.corpus_directory import (
    PreparedCorpus,
    recorded_utterance,
    source_directory,
    write_corpus,
)
from bochner.speech.manifest import PARTS, Utterance, split_speakers
from bochner.speech.text_files import FilePath, Skipped

logger = logging.getLogger(__name__)
MAX_RATE = 16000  # Hz by default: speech has little above half of it
AUDIO = (".wav", ".flac", ".ogg", ".opus", ".mp3", ".sph", ".aiff")
TABLES = {"transcripts.tsv": "\t", "transcripts.csv": ","}
COLUMNS = ("audio", "text", "speaker", "part")
SPEAKERS: dict[str, Callable[[Path], str]] = {
    "folder": lambda path: path.parent.name,
    "prefix": lambda path: path.stem.replace("-", "_").partition("_")[0],
    "file": lambda path: path.stem,
}


class Line(NamedTuple):
    """One recording: its path below the source directory, its text, and speaker and part if a table has them.

    The text is empty for a recording without speech, and None if there is no transcript.
    """

    audio: Path
    text: str | None
    speaker: str = ""
    part: str = ""


def prepare_directory(
    source: FilePath,
    directory: FilePath,
    *,
    speakers: str | None = None,
    sizes: Mapping[str, float] | None = None,
    seed: int = 0,
    rate: int | None = None,
    channel: int | None = None,
    language: str = "",
) -> PreparedCorpus:
    """Prepare a corpus directory from recordings with transcripts, in a directory or zip archive.

    Each recording has a .txt file of the same name beside it, or a line in a table transcripts.tsv or transcripts.csv
    with the columns audio and text and optionally speaker and part. An empty transcript means that there is no speech.
    Without a speaker in the table, `speakers` names the speaker: the "folder" of a recording, the "prefix" of its name
    up to - or _, or each "file" by itself (the parts then share voices); by default "folder", or "file" if there are
    fewer than four folders and nothing else is given. Parts that the table lacks are drawn by `seed` in
    `sizes` (70, 10, 10 and 10 percent of the speakers). Recordings are read at `rate`, by default the lowest of their
    rates but at most 16 kHz; of several channels the mean is used, or `channel`, counted from 0. A recording that
    cannot be used is reported in skipped.jsonl.
    """
    one_of("speakers", speakers, [None, *SPEAKERS])
    root = source_directory(source, directory)
    lines = list(_lines(root))
    if not lines:
        raise ValueError(f"source must hold recordings ({' '.join(AUDIO)}) with transcripts, got none in {root}.")
    speakers = speakers or _default_speakers(root, lines, sizes)
    speaker_of = {line.audio: line.speaker or _name(SPEAKERS[speakers](root / line.audio)) for line in lines}
    parts = _parts(lines, speaker_of, sizes, seed)
    rate = _common_rate(root, lines) if rate is None else positive_int("rate", rate)
    entries: list[Utterance | Skipped] = []
    for line in lines:
        name, speaker = _utterance_id(line.audio), speaker_of[line.audio]
        entries.append(
            recorded_utterance(
                root / line.audio, directory, rate=rate, channel=channel, id=name, speaker=speaker,
                part=line.part or parts[speaker], text=line.text, language=language,
            )
            if line.text is not None
            else Skipped(name, "no transcript")
        )  # fmt: skip
    return write_corpus(directory, entries + ([] if _table_in(root) else _without_recording(root)))


def _table_in(root: Path) -> Path | None:
    return next((root / name for name in TABLES if (root / name).is_file()), None)


def _without_recording(root: Path) -> list[Utterance | Skipped]:
    """Transcripts without a recording."""
    texts = (path for path in sorted(root.rglob("*.txt")) if not any(path.with_suffix(a).exists() for a in AUDIO))
    return [Skipped(_utterance_id(path.relative_to(root)), "no recording") for path in texts]


def _lines(root: Path) -> Iterator[Line]:
    if table := _table_in(root):
        yield from _table(table, TABLES[table.name])
        return
    for path in sorted(root.rglob("*")):
        if path.suffix.lower() in AUDIO:
            beside = path.with_suffix(".txt")
            text = _normal(beside.read_text(encoding="utf-8-sig")) if beside.is_file() else None
            yield Line(path.relative_to(root), text)


def _table(file: Path, delimiter: str) -> Iterator[Line]:
    with file.open(encoding="utf-8-sig", newline="") as lines:
        rows = csv.DictReader(lines, delimiter=delimiter, strict=True)
        header = rows.fieldnames or ()
        if not {"audio", "text"} <= set(header) or set(header) - set(COLUMNS):
            raise ValueError(
                f"{file} must have a header of audio and text, optionally {COLUMNS[2:]}, got {list(header)}."
            )
        for row in rows:
            if None in row or None in row.values():
                raise ValueError(f"{file}, line {rows.line_num}: expected {len(header)} fields, got another number.")
            path = Path(row["audio"])
            if path.is_absolute() or ".." in path.parts:
                raise ValueError(
                    f"{file}, line {rows.line_num}: audio must be below the directory, got {row['audio']!r}."
                )
            yield Line(path, _normal(row["text"]), _name(row.get("speaker", "")), row.get("part", "").strip())


def _parts(
    lines: Sequence[Line], speaker_of: Mapping[Path, str], sizes: Mapping[str, float] | None, seed: int
) -> dict[str, str]:
    names, listed = set(speaker_of.values()), {speaker_of[line.audio]: line.part for line in lines if line.part}
    if listed:
        if missing := sorted(names - set(listed)):
            raise ValueError(f"part must be given for all speakers or for none, missing for {missing}.")
        for part in listed.values():
            one_of("part", part, PARTS)
        return listed
    if sizes is None and len(names) < len(PARTS):
        raise ValueError(
            f"four parts need four speakers, got {sorted(names)}; give sizes such as {{'train': {len(names)}}}, or "
            "speakers='prefix' or 'file', or a table with the speakers."
        )
    return split_speakers(names, seed=seed, sizes=sizes)


def _default_speakers(root: Path, lines: Sequence[Line], sizes: Mapping[str, float] | None) -> str:
    folders = {SPEAKERS["folder"](root / line.audio) for line in lines}
    if sizes is not None or len(folders) >= len(PARTS) or any(line.speaker or line.part for line in lines):
        return "folder"
    logger.warning(
        "%s has recordings in %d folders: each recording is treated as a speaker, so error rates do not apply "
        "to other voices; use a folder for each speaker, a table with speakers, or --speakers",
        root, len(folders),
    )  # fmt: skip
    return "file"


def _common_rate(root: Path, lines: Sequence[Line]) -> int:
    """The lowest rate of the recordings, at most MAX_RATE: a higher one has bands that some of them lack."""
    rates, reason = set(), ""
    for line in lines:
        try:
            rates.add(recording_length(root / line.audio)[1])
        except AudioError as error:
            reason = str(error)
    if not rates:
        raise ValueError(f"none of the {len(lines)} recordings in {root} can be read; the last: {reason}")
    rate = min(MAX_RATE, *rates)
    if rates != {rate}:
        logger.info("recordings at %s Hz are resampled to %d Hz", ", ".join(map(str, sorted(rates))), rate)
    return rate


def _utterance_id(path: Path) -> str:
    return _name("-".join(path.with_suffix("").parts))


def _normal(text: str) -> str:
    """One Unicode form, single spaces."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def _name(text: str) -> str:
    """
    >>> _name("Mary Ann ")
    'Mary_Ann'
    """
    return "_".join(text.split())
