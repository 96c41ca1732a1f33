"""`bochner evaluate` and `bochner info`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import r2_score

import bochner
from tests.cli.files import NAMES, rings, run, write_csv

Capture = pytest.CaptureFixture[str]


def test_classes_in_a_table_and_a_file(ring_model: Path, tmp_path: Path, capsys: Capture) -> None:
    words = ["evaluate", ring_model / "model", ring_model / "test.csv", "--target=ring"]
    code, out, err = run(capsys, *words, "--json", tmp_path / "m.json")
    assert (code, err) == (0, "")
    X, y = rings(90, seed=1)
    right = bochner.load(ring_model / "model" / "model.safetensors").predict(torch.tensor(X)) == np.array(NAMES)[y]
    found = json.loads((tmp_path / "m.json").read_text())
    assert found["accuracy"] == pytest.approx(right.mean())
    assert found["num_rows"] == 90
    assert f"all 90 rows of {ring_model / 'test.csv'}; nothing was tuned on them here" in out
    assert f"accuracy           {right.mean():>10.4f}" in out
    assert "taken for" in out


def test_numbers(wave_model: Path, tmp_path: Path, capsys: Capture) -> None:
    words = ["evaluate", wave_model / "model", wave_model / "test.csv", "--target=y", "--json", tmp_path / "m.json"]
    assert run(capsys, *words).code == 0
    x = np.random.default_rng(1).uniform(-3, 3, 60)
    predicted = bochner.load(wave_model / "model" / "model.safetensors").predict(torch.tensor(x)[:, None])
    assert json.loads((tmp_path / "m.json").read_text())["r2"] == pytest.approx(r2_score(np.sin(x), predicted))


def test_weights_count(ring_model: Path, tmp_path: Path, capsys: Capture) -> None:
    X, y = rings(50, seed=3)
    labels = np.array(NAMES)[y]
    right = bochner.load(ring_model / "model" / "model.safetensors").predict(torch.tensor(X)) == labels
    assert not right.all()
    columns = {"east": X[:, 0], "north": X[:, 1], "ring": labels, "count": np.where(right, 0.0, 2.0)}
    data = write_csv(tmp_path / "d.csv", columns)
    out = run(capsys, "evaluate", ring_model / "model", data, "--target=ring", "--weight=count").out
    assert "accuracy               0.0000" in out
    assert "weighted by count" in out


def test_a_file_may_lack_a_class(ring_model: Path, tmp_path: Path, capsys: Capture) -> None:
    data = write_csv(tmp_path / "d.csv", {"east": [0.0, 2.0], "north": [0.1, 2.0], "ring": [NAMES[0], NAMES[2]]})
    code, out, err = run(capsys, "evaluate", ring_model / "model", data, "--target=ring")
    assert (code, err) == (0, "")
    assert "accuracy               1.0000" in out


def test_a_class_that_training_had_not_is_named(ring_model: Path, tmp_path: Path, capsys: Capture) -> None:
    data = write_csv(tmp_path / "d.csv", {"east": [0.0], "north": [1.0], "ring": ["violet"]})
    code, _, err = run(capsys, "evaluate", ring_model / "model", data, "--target=ring")
    assert code == 1
    assert "'violet'" in err


def test_without_a_target_the_columns_are_named(ring_model: Path, capsys: Capture) -> None:
    code, _, err = run(capsys, "evaluate", ring_model / "model", ring_model / "test.csv")
    assert code == 1
    assert "with --target" in err


def test_info(ring_model: Path, capsys: Capture) -> None:
    out = run(capsys, "info", ring_model / "model").out
    for said in ("KernelClassifier", "solver newton", "Gaussian(bandwidth=", "2: ['east', 'north']", "random_state=0"):
        assert said in out
    assert "device" not in out
