"""The part of a larger page of results that is written by a command."""

from __future__ import annotations

from pathlib import Path

from bochner.storage import write_atomically
from bochner.studies.reporting import WRITTEN

BEGIN, END = "<!-- bochner study report: begin -->", "<!-- bochner study report: end -->"


def write_results(path: Path, part: str) -> None:
    """A new file of `part` alone, or a page whose part between the lines `BEGIN` and `END` is replaced.

    Any other page stays as it is: it may be somebody's work.
    """
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    write_atomically(path, (part if text.startswith(WRITTEN) or not text else between(text, part, path)).encode())


def between(text: str, part: str, path: Path) -> str:
    """
    >>> print(between(f"above\\n{BEGIN}\\nold\\n{END}\\nbelow", "new\\n", Path("RESULTS.md")))
    above
    <!-- bochner study report: begin -->
    new
    <!-- bochner study report: end -->
    below
    """
    before, begun, rest = text.partition(f"{BEGIN}\n")
    _, ended, after = rest.partition(END)
    if not begun or not ended:
        raise ValueError(f"results: {path} must have the lines {BEGIN!r} and {END!r}, between which the overview goes.")
    return f"{before}{begun}{part}{ended}{after}"
