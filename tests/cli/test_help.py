"""Help teaches: every option has words, every command an example that can be parsed."""

from __future__ import annotations

import inspect
import re
import shlex
from pathlib import Path

import pytest
from jsonargparse import capture_parser

from bochner.cli import COMMANDS, main
from tests.cli.files import run

Capture = pytest.CaptureFixture[str]


def test_the_commands_are_named(capsys: Capture) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert all(f"\n    {name} " in out for name in COMMANDS)


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version(option: str, capsys: Capture) -> None:
    assert re.fullmatch(r"bochner \d+\.\d+\.\d+(\.dev\d+)?\n", run(capsys, option).out)


@pytest.mark.parametrize("name", COMMANDS)
def test_types_in_help_are_plain(name: str, capsys: Capture) -> None:
    assert not re.search(r"<class|typing\.|Literal\[", run(capsys, name, "--help").out)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_a_usage_an_example_and_words_for_its_own_options(name: str, capsys: Capture) -> None:
    code, out, _ = run(capsys, name, "--help")
    assert code == 0
    assert out.startswith(f"usage: bochner {name} ")
    assert f"\n    bochner {name} " in out  # on a line of its own
    for argument in re.findall(r"^    (\w+): ", inspect.getdoc(COMMANDS[name]) or "", re.MULTILINE):
        assert re.search(rf"^  (--)?{argument}\b", out, re.MULTILINE)


def test_help_of_training_has_the_estimators_words(capsys: Capture) -> None:
    out = " ".join(run(capsys, "train", "--help").out.split())
    assert "Number of features, or of landmarks for the solvers" in out
    assert 'Bytes, or text such as "500MB"' in out
    assert "(default: 4096)" in out


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_parse(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("iris.yaml").write_text("data: iris.csv\ntarget: species\n")
    parser = capture_parser(lambda: main([]))
    lines = re.findall(rf"^ +(bochner {name} .*)$", COMMANDS[name].__doc__ or "", re.MULTILINE)
    assert lines
    for line in lines:
        words = shlex.split(line.partition(">")[0].replace("--print_config", ""))
        assert parser.parse_args(words[1:]).subcommand == name


def test_shell_completion(capsys: Capture) -> None:
    pytest.importorskip("shtab")
    code, out, _ = run(capsys, "--print_completion", "shtab-bash")
    assert code == 0
    assert "--n_components" in out
