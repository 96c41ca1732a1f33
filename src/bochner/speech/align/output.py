"""Alignments of recordings as files: TextGrid, CTM, JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

from bochner.checks import one_of
from bochner.speech.align.labels import write_ctm
from bochner.speech.align.recordings import AlignedFiles, AlignedRecording
from bochner.speech.text_files import FilePath, write_skipped
from bochner.speech.textgrid import write_textgrid
from bochner.storage import write_atomically

FORMATS = ("textgrid", "ctm", "json", "csv")
TIERS = ("words", "phones")
GUESSED = "guessed.txt"


def write_alignments(
    output_dir: FilePath,
    aligned: AlignedFiles,
    *,
    formats: Sequence[str] = ("textgrid",),
    lexicon: FilePath | None = None,
) -> None:
    """Write all recordings in each format, skipped.jsonl, and guessed.txt: a lexicon of words pronounced by rule.

    "textgrid" and "json" write one file for each recording, NAME.TextGrid and NAME.json; "ctm" writes words.ctm and
    phones.ctm, "csv" segments.csv, for all of them. If the given `lexicon` is the guessed.txt of an earlier run in
    `output_dir`, which may have been corrected by hand, its lines stay and new words are added to it.
    """
    for name in formats:
        one_of("formats", name, FORMATS)
    target = Path(output_dir)
    target.mkdir(parents=True, exist_ok=True)
    for recording in aligned.recordings:
        file = target / recording.name
        file.parent.mkdir(parents=True, exist_ok=True)
        if "textgrid" in formats:
            tiers = {tier: [segment[:3] for segment in getattr(recording, tier)] for tier in TIERS}
            write_textgrid(f"{file}.TextGrid", tiers, duration=recording.duration)
        if "json" in formats:
            write_atomically(Path(f"{file}.json"), _json(recording))
    if "ctm" in formats:
        for tier in TIERS:
            rows = ((recording.name.replace(" ", "_"), getattr(recording, tier)) for recording in aligned.recordings)
            write_ctm(target / f"{tier}.ctm", rows)
    if "csv" in formats:
        write_atomically(target / "segments.csv", _csv(aligned.recordings))
    guessed = "".join(f"{word} {' '.join(phones)}\n" for word, phones in aligned.guessed.items())
    if lexicon is not None and Path(lexicon).resolve() == (target / GUESSED).resolve():
        before = (target / GUESSED).read_text(encoding="utf-8")
        guessed = before + ("" if before.endswith("\n") or not before else "\n") + guessed
    write_atomically(target / GUESSED, guessed.encode("utf-8"))
    write_skipped(target, aligned.skipped)


def _json(recording: AlignedRecording) -> bytes:
    content = {"recording": recording.name, "duration": recording.duration}
    tiers = {tier: [segment._asdict() for segment in getattr(recording, tier)] for tier in TIERS}
    return (json.dumps(content | tiers, ensure_ascii=False, indent=1) + "\n").encode("utf-8")


def _csv(recordings: Sequence[AlignedRecording]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["recording", "tier", "label", "start", "end", "confidence"])
    for recording in recordings:
        for tier in TIERS:
            writer.writerows([recording.name, tier, *segment] for segment in getattr(recording, tier))
    return text.getvalue().encode("utf-8")
