"""The tutorial's commands run, and print what it shows but for the numbers; its Python is a doctest."""

import re
from pathlib import Path

import pytest

from tests.cli.test_docs import _do as output_of
from tests.cli.test_docs import steps, words_of

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"


def test_the_tutorial_shows_what_its_commands_print(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text()
    exec(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0], {})
    commands = steps(page)
    assert [command.split()[1] for command, _ in commands] == ["train", "evaluate", "predict", "-2"]
    for command, shown in commands:
        assert words_of(output_of(command, capsys)) == words_of(shown), command
