"""The page on the command line: its commands run, and print what it shows but for the numbers."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.files import run

PAGE = Path(__file__).parents[2] / "docs" / "command_line.md"


def steps(page: str) -> list[tuple[str, str]]:
    """Each command of the page with the output below it."""
    blocks = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    parts = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE) if part]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


def words_of(text: str) -> str:
    """Without numbers, and lines in any order: warnings and results go to different streams."""
    return "\n".join(sorted(re.sub(r"[-\d.,e]*\d[-\d.,e]*", "#", line).strip() for line in text.splitlines()))


def test_the_page_shows_what_its_commands_print(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text()
    exec(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0], {})
    commands = steps(page)
    assert len([command for command, _ in commands if command.startswith("bochner")]) >= 9
    for command, shown in commands:
        printed = _do(command, capsys)
        assert words_of(printed) == words_of(shown), command


def _do(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command of the page prints; it knows `bochner ... > FILE`, `cat FILE` and `head -N FILE`."""
    words, _, file = command.partition(" > ")
    name, *rest = shlex.split(words)
    if name in ("cat", "head"):
        lines = Path(rest[-1]).read_text().splitlines(keepends=True)
        return "".join(lines if name == "cat" else lines[: int(rest[0][1:])])
    _, out, err = run(capsys, *rest)
    if not file:
        return out + err
    Path(file).write_text(out)
    return err
