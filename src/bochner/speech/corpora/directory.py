"""Any folder of recordings and what is said in them."""

from __future__ import annotations

import csv
import os
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bochner.checks import one_of
from bochner.speech.audio import AudioError, recording_length
from bochner.speech.corpora.corpus_directory import Prepared, finish, recording_fields, source_folder
from bochner.speech.lexicon import read_lexicon
from bochner.speech.manifest import PARTS, Utterance, split_speakers
from bochner.speech.text_files import Skipped

AUDIO = (".wav", ".flac", ".ogg", ".opus", ".mp3", ".sph", ".aiff")
TABLES = {"transcripts.tsv": "\t", "transcripts.csv": ","}
COLUMNS = ("audio", "text", "speaker", "part")
SPEAKERS: dict[str, Callable[[Path], str]] = {
    "folder": lambda path: path.parent.name,
    "prefix": lambda path: path.stem.replace("-", "_").partition("_")[0],
    "file": lambda path: path.stem,
}


class Line(NamedTuple):
    """One recording: its path below the folder, its text, and where a table says so its speaker and part."""

    audio: Path
    text: str
    speaker: str = ""
    part: str = ""


def prepare_folder(
    source: str | os.PathLike[str],
    directory: str | os.PathLike[str],
    *,
    speakers: str = "folder",
    sizes: Mapping[str, float] | None = None,
    seed: int = 0,
    rate: int | None = None,
    lexicon: str | os.PathLike[str] | None = None,
    language: str = "",
) -> Prepared:
    """Make a corpus directory of a folder (or its zip archive) of recordings, each with a .txt of the same name beside
    it, or with a table transcripts.tsv or transcripts.csv whose header names audio and text, perhaps speaker and part.

    Without a speaker in the table, `speakers` says who speaks: the "folder" a recording lies in, the "prefix" of its
    name up to - or _, or each "file" by itself, which is right where one person speaks in all (parts then hold the
    same voice). Parts the table does not give are drawn by `seed` in `sizes` (70, 10, 10 and 10 percent of the
    speakers). All recordings must have one rate, `rate` or else that of the first. A recording that cannot be used is
    reported in skipped.jsonl. Words missing in the `lexicon`, a file that is then copied, are an error.
    """
    one_of("speakers", speakers, SPEAKERS)
    folder = source_folder(source, directory)
    lines = list(_lines(folder))
    if not lines:
        raise ValueError(f"source must hold recordings ({' '.join(AUDIO)}) with transcripts, got none in {folder}.")
    said_by = {line.audio: line.speaker or _name(SPEAKERS[speakers](folder / line.audio)) for line in lines}
    parts = _parts(lines, said_by, sizes, seed)
    rate = _first_rate(folder, lines) if rate is None else rate
    found = [_utterance(folder, line, said_by[line.audio], parts, Path(directory), rate, language) for line in lines]
    found += [] if _table_in(folder) else _alone(folder)
    words = None if lexicon is None else read_lexicon(lexicon)
    if words is not None:
        words.require(token for said in found if isinstance(said, Utterance) for token in said.tokens)
    return finish(directory, found, lexicon=words)


def _table_in(folder: Path) -> Path | None:
    return next((folder / name for name in TABLES if (folder / name).is_file()), None)


def _alone(folder: Path) -> list[Skipped]:
    """Transcripts without a recording."""
    texts = (path for path in sorted(folder.rglob("*.txt")) if not any(path.with_suffix(a).exists() for a in AUDIO))
    return [Skipped(_name("-".join(path.relative_to(folder).with_suffix("").parts)), "no recording") for path in texts]


def _lines(folder: Path) -> Iterator[Line]:
    if table := _table_in(folder):
        yield from _table(table, TABLES[table.name])
        return
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in AUDIO:
            beside = path.with_suffix(".txt")
            text = beside.read_text(encoding="utf-8-sig") if beside.is_file() else ""
            yield Line(path.relative_to(folder), _normal(text))


def _table(file: Path, delimiter: str) -> Iterator[Line]:
    with file.open(encoding="utf-8-sig", newline="") as lines:
        rows = csv.DictReader(lines, delimiter=delimiter, strict=True)
        header = rows.fieldnames or ()
        if not {"audio", "text"} <= set(header) or set(header) - set(COLUMNS):
            raise ValueError(f"{file} must have a header of audio and text, perhaps {COLUMNS[2:]}, got {list(header)}.")
        for row in rows:
            if None in row or None in row.values():
                raise ValueError(f"{file}, line {rows.line_num}: expected {len(header)} fields, got another number.")
            path = Path(row["audio"])
            if path.is_absolute() or ".." in path.parts:
                raise ValueError(f"{file}, line {rows.line_num}: audio must be below the folder, got {row['audio']!r}.")
            yield Line(path, _normal(row["text"]), _name(row.get("speaker", "")), row.get("part", "").strip())


def _parts(
    lines: Sequence[Line], said_by: Mapping[Path, str], sizes: Mapping[str, float] | None, seed: int
) -> dict[str, str]:
    given = {said_by[line.audio]: line.part for line in lines if line.part}
    if given:
        if missing := sorted(set(said_by.values()) - set(given)):
            raise ValueError(f"part must be given for all speakers or for none, missing for {missing}.")
        for part in given.values():
            one_of("part", part, PARTS)
        return given
    names = set(said_by.values())
    if sizes is None and len(names) < len(PARTS):
        raise ValueError(
            f"four parts need four speakers, got {sorted(names)}; give sizes such as {{'train': {len(names)}}}, or "
            "speakers='prefix' or 'file', or a table with the speakers."
        )
    return split_speakers(names, seed=seed, sizes=sizes)


def _first_rate(folder: Path, lines: Sequence[Line]) -> int:
    reason = ""
    for line in lines:
        try:
            return recording_length(folder / line.audio)[1]
        except AudioError as error:
            reason = str(error)
    raise ValueError(f"none of the {len(lines)} recordings in {folder} can be read; the last: {reason}")


def _utterance(
    folder: Path, line: Line, speaker: str, parts: Mapping[str, str], directory: Path, rate: int, language: str
) -> Utterance | Skipped:
    name = _name("-".join(line.audio.with_suffix("").parts))
    if not line.text:
        return Skipped(name, "no transcript")
    try:
        recording = recording_fields(folder / line.audio, directory, rate=rate)
    except AudioError as error:
        return Skipped(name, error.reason)
    part = line.part or parts[speaker]  # a speaker that a table puts into two is found by the manifest's own check
    return Utterance(id=name, speaker=speaker, part=part, text=line.text, language=language, **recording)


def _normal(text: str) -> str:
    """One Unicode form, single spaces."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def _name(text: str) -> str:
    """
    >>> _name("Mary Ann ")
    'Mary_Ann'
    """
    return "_".join(text.split())
