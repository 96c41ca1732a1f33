"""Files at URLs: copied when read, uploaded when complete."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import fsspec
import numpy as np
import pandas
import pytest

import bochner
from bochner import KernelClassifier, open_source
from bochner.cli import main
from bochner.estimators.batch import BatchPredictor
from bochner.remote import is_url, local_path, refuse_url, written


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
    with pytest.raises(ValueError, match="output_dir must be a local path, got s3:/bucket/out"):
        refuse_url("output_dir", Path("s3://bucket/out"))


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
        main(["train", f"{url}/people.csv", "--target", "income", "--output_dir", f"{url}/out"])
    assert "output_dir must be a local path" in capsys.readouterr().err


def test_a_model_at_a_url(url: str, tmp_path: Path) -> None:
    frame = people()
    model = KernelClassifier(preset="fast", random_state=0).fit(frame[["job", "age"]], frame["income"])
    bochner.save(model, tmp_path / "model.safetensors")
    upload(f"{url}/model.safetensors", (tmp_path / "model.safetensors").read_bytes())
    predictor = BatchPredictor(f"{url}/model.safetensors", keep=["who"])
    assert predictor(frame)["prediction"].tolist() == model.predict(frame[["job", "age"]]).tolist()
