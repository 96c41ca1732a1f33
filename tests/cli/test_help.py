"""Help: every option is described, and every command has an example that can be parsed."""

from __future__ import annotations

import inspect
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from jsonargparse import capture_parser

from bochner.cli import COMMANDS, GROUPS, load_command, main
from tests.cli.files import run

Capture = pytest.CaptureFixture[str]


def test_the_commands_are_named(capsys: Capture) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert all(f"\n    {name} " in out for name in COMMANDS | GROUPS)


def test_without_a_command_the_help_is_shown(capsys: Capture) -> None:
    outcome = run(capsys)
    assert (outcome.code, outcome.err) == (0, "")
    assert "evaluate" in outcome.out


def test_help_of_the_program_imports_no_command() -> None:
    """A new process, as a user starts it."""
    code = (
        "import sys\nfrom bochner.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit: pass\n"
        "print([name for name in ('torch', 'sklearn', 'bochner.cli.train') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: bochner ")
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_is_the_first_line_of_the_help(name: str) -> None:
    assert (load_command(name).__doc__ or "").startswith(COMMANDS[name][1].rstrip("."))


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version(option: str, capsys: Capture) -> None:
    assert re.fullmatch(r"bochner \d+\.\d+\.\d+(\.dev\d+)?\n", run(capsys, option).out)


@pytest.mark.parametrize("name", COMMANDS)
def test_types_in_help_are_plain(name: str, capsys: Capture) -> None:
    assert not re.search(r"<class|typing\.|Literal\[|Union\[|\+ [A-Z]", run(capsys, name, "--help").out)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_a_usage_an_example_and_descriptions_of_its_options(name: str, capsys: Capture) -> None:
    code, out, _ = run(capsys, name, "--help")
    assert code == 0
    assert out.startswith(f"usage: bochner {name} ")
    assert f"\n    bochner {name} " in out  # on a line of its own
    for argument in re.findall(r"^    (\w+): ", inspect.getdoc(load_command(name)) or "", re.MULTILINE):
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
    parser = capture_parser(lambda: main([name]))
    lines = re.findall(rf"^ +(bochner {name} .*)$", load_command(name).__doc__ or "", re.MULTILINE)
    assert lines
    for line in lines:
        words = shlex.split(line.partition(">")[0].replace("--print_config", ""))
        assert parser.parse_args(words[1:]).subcommand == name


def test_shell_completion(capsys: Capture) -> None:
    pytest.importorskip("shtab")
    code, out, _ = run(capsys, "--print_completion", "shtab-bash")
    assert code == 0
    assert "--n_components" in out
