"""`bochner predict`: the estimator's own predictions, in every format."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import torch

import bochner
from bochner.cli.evaluate import BATCH_ROWS
from bochner.data import ArraySource
from tests.cli.files import NAMES, read_csv, rings, run, write_csv
from tests.oracles.memory import PeakMemory

Capture = pytest.CaptureFixture[str]


def test_csv_on_the_standard_output(ring_model: Path, capsys: Capture) -> None:
    code, out, err = run(capsys, "predict", ring_model / "model", ring_model / "test.csv", "--probabilities")
    assert (code, err) == (0, "")
    model, X = bochner.load(ring_model / "model" / "model.safetensors"), torch.tensor(rings(90, seed=1)[0])
    rows = read_csv(out)
    assert [row["prediction"] for row in rows] == model.predict(X).tolist()
    p = [[float(row[f"p({name})"]) for name in sorted(NAMES)] for row in rows]
    np.testing.assert_allclose(p, model.predict_proba(X), rtol=1e-6, atol=1e-12)


def test_all_formats_agree_however_few_rows_are_taken_at_once(
    ring_model: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("bochner.cli.predict"), "BATCH_ROWS", 32)
    outputs = {}
    for suffix in ("csv", "npy", "parquet"):
        output = tmp_path / f"p.{suffix}"
        code, out, _ = run(capsys, "predict", ring_model / "model", ring_model / "test.csv", "--output", output)
        assert (code, out) == (0, f"90 predictions: {output}\n")
        outputs[suffix] = output
    words = [row["prediction"] for row in read_csv(outputs["csv"].read_text())]
    assert len(words) == 90
    assert np.load(outputs["npy"]).tolist() == words
    assert pyarrow.parquet.read_table(outputs["parquet"]).to_pydict() == {"prediction": words}
    assert sorted(tmp_path.iterdir()) == sorted(outputs.values())


def test_probabilities_as_an_array(ring_model: Path, tmp_path: Path, capsys: Capture) -> None:
    words = ["predict", ring_model / "model" / "model.safetensors", ring_model / "test.csv", "--probabilities"]
    assert run(capsys, *words, "--output", tmp_path / "p.npy").code == 0
    p = np.load(tmp_path / "p.npy")
    assert p.shape == (90, 3)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-6)


def test_inputs_are_found_by_name_or_missed_by_name(ring_model: Path, tmp_path: Path, capsys: Capture) -> None:
    X, _ = rings(20, seed=2)
    straight = write_csv(tmp_path / "a.csv", {"east": X[:, 0], "north": X[:, 1]})
    shuffled = write_csv(tmp_path / "b.csv", {"north": X[:, 1], "colour": ["x"] * 20, "east": X[:, 0]})
    short = write_csv(tmp_path / "c.csv", {"north": X[:, 1]})
    renamed = write_csv(tmp_path / "d.csv", {"n": X[:, 1], "e": X[:, 0]})
    model = ring_model / "model"
    first = run(capsys, "predict", model, straight)
    assert first == run(capsys, "predict", model, shuffled)
    code, _, err = run(capsys, "predict", model, short)
    assert code == 1
    assert "has no column 'east'" in err
    assert first == run(capsys, "predict", model, renamed, "--columns=e,n")


def test_files_without_names_need_the_right_width(ring_model: Path, tmp_path: Path, capsys: Capture) -> None:
    X, _ = rings(20, seed=2)
    np.savez(tmp_path / "a.npz", X=X)
    np.savez(tmp_path / "b.npz", X=np.c_[X, X])
    named = write_csv(tmp_path / "a.csv", {"east": X[:, 0], "north": X[:, 1]})
    assert run(capsys, "predict", ring_model / "model", tmp_path / "a.npz") == run(
        capsys, "predict", ring_model / "model", named
    )
    code, _, err = run(capsys, "predict", ring_model / "model", tmp_path / "b.npz")
    assert code == 1
    assert "must have the 2 inputs of training, got 4" in err


def test_memory_does_not_grow_with_the_rows(wave_model: Path) -> None:
    """Both numbers are multiples of a batch, since tiles of the rest of a batch depend on its size and on the CPU."""
    model = bochner.load(wave_model / "model" / "model.safetensors")
    peaks = []
    for num_rows in (2 * BATCH_ROWS, 5 * BATCH_ROWS):
        source = ArraySource(np.zeros((num_rows, 1)))
        with PeakMemory() as memory:
            tables = import_module("bochner.cli.predict").predict_tables(
                model, source, probabilities=False, predictions=True
            )
            assert sum(len(table["prediction"]) for table in tables) == num_rows
        peaks.append(memory.peak)
    assert peaks[1] == pytest.approx(peaks[0], rel=0.01)


def test_labels_and_probabilities_are_computed_once(ring_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, calls = bochner.load(ring_model / "model" / "model.safetensors"), []
    scores = model._scores
    monkeypatch.setattr(model, "_scores", lambda X: calls.append(len(X)) or scores(X))
    predict = import_module("bochner.cli.predict").predict_tables
    X = np.random.default_rng(0).normal(size=(30, 2))
    (table,) = predict(model, ArraySource(X), probabilities=True, predictions=True)
    assert calls == [30]
    assert table["prediction"].tolist() == model.predict(X).tolist()
    np.testing.assert_allclose(table["p(red)"], model.predict_proba(X)[:, list(model.classes_).index("red")], rtol=1e-6)


def test_numbers(wave_model: Path, tmp_path: Path, capsys: Capture) -> None:
    run(capsys, "predict", wave_model / "model", wave_model / "test.csv", "--output", tmp_path / "p.csv")
    x = np.random.default_rng(1).uniform(-3, 3, 60)
    predicted = [float(row["prediction"]) for row in read_csv((tmp_path / "p.csv").read_text())]
    assert np.abs(predicted - np.sin(x)).max() < 0.1
    model = bochner.load(wave_model / "model" / "model.safetensors")
    np.testing.assert_allclose(predicted, model.predict(torch.tensor(x)[:, None]), rtol=1e-6)


def test_several_targets(tmp_path: Path, capsys: Capture) -> None:
    X = np.random.default_rng(0).normal(size=(80, 1))
    np.savez(tmp_path / "d.npz", X=X, y=np.c_[X, -X])
    run(capsys, "train", tmp_path / "d.npz", "--output_dir", tmp_path / "m")
    rows = read_csv(run(capsys, "predict", tmp_path / "m", tmp_path / "d.npz").out)
    np.testing.assert_allclose([float(row["prediction 1"]) for row in rows], -X[:, 0], atol=0.2)
    assert list(rows[0]) == ["prediction 0", "prediction 1"]


def test_an_output_that_fails_leaves_what_was_there(
    ring_model: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "p.npy").write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array_header_1_0", full)
    words = ["predict", ring_model / "model", ring_model / "test.csv", "--output", tmp_path / "p.npy"]
    code, _, err = run(capsys, *words)
    assert code == 1
    assert "No space left on device" in err
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("num_rows", [10, 50_000], ids=["at the end", "on the way"])
@pytest.mark.parametrize("kind", ["full disk", "closed pipe"])
def test_a_standard_output_that_cannot_be_written(
    kind: str, num_rows: int, ring_model: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez(tmp_path / "d.npz", X=np.zeros((num_rows, 2)))
    output = os.fdopen(os.open("/dev/full", os.O_WRONLY) if kind == "full disk" else _closed_pipe(), "w")
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", output)
        code, _, err = run(capsys, "predict", ring_model / "model", tmp_path / "d.npz")
    message = "bochner: error: [Errno 28] No space left on device\n"
    assert (code, err) == ((1, message) if kind == "full disk" else (141, ""))
    output.close()  # Python does this at exit, and it would fail if the buffered rest were not dropped


def _closed_pipe() -> int:
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def test_an_output_in_a_directory_that_does_not_exist(ring_model: Path, tmp_path: Path, capsys: Capture) -> None:
    output = tmp_path / "none" / "p.csv"
    code, _, err = run(capsys, "predict", ring_model / "model", ring_model / "test.csv", "--output", output)
    assert code == 1
    assert f"output={output} must be in a directory that exists" in err
    assert ".part" not in err


def test_ids_are_columns_of_tables(ring_model: Path, tmp_path: Path, capsys: Capture) -> None:
    """Neither a file of arrays nor one that is read has a column for them."""
    np.save(tmp_path / "rows.npy", np.zeros((4, 2)))
    outcome = run(capsys, "predict", ring_model / "model", tmp_path / "rows.npy", "--id=who")
    assert outcome.code == 1
    assert f"id must be None for {tmp_path / 'rows.npy'}, which is not a table, got ['who']" in outcome.err
    words = ("predict", ring_model / "model", ring_model / "test.csv", "--output", tmp_path / "out.npy")
    outcome = run(capsys, *words, "--id=east")
    assert outcome.code == 1
    assert "id must be None for .npy files, which have no columns, got 'east'" in outcome.err
    assert not (tmp_path / "out.npy").exists()
