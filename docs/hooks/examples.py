"""Pages that include files: scripts in percent format, with Markdown cells as text and code as code; the changelog."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

CHANGELOG = "[CHANGELOG.md](../CHANGELOG.md)\n"
LINK = re.compile(r"(?m)^\[\w+\.py\]\(\.\./(examples/\w+\.py)\)$")
CELL = re.compile(r"(?m)^# %%(.*)\n")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Replace links to scripts and to the changelog, each alone on its line, by their content."""
    root = Path(config["config_file_path"]).parent
    if CHANGELOG in markdown:
        markdown = markdown.replace(CHANGELOG, releases((root / "CHANGELOG.md").read_text(encoding="utf-8")))
    return LINK.sub(lambda match: as_markdown((root / match[1]).read_text(encoding="utf-8")), markdown)


def releases(changelog: str) -> str:
    r"""The sections of the changelog with headings one level lower; links to files outside docs become text.

    >>> print(releases("# Changelog\n\nIntro.\n\n## 0.2\n\n- [a](docs/a.md), [b](RESULTS.md#b)\n"))
    ### 0.2
    <BLANKLINE>
    - [a](a.md), b
    <BLANKLINE>
    """
    _, heading, sections = changelog.partition("## ")
    lowered = re.sub(r"(?m)^(#+ )", r"#\1", heading + sections)
    return re.sub(r"\[([^]]+)\]\((?!http|docs/)[^)]+\)", r"\1", lowered).replace("](docs/", "](")


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
