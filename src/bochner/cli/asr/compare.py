"""`bochner asr compare`: the comparisons of several runs in one table."""

from __future__ import annotations

from pathlib import Path


def compare(folder: Path, *, markdown: bool = False) -> None:
    """Set the runs below a folder beside each other, a line each: who has the least error on test.

    Examples:

        bochner asr compare out
        bochner asr compare out --markdown

    The papers' Table 7: of networks and of kernel models the one chosen on dev. Means over the seeds of each run, with
    their standard deviation.

    Args:
        folder: With runs in it, folders that `bochner asr run` finished.
        markdown: A table for a Markdown file.
    """
    from bochner.acoustic.results import FILE, read_results
    from bochner.acoustic.table import across, as_text
    from bochner.report import markdown_table

    found = [read_results(path) for path in sorted(folder.glob(f"*/{FILE}"))]
    if not found:
        raise ValueError(f"folder must hold finished runs, */{FILE}, got {folder}; make one by `bochner asr run`.")
    table = across(found)
    print(markdown_table(table[0], table[1:]) if markdown else as_text(table))
