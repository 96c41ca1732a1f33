"""`bochner train` in several processes: one command, the model of one process, and a card beside it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch

import bochner
from bochner.cli.launch import LaunchOptions
from tests.cli.files import rings, rings_csv, run

Capture = pytest.CaptureFixture[str]
OPTIONS = [
    "--preset=none",
    "--solver=sgd",
    "--n_components=32",
    "--batch_size=100",
    "--max_epochs=2",
    "--learning_rate=0.5",
]


def test_two_processes_make_the_model_of_one(tmp_path: Path, capsys: Capture) -> None:
    X, y = rings(500)
    np.savez(tmp_path / "rings.npz", X=X, y=y)
    words = ["train", tmp_path / "rings.npz", *OPTIONS, "--precision=float64"]
    assert run(capsys, *words, f"--output_dir={tmp_path / 'one'}").code == 0
    launch = ["--processes=2", "--feature_parallel=2", "--max_restarts=1", f"--output_dir={tmp_path / 'two'}"]
    assert run(capsys, *words, *launch).code == 0
    one, two = (bochner.load(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    torch.testing.assert_close(two.model_.head.weights, one.model_.head.weights, rtol=0, atol=1e-10)
    assert (tmp_path / "one" / "config.json").read_bytes() == (tmp_path / "two" / "config.json").read_bytes()
    assert not (tmp_path / "two" / "checkpoint").exists()


def test_a_model_has_a_card(tmp_path: Path, capsys: Capture) -> None:
    data, directory = rings_csv(tmp_path / "rings.csv", 100), tmp_path / "m"
    assert run(capsys, "train", data, "--target=ring", f"--output_dir={directory}", "--random_state=3").code == 0
    card = json.loads((directory / "model_card.json").read_text())
    assert card["data"]["sha256"] == {str(data): hashlib.sha256(data.read_bytes()).hexdigest()}
    assert (card["seed"], card["data"]["training_rows"], card["data"]["validation_rows"]) == (3, 90, 10)
    assert card["versions"]["torch"] == torch.__version__
    scores = json.loads((directory / "validation_scores.json").read_text())
    assert card["validation_scores"].items() <= scores.items()
    page = (directory / "model_card.md").read_text()
    for text in ("# KernelClassifier", "seed 3", card["data"]["sha256"][str(data)], f"| torch | {torch.__version__} |"):
        assert text in page
    run(capsys, "train", data, "--target=ring", f"--output_dir={directory}", "--random_state=3", "--overwrite")
    assert json.loads((directory / "model_card.json").read_text()) == card


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gpus=2", "--processes=2"], "processes must not be given with gpus=2"),
        (["--processes=0"], "processes must be an integer"),
        (["--processes=2", "--nodes=2"], "rendezvous is required for nodes=2"),
        (["--feature_parallel=2"], "feature_parallel=2 needs several processes"),
    ],
)
def test_what_cannot_be_started(words: list[str], message: str, tmp_path: Path, capsys: Capture) -> None:
    data = rings_csv(tmp_path / "rings.csv", 60)
    code, _, err = run(capsys, "train", data, "--target=ring", f"--output_dir={tmp_path / 'm'}", *words)
    assert code == 1
    assert message in err
    assert not (tmp_path / "m").exists()


def test_more_gpus_than_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    assert LaunchOptions(gpus=4).torchrun_arguments()[0] == "--nproc-per-node=4"
    with pytest.raises(ValueError, match=r"gpus.*4.*got 8"):
        LaunchOptions(gpus=8).torchrun_arguments()
