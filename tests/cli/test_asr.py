"""The command line of `bochner asr`; the experiments themselves are tested in tests/acoustic."""

from __future__ import annotations

import inspect
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonargparse import capture_parser

from bochner.acoustic.recipe import AsrRecipe, recipe_names
from bochner.acoustic.results import Results, Row
from bochner.cli import main
from bochner.cli.asr import ASR
from bochner.stages import locked
from tests.acoustic.test_kaldi import kaldi as kaldi_system  # noqa: F401 (a fixture)
from tests.cli.files import run
from tests.processes import run_code

Capture = pytest.CaptureFixture[str]
COMMANDS = [name for name in ASR if name != "_help"]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[AsrRecipe, Path, dict[str, Any]]]:
    """Calls of `run_recipe`, which is replaced by a function that returns two rows."""
    pytest.importorskip("kaldi_hmm_gmm")
    from bochner.acoustic import experiment as module

    recorded: list[tuple[AsrRecipe, Path, dict[str, Any]]] = []

    def instead(recipe: AsrRecipe, output_dir: Path, **options: Any) -> Results:
        recorded.append((recipe, output_dir, options))
        given: dict[str, Any] = {
            "settings": {},
            "seed": 0,
            "heldout": {"ce": 1.0},
            "seconds": 1.0,
            "directory": "models/x",
        }
        tested = {"ter": 0.25, "low": 0.2, "high": 0.3, "tokens": 9}
        rows = [
            Row(model=name, kind=kind, dev={"ter": 0.2}, test=tested, **given)
            for name, kind in (("gaussian", "kernel"), ("tanh", "network"))
        ]
        results = Results(
            recipe=recipe.to_dict(), protocol="per_sil_scored", synthetic=True, corpus="c", num_states=3, rows=rows
        )
        output_dir.mkdir(parents=True, exist_ok=True)
        results.write(output_dir)
        return results

    monkeypatch.setattr(module, "run_recipe", instead)
    return recorded


def test_run_gives_the_recipe_with_changes_and_prints_the_comparison(
    calls: list[tuple[AsrRecipe, Path, dict[str, Any]]], tmp_path: Path, capsys: Capture
) -> None:
    overrides = [
        "--models.gaussian.num_features",
        "64",
        "--seeds=[0, 1]",
        "--models.sparse-gaussian",
        "null",
        "--realign",
    ]
    outcome = run(
        capsys,
        "asr",
        "run",
        "timit",
        "--source",
        "TIMIT",
        "--output_dir",
        tmp_path / "out",
        *overrides,
        "--workers",
        "2",
    )
    assert outcome.code == 0
    recipe, folder, options = calls[0]
    assert recipe.corpus.source == Path("TIMIT").resolve()  # type: ignore[union-attr]
    assert recipe.models["gaussian"].num_features == 64  # type: ignore[union-attr]
    assert "sparse-gaussian" not in recipe.models
    assert recipe.realign
    assert (recipe.seeds, folder, options["workers"]) == ((0, 1), tmp_path / "out", 2)
    assert re.search(r"^PER test % +25\.00 +25\.00$", outcome.out, re.MULTILINE)
    assert f"bochner transcribe {tmp_path / 'out' / 'models' / 'best'} AUDIO.wav" in outcome.out


def test_models_of_given_frames_are_not_suggested_for_transcription(
    calls: list[tuple[AsrRecipe, Path, dict[str, Any]]], tmp_path: Path, capsys: Capture
) -> None:
    best = tmp_path / "out" / "models" / "best"
    best.mkdir(parents=True)
    (best / "model.json").write_text('{"front_end": null}')
    outcome = run(capsys, "asr", "run", "an4", "--source", "an4.zip", "--output_dir", tmp_path / "out")
    assert "bochner transcribe" not in outcome.out
    assert f"next      bochner asr compare {tmp_path}" in outcome.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["timid"], "recipe must be a .yaml file or one of an4,"),
        (["timit"], "timit: the path of the corpus is missing: give --source PATH"),
        (["timit-like", "--decoding.beams", "9"], "decoding.beams is unknown"),
        (["timit-like", "--worker", "9"], "worker is unknown"),
        (["nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_errors_are_reported_in_one_line(words: list[str], message: str, tmp_path: Path, capsys: Capture) -> None:
    outcome = run(capsys, "asr", "run", *words, "--output_dir", tmp_path)
    assert outcome.code == 1
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


def test_list_names_every_recipe(capsys: Capture) -> None:
    lines = run(capsys, "asr", "list").out.splitlines()
    assert [line.split()[0] for line in lines] == recipe_names()


def test_a_kaldi_system_gets_likelihoods(kaldi_system: Any, tmp_path: Path, capsys: Capture) -> None:  # noqa: F811
    from bochner.speech.kaldi_formats import read_matrix

    folder, hmm, frames, _ = kaldi_system
    settings = {"num_features": 64, "rank": "null", "bandwidth": 2, "max_epochs": 1}
    small = [f"--models.gaussian.{name}={value}" for name, value in settings.items()]
    command = ["asr", "kaldi", folder / "data", folder / "exp", "--output_dir", tmp_path / "out"]
    outcome = run(capsys, *command, "--score", f"[{folder / 'data'}]", *small)
    assert outcome.code == 0, outcome.err
    places = dict(line.split() for line in (tmp_path / "out" / "data.scp").read_text().splitlines())
    assert list(places) == list(frames)
    assert read_matrix(places["s3-03"]).shape == (len(frames["s3-03"]), hmm.num_pdfs)
    assert "model must be one of" in run(capsys, *command, "--model", "tree").err


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_a_usage_an_example_and_described_options(name: str, capsys: Capture) -> None:
    code, out, _ = run(capsys, "asr", name, "--help")
    assert code == 0
    assert out.startswith(f"usage: bochner asr {name} ")
    assert f"\n    bochner asr {name}" in out
    for argument in re.findall(r"^    (\w+): ", inspect.getdoc(ASR[name]) or "", re.MULTILINE):
        assert re.search(rf"^  (--)?{argument}\b", out, re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_parse(name: str) -> None:
    parser = capture_parser(lambda: main(["asr"]))
    lines = re.findall(rf"^ +(bochner asr {name}\b.*)$", ASR[name].__doc__ or "", re.MULTILINE)
    assert lines
    for line in lines:
        assert parser.parse_args(shlex.split(line)[1:]).asr.subcommand == name


def test_help_needs_no_extra() -> None:
    """A new process, as a user starts it."""
    code = (
        "import sys\nfrom bochner.cli import main\n"
        "try:\n    main(['asr', 'run', '--help'])\nexcept SystemExit: pass\n"
        "heavy = ('kaldi', 'soundfile', 'espeak', 'bochner.speech', 'bochner.acoustic')\n"
        "print([name for name in sys.modules if name.startswith(heavy)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: bochner asr run RECIPE")
    assert done.stdout.splitlines()[-1] == "[]"


def test_runs_are_compared_in_a_table(tmp_path: Path, capsys: Capture) -> None:
    code, _, err = run(capsys, "asr", "compare", tmp_path)
    assert code == 1
    assert "directory must hold finished experiments" in err
    row = {"model": "net", "kind": "network", "settings": {}, "seed": 0, "heldout": {}, "dev": {"ter": 0.2}}
    row |= {"test": {"ter": 0.25}, "seconds": 1.0, "directory": "models/net"}
    found = {"protocol": "wer", "synthetic": False, "corpus": "c", "num_states": 1234, "rows": [row]}
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        stored = {**found, "recipe": {"name": name, "seeds": [0]}}
        (tmp_path / name / "results.json").write_text(json.dumps(stored))
    code, out, _ = run(capsys, "asr", "compare", tmp_path, "--markdown")
    assert code == 0
    assert out.splitlines()[2:] == ["| a | - | WER | 1 | 1,234 | 25.00 |", "| b | - | WER | 1 | 1,234 | 25.00 |"]


def test_a_second_run_in_the_same_directory_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("kaldi_hmm_gmm")
    code = "import sys; from bochner.cli import main; main(['asr', 'run', 'timit-demo', '--output_dir', sys.argv[1]])"
    with locked(tmp_path):
        before = sorted(tmp_path.iterdir())
        second = run_code(code, tmp_path)
    assert second.returncode == 1
    assert second.stderr.splitlines()[-1].startswith(
        f"bochner: error: {tmp_path} is in use by process {os.getpid()} on "
    )
    assert sorted(tmp_path.iterdir()) == [path for path in before if path.exists()]  # nothing was written
