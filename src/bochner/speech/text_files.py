"""Files of text and JSON lines: numbered lines, checked JSON, and the report of skipped utterances."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bochner.storage import write_atomically

FilePath = str | os.PathLike[str]
SKIPPED = "skipped.jsonl"


def parse_json(text: str | bytes) -> Any:
    """`json.loads` whose every failure is a ValueError, also for text nested too deeply for Python's parser.

    >>> parse_json('{"words": ["yes"]}')
    {'words': ['yes']}
    >>> parse_json(b"[" * 100_000)
    Traceback (most recent call last):
    ...
    ValueError: the JSON is nested too deeply
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error


def numbered_lines(path: FilePath) -> Iterator[tuple[int, str]]:
    """(1, first line), (2, second line), ... of a file in UTF-8; other bytes are an error that names the line.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     file = Path(directory, "names.txt")
    ...     _ = file.write_bytes(b"ann\\nbob\\n")
    ...     list(numbered_lines(file))
    [(1, 'ann'), (2, 'bob')]
    """
    for number, line in enumerate(Path(path).read_bytes().splitlines(), start=1):
        try:
            yield number, line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}, line {number}, is not UTF-8: {error}.") from error


class Skipped(NamedTuple):
    """An utterance (or file) that was left out, and the reason."""

    id: str
    reason: str


def write_skipped(directory: FilePath, skipped: Iterable[Skipped]) -> Path:
    """Write the report `skipped.jsonl` of a directory, one JSON line per entry."""
    lines = (json.dumps(entry._asdict(), ensure_ascii=False) + "\n" for entry in skipped)
    file = Path(directory) / SKIPPED
    write_atomically(file, "".join(lines).encode())
    return file


def read_skipped(directory: FilePath) -> list[Skipped]:
    """The entries that `write_skipped` wrote."""
    file = Path(directory) / SKIPPED
    try:
        return [Skipped(**parse_json(line)) for line in file.read_text(encoding="utf-8").splitlines()]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{file} is not a report of skipped utterances: {error}") from error


def summarize(skipped: Iterable[Skipped]) -> str:
    """The number of skipped utterances by reason, most frequent first, without details in brackets.

    >>> summarize([Skipped("a", "no samples"), Skipped("b", "stereo (2 channels)"), Skipped("c", "no samples")])
    '3 skipped: no samples (2), stereo (1)'
    >>> summarize([])
    'none skipped'
    """
    counts = Counter(entry.reason.partition(" (")[0] for entry in skipped)
    if not counts:
        return "none skipped"
    return f"{counts.total()} skipped: " + ", ".join(f"{reason} ({count})" for reason, count in counts.most_common())
