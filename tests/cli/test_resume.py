"""An interrupted run resumes when the same command is run again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.cli.files import rings, run

Capture = pytest.CaptureFixture[str]
# Epochs of milliseconds, and more of them than there is time for before the kill.
SHORT_EPOCHS = ["--batch_size=32", "--learning_rate=0.05", "--max_epochs=20", "--max_halvings=25"]
OPTIONS = {
    "kernel": ["--preset=fast", "--solver=sgd", "--n_components=32", "--preconditioner_rank=0", *SHORT_EPOCHS],
    "network": ["--model=network", "--hidden=[8]", "--optimizer=sgd", *SHORT_EPOCHS],
}


@pytest.mark.parametrize("model", OPTIONS)
def test_a_killed_run_resumes_and_ends_like_an_uninterrupted_one(model: str, tmp_path: Path, capsys: Capture) -> None:
    options = OPTIONS[model]
    X, y = rings(1500)
    data, killed, whole = tmp_path / "rings.npz", tmp_path / "killed", tmp_path / "whole"
    np.savez(data, X=X.astype(np.float32), y=y)
    _kill_after_the_first_checkpoint(["train", str(data), *options, f"--output-dir={killed}"], killed)
    (record,) = (killed / "checkpoint").rglob("history.jsonl")
    done = len(record.read_text().splitlines())
    assert not (killed / "model.safetensors").exists()

    other = run(capsys, "train", data, *options, f"--output_dir={killed}", "--batch_size=64")
    assert other.code == 1
    assert f"{killed} " in other.err
    assert "batch_size: 32 there, 64 here" in other.err

    assert run(capsys, "train", data, *options, f"--output_dir={killed}").code == 0
    assert run(capsys, "train", data, *options, f"--output_dir={whole}").code == 0
    history = (whole / "history.jsonl").read_text()
    assert 0 < done < len(history.splitlines())
    assert (killed / "history.jsonl").read_text() == history
    for name in ("model.safetensors", "validation_scores.json", "config.json"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
    assert not (killed / "checkpoint").exists()


def _kill_after_the_first_checkpoint(words: list[str], directory: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen([sys.executable, "-m", "bochner", *words], env=environment) as process:
        deadline = time.monotonic() + 60
        while not any((directory / "checkpoint").rglob("checkpoint.safetensors")):
            assert process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL


def test_a_directory_in_use_is_refused(tmp_path: Path, capsys: Capture) -> None:
    X, y = rings(60)
    np.savez(tmp_path / "rings.npz", X=X, y=y)
    holder = "import filelock, sys\nwith filelock.FileLock(sys.argv[1]): print(flush=True); sys.stdin.read()"
    (tmp_path / "m").mkdir()
    words = [sys.executable, "-c", holder, str(tmp_path / "m" / ".lock")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        outcome = run(capsys, "train", tmp_path / "rings.npz", f"--output_dir={tmp_path / 'm'}")
        process.communicate()
    assert outcome.code == 1
    assert len(outcome.err.splitlines()) == 1
    assert f"{tmp_path / 'm'} is in use by another process" in outcome.err
    assert run(capsys, "train", tmp_path / "rings.npz", f"--output_dir={tmp_path / 'm'}").code == 0
