"""Pages of the documentation: their commands run and print what the pages show, except for numbers."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.files import run

DOCS = Path(__file__).parents[2] / "docs"


def steps(page: str) -> list[tuple[str, str]]:
    """Each command of the page with the output below it."""
    blocks = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    parts = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE) if part]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


def words_of(text: str) -> str:
    """Without numbers, and lines in any order: warnings and results go to different streams.

    What a search chooses may differ between machines.
    """
    lines = [re.sub(r"^(search|kernel    PowerExponential)\b.*", r"\1", line) for line in text.splitlines()]
    return "\n".join(sorted(re.sub(r"[-\d.,e]*\d[-\d.,e]*", "#", line).strip() for line in lines))


@pytest.mark.parametrize(("page", "num_commands"), [("command_line.md", 10), ("tutorial.md", 3), ("align.md", 2)])
def test_pages_show_what_their_commands_print(
    page: str, num_commands: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (DOCS / page).read_text()
    exec(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0], {})
    commands = steps(text)
    assert sum(command.startswith("bochner") for command, _ in commands) == num_commands
    for name, content in re.findall(r"where (\S+) is\n\n```text\n(.*?)```", text, re.DOTALL):
        Path(name).write_text(content)
    for command, shown in commands:
        assert words_of(output_of(command, capsys)) == words_of(shown), command


def output_of(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The output of a command: `bochner ...`, `bochner ... > FILE`, `cat FILE` or `head -N FILE`."""
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
