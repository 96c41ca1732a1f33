"""An interrupted run resumes when the same command is run again."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bochner.cli import main, train
from bochner.solvers import sgd
from bochner.storage import read_tensors
from tests.cli.files import rings, rings_csv, run
from tests.processes import kill_after, run_until_killed

Capture = pytest.CaptureFixture[str]
SHORT_EPOCHS = ["--batch_size=32", "--learning_rate=0.05", "--max_epochs=20", "--max_halvings=25"]
OPTIONS = {
    "kernel": ["--preset=fast", "--solver=sgd", "--n_components=33", *SHORT_EPOCHS],
    "network": ["--model=network", "--hidden=[8]", "--optimizer=sgd", *SHORT_EPOCHS],
}


@pytest.mark.parametrize("model", OPTIONS)
def test_a_killed_run_resumes_and_ends_like_an_uninterrupted_one(model: str, tmp_path: Path, capsys: Capture) -> None:
    options = OPTIONS[model]
    X, y = rings(1500)
    data, killed, whole = tmp_path / "rings.npz", tmp_path / "killed", tmp_path / "whole"
    np.savez(data, X=X.astype(np.float32), y=y)
    run_until_killed(train_until_the_first_checkpoint, ["train", str(data), *options, f"--output-dir={killed}"])
    (record,) = (killed / "checkpoint").rglob("history.jsonl")
    done = len(record.read_text().splitlines())
    assert not (killed / "model.safetensors").exists()

    other = run(capsys, "train", data, *options, f"--output_dir={killed}", "--batch_size=64")
    assert other.code == 1
    assert f"{killed} " in other.err
    assert "batch_size: 32 there, 64 here" in other.err

    resumed = run(capsys, "train", data, *options, f"--output_dir={killed}")
    assert resumed.code == 0
    assert "resume    from the checkpoint of an interrupted run" in resumed.out
    assert run(capsys, "train", data, *options, f"--output_dir={whole}").code == 0
    history = (whole / "history.jsonl").read_text()
    assert 0 < done < len(history.splitlines())
    assert (killed / "history.jsonl").read_text() == history
    for name in ("model.safetensors", "validation_scores.json", "config.json"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
    assert not (killed / "checkpoint").exists()


def train_until_the_first_checkpoint(words: list[str]) -> None:
    kill_after(sgd, "_checkpoint")
    main(words)


TRAINED = ["--preset=none", "--solver=sgd", "--n_components=33", *SHORT_EPOCHS]


def end_at(block: int, number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send the signal to this process after so many blocks of rows."""
    blocks, steps = iter(range(1, 10**9)), sgd.run_steps

    def run_steps(*arguments: Any, **options: Any) -> Iterator[int]:
        for rows in steps(*arguments, **options):
            if next(blocks) == block:
                signal.raise_signal(number)  # to this thread, at once
            yield rows

    monkeypatch.setattr(sgd, "run_steps", run_steps)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_leaves_a_checkpoint_of_the_last_step(
    number: signal.Signals, code: int, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, ended, whole = rings_csv(tmp_path / "rings.csv", 1500), tmp_path / "ended", tmp_path / "whole"
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    words = ["train", data, "--target=ring", *TRAINED]
    with monkeypatch.context() as patched:
        end_at(60, number, patched)  # 43 blocks are an epoch
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by programs in the background
        outcome = run(capsys, *words, f"--output_dir={ended}")
        signal.signal(signal.SIGINT, before)
    assert outcome.code == code
    assert len(outcome.err.splitlines()) == 1
    assert "checkpoint is kept" in outcome.err
    _, state = read_tensors(ended / "checkpoint" / "checkpoint.safetensors")
    assert (state["epoch"], state["batch"]) == (1, 17)
    gc.collect()
    assert not list(temporary.iterdir())
    assert run(capsys, *words, f"--output_dir={ended}").code == 0
    assert run(capsys, *words, f"--output_dir={whole}").code == 0
    assert (ended / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_a_signal_after_the_model_was_written(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [
        "train",
        rings_csv(tmp_path / "rings.csv", 60),
        "--target=ring",
        f"--output_dir={tmp_path / 'm'}",
        *TRAINED,
    ]
    with monkeypatch.context() as patched:
        patched.setattr(train, "score_text", lambda *_: signal.raise_signal(signal.SIGTERM))
        outcome = run(capsys, *words)
    assert outcome.code == 143
    assert "its model was finished" in outcome.err
    assert run(capsys, *words).code == 0


def changed_label(table: str) -> str:
    """The last row becomes green."""
    *rows, last = table.splitlines(keepends=True)
    east, north, _ = last.split(",", 2)
    return "".join([*rows, f"{east},{north},green\n"])


CHANGES: dict[str, tuple[Callable[[str], str], str]] = {
    "a class is renamed": (lambda table: table.replace("green", "grey"), "classes"),
    "two classes are exchanged": (
        lambda table: table.replace("red", "x").replace("green", "red").replace("x", "green"),
        "training y",
    ),
    "a label is changed": (changed_label, "y"),
    "a number is changed": (lambda table: table.replace("0.1257", "0.1258", 1), "X"),
    "columns are exchanged": (lambda table: table.replace("east,north", "north,east"), "columns"),
    "a column is renamed": (lambda table: table.replace("east", "west"), "columns"),
    "rows are in another order": (
        lambda table: "\n".join([table.split("\n")[0], *reversed(table.strip().split("\n")[1:]), ""]),
        "X",
    ),
}


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """A table, the directory of a run on it that was interrupted, and the content of the table."""
    directory = tmp_path_factory.mktemp("interrupted")
    data = rings_csv(directory / "rings.csv", 200)
    with pytest.MonkeyPatch.context() as patched:
        end_at(10, signal.SIGTERM, patched)
        with pytest.raises(SystemExit):
            main(["train", str(data), "--target=ring", *TRAINED, f"--output_dir={directory / 'm'}"])
    return data, directory / "m", data.read_text()


@pytest.mark.parametrize(("change", "name"), CHANGES.values(), ids=CHANGES)
def test_a_run_does_not_resume_on_changed_data(
    change: Callable[[str], str], name: str, interrupted: tuple[Path, Path, str], capsys: Capture
) -> None:
    data, directory, table = interrupted
    assert change(table) != table
    data.write_text(change(table))
    outcome = run(capsys, "train", data, "--target=ring", *TRAINED, f"--output_dir={directory}")
    data.write_text(table)
    assert outcome.code == 1
    assert name in outcome.err
    assert "other data" in outcome.err


def test_a_directory_in_use_is_refused(tmp_path: Path, capsys: Capture) -> None:
    X, y = rings(60)
    np.savez(tmp_path / "rings.npz", X=X, y=y)
    holder = (
        "import pathlib, sys\nfrom bochner.stages import locked\n"
        "with locked(pathlib.Path(sys.argv[1])): print(flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", holder, str(tmp_path / "m")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        outcome = run(capsys, "train", tmp_path / "rings.npz", f"--output_dir={tmp_path / 'm'}")
        process.communicate()
    assert outcome.code == 1
    assert len(outcome.err.splitlines()) == 1
    assert f"{tmp_path / 'm'} is in use by process {process.pid} on " in outcome.err
    assert run(capsys, "train", tmp_path / "rings.npz", f"--output_dir={tmp_path / 'm'}").code == 0
