"""Praat TextGrids with interval tiers, read in the long and the short text format and written in the long one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from bochner.speech.manifest import Segment
from bochner.speech.text_files import FilePath
from bochner.storage import write_atomically

# Praat's text formats differ in their labels only: what counts are quoted strings, numbers and <exists>, in order.
_VALUE = re.compile(r'"((?:[^"]|"")*)"|(?<![\w\[])(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?![\w\]])|<exists>')
INTERVALS, POINTS = "IntervalTier", "TextTier"
BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}


def read_textgrid(path: FilePath) -> dict[str, tuple[Segment, ...]]:
    """The interval tiers by name, each with all its intervals, empty ones included; point tiers are left out."""
    content = Path(path).read_bytes()
    encoding = next((name for mark, name in BYTE_ORDER_MARKS.items() if content.startswith(mark)), "utf-8")
    try:
        return _tiers(content.decode(encoding))
    except (ValueError, IndexError) as error:  # a UnicodeDecodeError is a ValueError
        raise ValueError(f"{path} is not a TextGrid in Praat's text format: {error}.") from error


def _tiers(text: str) -> dict[str, tuple[Segment, ...]]:
    values: list[str | float] = [
        float(match[2]) if match[2] is not None else (match[1] or "").replace('""', '"')
        for match in _VALUE.finditer(text)
    ]
    if values[1:2] != ["TextGrid"]:
        raise ValueError('it does not begin with "ooTextFile" and "TextGrid"')
    place, tiers = 6, {}  # after the two strings: start, end, <exists>, number of tiers
    for _ in range(int(values[5])):
        kind, name, count = values[place], str(values[place + 1]), int(values[place + 4])
        width = {INTERVALS: 3, POINTS: 2}.get(str(kind))
        if width is None:
            raise ValueError(f"a tier must be an {INTERVALS} or a {POINTS}, got {kind!r}")
        rows = [values[start : start + width] for start in range(place + 5, place + 5 + width * count, width)]
        if kind == INTERVALS:
            tiers[name] = tuple(Segment(str(label), float(start), float(end)) for start, end, label in rows)
        place += 5 + width * count
    return tiers


def write_textgrid(path: FilePath, tiers: Mapping[str, Sequence[tuple[str, float, float]]], *, duration: float) -> None:
    """Write tiers of (label, start, end) atomically; times without a segment become empty intervals, as Praat requires.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     write_textgrid(directory + "/a.TextGrid", {"words": [("yes", 0.25, 0.5)]}, duration=1.0)
    ...     [tuple(segment) for segment in read_textgrid(directory + "/a.TextGrid")["words"]]
    [('', 0.0, 0.25), ('yes', 0.25, 0.5), ('', 0.5, 1.0)]
    """
    write_atomically(Path(path), format_textgrid(tiers, duration=duration).encode("utf-8"))


def format_textgrid(tiers: Mapping[str, Sequence[tuple[str, float, float]]], *, duration: float) -> str:
    """The content of the file that `write_textgrid` writes."""
    head = ['File type = "ooTextFile"', 'Object class = "TextGrid"', "", "xmin = 0", f"xmax = {duration:.6f}"]
    lines = [*head, "tiers? <exists>", f"size = {len(tiers)}", "item []:"]
    for number, (name, segments) in enumerate(tiers.items(), start=1):
        filled = _filled(segments, duration)
        lines += [f"    item [{number}]:", f'        class = "{INTERVALS}"', f'        name = "{_quoted(name)}"']
        lines += ["        xmin = 0", f"        xmax = {duration:.6f}", f"        intervals: size = {len(filled)}"]
        for place, (label, start, end) in enumerate(filled, start=1):
            lines += [
                f"        intervals [{place}]:",
                f"            xmin = {start:.6f}",
                f"            xmax = {end:.6f}",
            ]
            lines += [f'            text = "{_quoted(label)}"']
    return "\n".join(lines) + "\n"


def _filled(segments: Sequence[tuple[str, float, float]], duration: float) -> list[tuple[str, float, float]]:
    filled: list[tuple[str, float, float]] = []
    last = 0.0
    for label, start, end in segments:
        if start > last:
            filled.append(("", last, start))
        filled.append((label, start, min(end, duration)))
        last = end
    if last < duration:
        filled.append(("", last, duration))
    return filled


def _quoted(text: str) -> str:
    return text.replace('"', '""')
