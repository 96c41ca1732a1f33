"""Transcripts in NIST's trn format, which sclite reads: `tokens (speaker-utterance)`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from bochner.speech.files import numbered_lines
from bochner.speech.frames import FilePath
from bochner.speech.score.protocol import Protocol
from bochner.storage import write_atomically

SPECIAL = re.compile(r"[(){}/@;]")  # what sclite takes for alternatives, optional words and comments
LINE = re.compile(r"(?P<text>.*?)\s*\((?P<name>[^()\s]+)\)\s*")


def write_trn(
    path: FilePath, texts: Mapping[str, str], *, protocol: Protocol, speakers: Mapping[str, str] | None = None
) -> Path:
    """{utterance id: text} as `protocol` counts it, one line each, whole or not at all; gives the path.

    sclite takes what stands before the first dash of a name for the speaker: so the speaker is written first, with dots
    for dashes. Compare two files by
    `sctk sclite -s -e utf-8 -r ref.trn trn -h hyp.trn trn -i spu_id -o sum stdout`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = write_trn(folder + "/ref.trn", {"sa1": "yes no"}, protocol=Protocol(), speakers={"sa1": "ann"})
    ...     file.read_text(), read_trn(file)
    ('yes no (ann-sa1)\\n', {'ann-sa1': 'yes no'})
    """
    lines, spoken = [], _dotted(speakers or {})
    for name, text in texts.items():
        tokens = protocol.tokens(text)
        if strange := sorted({token for token in tokens if SPECIAL.search(token)}):
            raise ValueError(f"the tokens of {name!r} must be without ( ) {{ }} / @ ; for sclite, got {strange[:10]}.")
        lines.append(f"{' '.join(tokens)} ({_full_name(name, spoken)})\n")
    write_atomically(Path(path), "".join(lines).encode())
    return Path(path)


def read_trn(path: FilePath) -> dict[str, str]:
    """{name: text} of a trn file; a name is what stands in the brackets. Errors name the file and the line."""
    return dict(_read(Path(path)))


def _dotted(speakers: Mapping[str, str]) -> dict[str, str]:
    """{utterance: speaker} with dots in the names, once these are seen to keep speakers apart."""
    dotted = {speaker: speaker.replace("-", ".") for speaker in speakers.values()}
    if len(set(dotted.values())) < len(dotted):
        raise ValueError(f"speakers must differ by more than dashes and dots for sclite, got {sorted(dotted)[:10]}.")
    return {name: dotted[speaker] for name, speaker in speakers.items()}


def _full_name(name: str, speakers: Mapping[str, str]) -> str:
    full = f"{speakers[name] if speakers else 'all'}-{name}"
    if re.search(r"[()\s]", full):
        raise ValueError(f"names of utterances and speakers must be without brackets and spaces, got {full!r}.")
    return full


def _read(path: Path) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        found = LINE.fullmatch(line)
        if found is None or found["name"] in seen:
            fault = "is not `tokens (name)`" if found is None else f"has the name {found['name']!r} again"
            raise ValueError(f"{path}, line {number}, {fault}: {line[:60]!r}.")
        seen.add(found["name"])
        yield found["name"], " ".join(found["text"].split())
