"""User errors are one line without a traceback, with an exit code."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

import bochner
from bochner.cli import main
from tests.cli.files import rings, rings_csv, run, write_csv

Capture = pytest.CaptureFixture[str]


def _files(directory: Path) -> None:
    X, y = rings(40)
    rings_csv(directory / "rings.csv", 40)
    write_csv(directory / "one.csv", {"a": X[:, 0], "y": ["same"] * 40})
    write_csv(directory / "words.csv", {"a": ["x"] * 40, "y": y})
    write_csv(directory / "wave.csv", {"a": X[:, 0], "y": X[:, 1]})
    write_csv(directory / "other.csv", {"east": X[:, 0], "north": X[:, 1], "ring": ["violet"] * 40})
    np.savez(directory / "infinite.npz", X=np.where(np.arange(80).reshape(40, 2) == 15, np.inf, 1.0), y=y)
    (directory / "rings.xls").write_text("")
    (directory / "cut.npz").write_bytes(b"PK\x03\x04 and no more")
    (directory / "broken.yaml").write_text("target: [")
    (directory / "evil.py").write_text("open('imported', 'w')\nfrom bochner.kernels import Gaussian as Kernel\n")
    (directory / "evil.yaml").write_text(
        "data: rings.csv\nkernel: {class_path: evil.Kernel, init_args: {bandwidth: 1.0}}\n"
    )
    (directory / "strange.yaml").write_text("data: rings.csv\ncolour: red\n")
    (directory / "damaged.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0 not a header")
    bochner.save(bochner.kernels.Gaussian(), directory / "kernel.safetensors")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("train nowhere.csv --target y", 1, "nowhere.csv does not exist"),
        ("train rings.xls --target y", 1, "end in one of"),
        ("train cut.npz", 1, "cut.npz"),
        ("train rings.csv --target colour", 1, "no column 'colour'; its columns are ['east', 'north', 'ring']"),
        ("train wave.csv", 1, "with --target; its columns are ['a', 'y']"),
        ("train rings.csv --target ring --columns east,west", 1, "no column 'west'"),
        ("train rings.csv --target ring --weight heavy", 1, "no column 'heavy'"),
        ("train one.csv --target y", 1, "at least two classes, got ['same'] only"),
        ("train infinite.npz", 1, "row 7, column 1 is inf"),
        ("train words.csv --target y", 1, "['a'] are constant, missing or different in all rows"),
        ("train words.csv --target 7", 1, "got the position 7"),
        ("train words.csv --target y --ignore b", 1, "no column 'b' to ignore"),
        ("train rings.csv --target ring --sep ::", 1, "sep must be a single character"),
        ("train rings.csv --target ring --encoding utf-99", 1, "got 'utf-99'"),
        ("train rings.csv --target ring --validation_data other.csv", 1, "'violet'"),
        ("train rings.csv --target ring --task regress", 1, "must not be 'regress' for a target that is text"),
        ("train wave.csv --target y --class_weight balanced", 1, "class_weight must not be given for regression"),
        ("train wave.csv --target y --solver newton", 1, "use 'landmarks'"),
        ("train rings.csv --target ring --hidden [8]", 1, "hidden must not be given for --model kernel"),
        (
            "train rings.csv --target ring --model network --kernel rbf",
            1,
            "kernel must not be given for",
        ),
        ("train rings.csv --target ring --solver magic", 1, "'solver' parameter"),
        ("train rings.csv --target ring --kernel=magic", 1, "'kernel' parameter"),
        ("train rings.csv --target ring --device moon", 1, "device must be 'auto' or"),
        ("train rings.csv --target ring --memory_budget lots", 1, "memory_budget must be bytes or text"),
        ("train rings.csv --target ring --memory_budget 1KB", 1, "memory_budget must be at least"),
        ("train rings.csv --target ring --tracking paper", 1, "tracking must be"),
        ("train rings.csv --target ring --rank 3 --solver saga", 1, "needs solver='sgd'"),
        ("train rings.csv --target ring --n_components many", 2, "n_components"),
        ("train rings.csv --target ring --task guess", 2, "task"),
        ("train rings.csv --checkpoint_dir there", 2, "--checkpoint_dir"),
        ("train rings.csv --trget ring", 2, "--trget"),
        ("train rings.csv --target", 2, "--target"),
        ("train", 2, "data"),
        ("train --config broken.yaml", 2, "parsing config"),
        ("train --config strange.yaml", 2, "colour"),
        ("train --config nowhere.yaml", 2, "nowhere.yaml"),
        ("train --config evil.yaml", 2, "evil.Kernel"),
        ("train rings.csv --kernel.class_path=evil.Kernel", 2, "evil.Kernel"),
        ("predict nowhere rings.csv", 1, "nowhere does not exist"),
        ("predict . rings.csv", 1, "holds no model.safetensors"),
        ("predict damaged.safetensors rings.csv", 1, "damaged.safetensors is not a readable safetensors file"),
        ("predict kernel.safetensors rings.csv", 1, "got Gaussian"),
        ("evaluate damaged.safetensors rings.csv --target ring", 1, "damaged.safetensors"),
        ("info damaged.safetensors", 1, "damaged.safetensors"),
        ("paint", 2, "'paint'"),
    ],
)
def test_an_error_is_one_line(
    words: str, code: int, message: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    _files(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    outcome = run(capsys, *words.split())
    assert outcome.code == code
    assert message in outcome.err
    assert len(outcome.err.splitlines()) == 1
    assert not list(tmp_path.rglob("model.safetensors"))
    assert not Path("imported").exists()


def test_predictions_that_cannot_be_written(
    wave_model: Path, ring_model: Path, tmp_path: Path, capsys: Capture
) -> None:
    wave = ["predict", wave_model / "model", wave_model / "test.csv"]
    assert "probabilities" in run(capsys, *wave, "--probabilities").err
    assert "['.csv', '.npy', '.parquet'], got '.xls'" in run(capsys, *wave, f"--output={tmp_path / 'p.xls'}").err
    assert "nowhere" in run(capsys, *wave, f"--output={tmp_path / 'nowhere' / 'p.csv'}").err
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes((ring_model / "model" / "model.safetensors").read_bytes()[:-100])
    code, _, err = run(capsys, "predict", cut, ring_model / "test.csv")
    assert code == 1
    assert "cut.safetensors is not a readable safetensors file" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("trian rings.csv", "did you mean 'train'?"),
        ("study rnu", "did you mean 'run'?"),
        ("train rings.csv --target rnig", "did you mean 'ring'?"),
        ("train rings.csv --target ring --num_featurs 3", "did you mean '--n_components'?"),
        ("train rings.csv --target ring --n-componets 3", "did you mean '--n_components'?"),
        ("train rings.csv --target ring --outputdir m", "did you mean '--output_dir'?"),
        ("train rings.csv --target ring --kernel guassian", "did you mean 'gaussian'?"),
        ("train rings.csv --target ring --solver sdg", "did you mean 'sgd'?"),
        ("train rings.csv --target ring --task clasify", "did you mean 'classify'?"),
        ("train rings.csv --target ring --columns esat,north", "did you mean 'east'?"),
        ("train rings.csv --target ring --n_components many", "Expected an int. Got value: many."),
    ],
)
def test_typos_get_suggestions(
    words: str, message: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    rings_csv(tmp_path / "rings.csv", 40)
    monkeypatch.chdir(tmp_path)
    outcome = run(capsys, *words.split())
    assert outcome.code in (1, 2)
    assert message in outcome.err
    assert len(outcome.err.splitlines()) == 1


@contextmanager
def little_disk() -> Iterator[None]:
    """No file may grow beyond 2,000 bytes. Not a fixture: between its setup and the test, coverage writes its file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_no_half_model(tmp_path: Path, capsys: Capture) -> None:
    X, y = rings(40)
    np.savez_compressed(tmp_path / "rings.npz", X=X.astype(np.float16), y=y.astype(np.int8))
    with little_disk():
        code, _, err = run(capsys, "train", tmp_path / "rings.npz", f"--output_dir={tmp_path / 'm'}")
    assert code == 1
    assert len(err.splitlines()) == 1
    assert "[Errno 27] File too large: " in err
    assert str(tmp_path / "m") in err  # which disk that is
    assert ".part" not in err
    assert not list(tmp_path.rglob("model.safetensors*"))


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_an_interrupt_reports_what_is_kept(
    has_checkpoint: bool, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        if has_checkpoint:
            (tmp_path / "m" / "checkpoint").mkdir()
            (tmp_path / "m" / "checkpoint" / "checkpoint.safetensors").write_text("")
        raise KeyboardInterrupt

    monkeypatch.setattr(import_module("bochner.cli.train"), "fit", interrupted)
    data = rings_csv(tmp_path / "rings.csv", 40)
    code, _, err = run(capsys, "train", data, "--target=ring", f"--output_dir={tmp_path / 'm'}")
    assert code == 130
    assert ("checkpoint is kept" in err) == has_checkpoint
    assert len(err.splitlines()) == 1


def test_out_of_memory_is_one_line(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(*_: object, **__: object) -> None:
        torch.empty(2**55)

    monkeypatch.setattr(import_module("bochner.cli.train"), "fit", greedy)
    data = rings_csv(tmp_path / "rings.csv", 40)
    code, _, err = run(capsys, "train", data, "--target=ring", f"--output_dir={tmp_path / 'm'}")
    assert code == 1
    assert len(err.splitlines()) == 1
    assert "out of memory" in err
    assert "--memory_budget" in err


def test_a_bug_keeps_its_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def buggy(*_: object, **__: object) -> None:
        raise KeyError("bug")

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("shapes cannot be multiplied")

    data = rings_csv(tmp_path / "rings.csv", 40)
    for fit, error, message in ((buggy, KeyError, "bug"), (broken, RuntimeError, "shapes cannot")):
        monkeypatch.setattr(import_module("bochner.cli.train"), "fit", fit)
        with pytest.raises(error, match=message):
            main(["train", str(data), "--target=ring", f"--output_dir={tmp_path / 'm'}"])
