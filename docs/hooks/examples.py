"""The page of examples: scripts in percent format, with their Markdown cells as text and their code as code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

LINK = re.compile(r"(?m)^\[\w+\.py\]\(\.\./(examples/\w+\.py)\)$")
CELL = re.compile(r"(?m)^# %%(.*)\n")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Replace links to scripts, each alone on its line, by the scripts."""
    root = Path(config["config_file_path"]).parent
    return LINK.sub(lambda match: as_markdown((root / match[1]).read_text(encoding="utf-8")), markdown)


def as_markdown(script: str) -> str:
    r"""Cells as Markdown, with headings one level lower.

    >>> print(as_markdown("# %% [markdown]\n# # Sums\n#\n# Of numbers.\n\n# %%\n1 + 1\n"))
    ## Sums
    <BLANKLINE>
    Of numbers.
    <BLANKLINE>
    ```python
    1 + 1
    ```
    """
    _, *cells = CELL.split(script)
    parts = []
    for kind, text in zip(cells[::2], cells[1::2], strict=True):
        if "[markdown]" in kind:
            lines = (line.removeprefix("#").removeprefix(" ") for line in text.strip().splitlines())
            parts.append("\n".join(f"#{line}" if line.startswith("#") else line for line in lines))
        else:
            parts.append(f"```python\n{text.strip()}\n```")
    return "\n\n".join(parts)
