"""The same tables for files that are read as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bochner.report.cells import Cell, text_of


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Lines of a Markdown table; a bar within a cell is escaped.

    >>> print(markdown_table(["map", "error"], [["|z|", 0.12345]]))
    | map | error |
    | --- | --- |
    | \\|z\\| | 0.123 |
    """
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(text_of(cell).replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
