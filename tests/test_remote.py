"""Files at URLs: read in parts or copied, uploaded when complete."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import numpy as np
import pandas
import pyarrow.feather
import pyarrow.parquet
import pytest
import torch
from sklearn.datasets import dump_svmlight_file

import bochner
from bochner import KernelClassifier, open_source, remote
from bochner.cli import main
from bochner.estimators.batch import BatchPredictor
from bochner.remote import is_url, local_path, refuse_url, written
from bochner.solvers import sgd


@pytest.fixture
def url() -> Iterator[str]:
    """A separate directory in the in-memory file system of this process."""
    url = f"memory://{uuid.uuid4().hex}"
    yield url
    fsspec.filesystem("memory").rm(url, recursive=True)


def people(num_rows: int = 80) -> pandas.DataFrame:
    rng = np.random.default_rng(0)
    job, age = rng.choice(["clerk", "nurse", "pilot"], num_rows), rng.integers(18, 70, num_rows)
    who = [f"p{row}" for row in range(num_rows)]
    return pandas.DataFrame({"who": who, "job": job, "age": age, "income": np.where(job == "pilot", "high", "low")})


def upload(url: str, content: bytes) -> None:
    with fsspec.open(url, "wb") as file:
        file.write(content)


def test_what_is_a_url() -> None:
    assert all(map(is_url, ["s3://bucket/a.csv", "memory://a", "filecache::s3://bucket/a", "https://host/a.csv"]))
    assert not any(map(is_url, ["a.csv", "/tmp/a.csv", "C:/a.csv", "C:\\a.csv", "dir/s3://a", Path("a:b")]))
    assert local_path("a.csv") == Path("a.csv")


def test_a_file_is_copied_once_and_again_when_it_has_changed(url: str) -> None:
    upload(f"{url}/a.csv", b"a")
    first = local_path(f"{url}/a.csv")
    assert (first.name, first.read_bytes()) == ("a.csv", b"a")
    assert local_path(f"{url}/a.csv") == first
    upload(f"{url}/a.csv", b"other")
    assert local_path(f"{url}/a.csv").read_bytes() == b"other"


def test_a_directory_is_copied_with_its_subdirectories(url: str) -> None:
    upload(f"{url}/parts/1.csv", b"1")
    upload(f"{url}/parts/inner/2.csv", b"2")
    for address in (f"{url}/parts", f"{url}/parts/"):
        copy = local_path(address)
        assert copy.name == "parts"
        assert sorted(file.relative_to(copy).as_posix() for file in copy.rglob("*.csv")) == ["1.csv", "inner/2.csv"]


def test_what_is_written_arrives_whole_or_not_at_all(url: str) -> None:
    with written(f"{url}/out.txt") as path:
        path.write_text("done")
    assert fsspec.filesystem("memory").cat(f"{url}/out.txt") == b"done"
    with pytest.raises(ZeroDivisionError), written(f"{url}/other.txt") as path:
        path.write_text(f"half {1 / 0}")
    assert not fsspec.filesystem("memory").exists(f"{url}/other.txt")


def test_errors_name_the_url(url: str) -> None:
    upload(f"{url}/a.csv", b"a")
    with pytest.raises(FileNotFoundError, match=f"{url}/b.csv does not exist"):
        local_path(f"{url}/b.csv")
    with pytest.raises(ValueError, match="nosuch://a cannot be opened: Protocol not known: nosuch"):
        local_path("nosuch://a")
    with pytest.raises(TypeError, match=r"a URL must be text, not a pathlib\.Path, got memory:/a"):
        local_path(Path("memory://a"))
    with pytest.raises(ValueError, match="output_dir must be a local path here, got s3:/bucket/out"):
        refuse_url("output_dir", Path("s3://bucket/out"), "here")


def test_names_that_lead_out_of_a_directory_are_refused(monkeypatch: Any, tmp_path: Path) -> None:
    """A store may be hostile: nothing is written outside of the copy."""

    class Hostile:
        exists = isdir = lambda self, path: True
        find = lambda self, path: [f"{path}/ok", f"{path}/../../../../evil"]  # noqa: E731
        ukey = lambda self, path: 0  # noqa: E731
        copied: ClassVar[list[str]] = []

        def get_file(self, name: str, target: str) -> None:
            self.copied.append(name.rpartition("/")[2])
            Path(target).write_text("")

    monkeypatch.setattr(remote, "_opened", lambda url: (Hostile(), "run"))
    for read in (local_path, remote.Mirror):
        with pytest.raises(ValueError, match=r"memory://run holds .*evil, which is a path out of it"):
            read("memory://run")
    assert Hostile.copied == ["ok", "ok"]


def test_estimators_and_sources_read_urls(url: str) -> None:
    frame = people()
    upload(f"{url}/people.csv", frame.drop(columns="who").to_csv(index=False).encode())
    model = KernelClassifier(preset="fast", random_state=0).fit(f"{url}/people.csv", target="income")
    expected = model.predict(frame[["job", "age"]])
    assert model.predict(f"{url}/people.csv").tolist() == expected.tolist()
    half = len(frame) // 2
    for number, part in enumerate([frame[:half], frame[half:]]):
        upload(f"{url}/parts/{number}.parquet", part[["age", "income"]].to_parquet())
    source = open_source(f"{url}/parts", target="income")
    assert source.shard_sizes == [half, half]
    assert source.labels == ("high", "low")


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "libsvm"])
def test_only_the_parts_that_are_needed_are_read(suffix: str, url: str, tmp_path: Path, monkeypatch: Any) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(8000, 4)).astype("float32"), rng.integers(2, size=8000)
    table = pyarrow.table({f"x{j}": X[:, j] for j in range(4)} | {"y": y})
    path = tmp_path / f"rows.{suffix}"
    if suffix == "parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=1000)
    elif suffix == "arrow":
        pyarrow.feather.write_feather(table, path, chunksize=1000)
    else:
        dump_svmlight_file(X, y, str(path), zero_based=False)
    upload(f"{url}/{path.name}", path.read_bytes())
    target = None if suffix == "libsvm" else "y"
    source, local = (open_source(p, target=target, shard_rows=1000) for p in (f"{url}/{path.name}", path))
    count = [0]
    read = fsspec.implementations.memory.MemoryFile.read

    def counted(file: Any, size: int = -1) -> bytes:
        content: bytes = read(file, size)
        count[0] += len(content)
        return content

    monkeypatch.setattr(fsspec.implementations.memory.MemoryFile, "read", counted)
    for shard in (5, 2):
        part, expected = source.read(shard), local.read(shard)
        assert torch.equal(part.X, expected.X)
        assert torch.equal(part.y, expected.y)
    assert 0 < count[0] < path.stat().st_size * 0.35
    assert not any(name.startswith(url) for name in remote._copies)


def test_training_resumes_from_a_url(url: str, tmp_path: Path, monkeypatch: Any) -> None:
    """A run that ends after two epochs, in a process whose local files are lost, resumes from the checkpoint there."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    np.savez(tmp_path / "rows.npz", X=X, y=(X[:, 0] > 0).astype(int))
    words = ["train", str(tmp_path / "rows.npz"), "--preset=none", "--solver=sgd", "--n_components=16"]
    words += ["--learning_rate=1", "--max_epochs=4", "--quiet"]
    main([*words, f"--output_dir={tmp_path / 'whole'}"])

    epochs = []

    def stop(state: Any, *arguments: Any) -> None:
        checkpoint(state, *arguments)
        epochs.append(state.epoch)
        if state.epoch == 2:
            raise KeyboardInterrupt

    checkpoint = sgd._checkpoint
    monkeypatch.setattr(sgd, "_checkpoint", stop)
    with pytest.raises(SystemExit, match="130"):
        main([*words, f"--output_dir={url}/run"])
    files = fsspec.filesystem("memory").find(f"{url}/run")
    assert any(file.endswith("checkpoint.safetensors") for file in files)
    assert not any(file.endswith("model.safetensors") for file in files)

    def resume(state: Any, *arguments: Any) -> None:
        checkpoint(state, *arguments)
        epochs.append(state.epoch)

    monkeypatch.setattr(sgd, "_checkpoint", resume)
    main([*words, f"--output_dir={url}/run"])
    assert epochs == list(range(1, 1 + len(epochs)))  # none is repeated
    assert len(epochs) > 2
    names = {file.partition("/run/")[2] for file in fsspec.filesystem("memory").find(f"{url}/run")}
    assert names == {path.name for path in (tmp_path / "whole").iterdir() if not path.name.startswith(".")}
    stored = fsspec.filesystem("memory").cat(f"{url}/run/model.safetensors")
    assert stored == (tmp_path / "whole" / "model.safetensors").read_bytes()
    main(["info", f"{url}/run"])
    main(["predict", f"{url}/run", str(tmp_path / "rows.npz"), "--output", str(tmp_path / "p.csv")])


def test_checkpoints_of_estimators_at_a_url(url: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    params = {"checkpoint_dir": f"{url}/run", "max_epochs": 1, "learning_rate": 1.0}
    model = KernelClassifier(preset=None, solver="sgd", n_components=16, solver_params=params, random_state=0)
    first = model.fit(X, X[:, 0] > 0).predict_proba(X)
    assert fsspec.filesystem("memory").exists(f"{url}/run/checkpoint.safetensors")
    np.testing.assert_array_equal(model.fit(X, X[:, 0] > 0).predict_proba(X), first)
    with pytest.raises(ValueError, match="other data"):
        model.fit(X + 1, X[:, 0] > 0)


def test_commands_read_and_write_urls(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = people()
    upload(f"{url}/people.csv", frame.to_csv(index=False, sep=";").encode())
    upload(f"{url}/new.parquet", frame[:20].to_parquet())
    out = str(tmp_path / "out")
    options = ["--target", "income", "--ignore", "who", "--preset", "fast", "--output_dir", out]
    main(["train", f"{url}/people.csv", *options])
    main(["evaluate", out, f"{url}/people.csv"])
    shown = capsys.readouterr()
    assert f"{url}/people.csv is the file of training" in shown.out + shown.err
    main(["predict", out, f"{url}/new.parquet", "--id", "who", "--output", f"{url}/out.parquet"])
    predictions = pandas.read_parquet(f"{url}/out.parquet")
    assert predictions["who"].tolist() == frame["who"][:20].tolist()
    assert predictions["prediction"].tolist() == BatchPredictor(out)(frame[:20])["prediction"].tolist()
    with pytest.raises(SystemExit, match="1"):
        main(["train", f"{url}/people.csv", "--target", "income", "--output_dir", f"{url}/out", "--processes", "2"])
    assert "output_dir must be a local path with several processes" in capsys.readouterr().err


def test_a_model_at_a_url(url: str, tmp_path: Path) -> None:
    frame = people()
    model = KernelClassifier(preset="fast", random_state=0).fit(frame[["job", "age"]], frame["income"])
    bochner.save(model, tmp_path / "model.safetensors")
    upload(f"{url}/model.safetensors", (tmp_path / "model.safetensors").read_bytes())
    predictor = BatchPredictor(f"{url}/model.safetensors", keep=["who"])
    assert predictor(frame)["prediction"].tolist() == model.predict(frame[["job", "age"]]).tolist()
