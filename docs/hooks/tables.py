"""Columns of numbers are right-aligned; pages of measurements come last in the results of a search."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

SEPARATOR = re.compile(r"\|( *:?-+:? *\|)+")
NUMBER = re.compile(  # with the minus, times and dash signs of typography
    r"[-+\u2212]?[\d.,]+([eE][-+]?\d+)?( ?[%\u00d7]| s| h)?( ± [\d.,]+( ?%)?)?( \([^()]*\))?|[-\u2013\u2014]?"
)
MEASUREMENTS = ("benchmarks_", "findings", "reliability", "migration")
BOOST = 0.5  # of their scores in a search: a reader looks for a guide or the reference first


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    if page.file.name.startswith(MEASUREMENTS):
        page.meta.setdefault("search", {}).setdefault("boost", BOOST)
    return align_numbers(markdown)


def align_numbers(markdown: str) -> str:
    r"""The page with an alignment for columns of numbers, except the first, that have none.

    >>> print(align_numbers("| map | error | note |\n|---|---|---|\n| a | 1.5 ± 0.1 | b |\n| c | **12** | 3 of 4 |"))
    | map | error | note |
    | --- | ---: | --- |
    | a | 1.5 ± 0.1 | b |
    | c | **12** | 3 of 4 |
    >>> align_numbers("```text\n| a | b |\n|---|---|\n| c | 1 |\n```").count("---:")
    0
    """
    return "\n".join(_aligned(markdown.split("\n")))


def _aligned(lines: list[str]) -> Iterator[str]:
    is_code = False
    for place, line in enumerate(lines):
        is_code ^= line.lstrip().startswith("```")
        if is_code or not SEPARATOR.fullmatch(line.strip()):
            yield line
            continue
        rows = [_cells(row) for row in takewhile(lambda row: row.startswith("|"), lines[place + 1 :])]
        alignments = [
            "---:" if column and ":" not in alignment and _is_numeric(rows, column) else alignment
            for column, alignment in enumerate(_cells(line))
        ]
        yield f"| {' | '.join(alignments)} |"


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def _is_numeric(rows: list[list[str]], column: int) -> bool:
    cells = [row[column].strip("*") for row in rows if column < len(row)]
    return any(cells) and all(NUMBER.fullmatch(cell) for cell in cells)
