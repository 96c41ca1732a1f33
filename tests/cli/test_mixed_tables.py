"""Tables with text, dates and missing values: train, evaluate and predict with the encoder of the model."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import bochner
from tests.cli.files import read_csv, run

Capture = pytest.CaptureFixture[str]
N = 240


def people(num_rows: int, *, seed: int = 0) -> pandas.DataFrame:
    """A table whose target depends on job, date and size, with missing values and an identifier."""
    rng = np.random.default_rng(seed)
    job = rng.choice(["clerk", "nurse", "pilot"], num_rows)
    size = rng.normal(size=num_rows).round(3)
    joined = pandas.Timestamp("2020-01-01") + pandas.to_timedelta(rng.integers(0, 900, num_rows), unit="D")
    income = np.where((job == "pilot") | (size > 0.5), ">50K", "<=50K")
    return pandas.DataFrame(
        {
            "person": [f"{i:04d}" for i in range(num_rows)],
            "job": np.where(rng.random(num_rows) < 0.05, None, job),
            "size": np.where(rng.random(num_rows) < 0.05, np.nan, size),
            "joined": joined,
            "income": income,
        }
    )


@pytest.fixture(scope="session")
def people_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train.csv with semicolons, decimal commas, German dates and Windows-1252, test.parquet, and the model."""
    directory = tmp_path_factory.mktemp("people")
    table = people(N).rename(columns={"size": "größe"})
    options: dict[str, Any] = {"sep": ";", "decimal": ",", "date_format": "%d.%m.%Y", "encoding": "cp1252"}
    table.to_csv(directory / "train.csv", index=False, **options)
    people(90, seed=1).rename(columns={"size": "größe"}).to_parquet(directory / "test.parquet")
    words = ["train", directory / "train.csv", "--target=income", "--ignore=person", "--preset=fast"]
    bochner.cli.main([str(word) for word in [*words, f"--output_dir={directory / 'model'}"]])
    return directory


def test_the_encoder_is_that_of_the_estimator(people_model: Path) -> None:
    model = bochner.load(people_model / "model" / "model.safetensors")
    kinds = {column.name: column.kind for column in model.encoder_.columns}
    assert kinds == {"job": "category", "größe": "number", "joined": "date"}
    test = pandas.read_parquet(people_model / "test.parquet")
    assert (model.predict(test[["job", "größe", "joined"]]) == test["income"]).mean() > 0.8


def test_what_was_detected_is_logged(people_model: Path, tmp_path: Path, capsys: Capture) -> None:
    words = ["train", people_model / "train.csv", "--target=-1", "--preset=fast", f"--output_dir={tmp_path / 'm'}"]
    code, out, err = run(capsys, *words)
    assert code == 0
    assert "separated by semicolon, decimal commas, cp1252" in out
    assert "240 rows, 4 inputs" in out
    assert "column 'person' has another value in every row" in err


def test_evaluate_in_every_format(people_model: Path, tmp_path: Path, capsys: Capture) -> None:
    test = pandas.read_parquet(people_model / "test.parquet")
    test.to_csv(tmp_path / "test.tsv", sep="\t", index=False)
    test.to_json(tmp_path / "test.jsonl", orient="records", lines=True, date_format="iso")
    scores = []
    for data in (people_model / "test.parquet", tmp_path / "test.tsv", tmp_path / "test.jsonl"):
        words = ["evaluate", people_model / "model", data, "--target=income", "--json", tmp_path / "s.json"]
        outcome = run(capsys, *words)
        assert outcome.code == 0, outcome.err
        scores.append(json.loads((tmp_path / "s.json").read_text()))
    assert scores[0]["accuracy"] > 0.8
    assert scores[0]["num_rows"] == 90
    for other in scores[1:]:
        assert other["ce"] == pytest.approx(scores[0]["ce"])


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_predictions_with_identifiers(suffix: str, people_model: Path, tmp_path: Path, capsys: Capture) -> None:
    output = tmp_path / f"p.{suffix}"
    test = pandas.read_parquet(people_model / "test.parquet")
    test.drop(columns="income").to_csv(tmp_path / "new.csv", index=False)
    words = ["predict", people_model / "model", tmp_path / "new.csv", "--id=person", "--output", output]
    outcome = run(capsys, *words, "--probabilities")
    assert (outcome.code, outcome.out) == (0, f"90 predictions: {output}\n")
    rows = read_csv(output.read_text()) if suffix == "csv" else pandas.read_parquet(output).to_dict("records")
    assert [row["person"] for row in rows] == test["person"].tolist()  # 0001 stays 0001
    assert list(rows[0]) == ["person", "prediction", "p(<=50K)", "p(>50K)"]
    model = bochner.load(people_model / "model" / "model.safetensors")
    assert [row["prediction"] for row in rows] == model.predict(test[["job", "größe", "joined"]]).tolist()


def test_predictions_on_the_standard_output_are_only_rows(people_model: Path, capsys: Capture) -> None:
    outcome = run(capsys, "predict", people_model / "model", people_model / "train.csv")
    assert (outcome.code, len(outcome.out.splitlines())) == (0, N + 1)


def test_columns_that_are_missing_renamed_or_no_table(people_model: Path, tmp_path: Path, capsys: Capture) -> None:
    test = pandas.read_parquet(people_model / "test.parquet")
    test.drop(columns="job").to_csv(tmp_path / "short.csv", index=False)
    renamed = test.rename(columns={"job": "work"})
    renamed.to_csv(tmp_path / "renamed.csv", index=False)
    np.savez(tmp_path / "a.npz", X=np.eye(3))
    model = people_model / "model"
    assert "has no column 'job'" in run(capsys, "predict", model, tmp_path / "short.csv").err
    assert "must be a table with the columns ['job'" in run(capsys, "predict", model, tmp_path / "a.npz").err
    assert "has no column 'who'" in run(capsys, "predict", model, people_model / "test.parquet", "--id=who").err
    words = ["predict", model, tmp_path / "renamed.csv", "--columns=work,größe,joined"]
    assert run(capsys, *words).out == run(capsys, "predict", model, people_model / "test.parquet").out


def test_a_validation_file(people_model: Path, tmp_path: Path, capsys: Capture) -> None:
    words = ["train", people_model / "train.csv", "--target=income", "--ignore=person", "--preset=fast"]
    words += [f"--validation_data={people_model / 'test.parquet'}", f"--output_dir={tmp_path / 'm'}"]
    outcome = run(capsys, *words)
    assert outcome.code == 0, outcome.err
    assert json.loads((tmp_path / "m" / "validation_scores.json").read_text())["num_rows"] == 90


def test_numbers_weights_and_other_solvers(tmp_path: Path, capsys: Capture) -> None:
    table = people(120)
    table = table.assign(income=np.where(table["job"] == "pilot", 3.5, 1.25) + table["size"].fillna(0), w=1.0)
    table.drop(columns="person").to_csv(tmp_path / "t.csv", index=False)
    words = ["train", tmp_path / "t.csv", "--target=income", "--weight=w", "--preset=none", "--standardize"]
    for solver in ("auto", "sgd"):
        outcome = run(capsys, *words, "--solver", solver, "--max_epochs=5", f"--output_dir={tmp_path / solver}")
        assert outcome.code == 0, outcome.err
    assert run(capsys, "evaluate", tmp_path / "auto", tmp_path / "t.csv", "--target=income").code == 0


def test_a_label_that_training_had_not_is_named(people_model: Path, tmp_path: Path, capsys: Capture) -> None:
    people(5).rename(columns={"size": "größe"}).assign(income="much").to_csv(tmp_path / "t.csv", index=False)
    outcome = run(capsys, "evaluate", people_model / "model", tmp_path / "t.csv", "--target=income")
    assert outcome.code == 1
    assert "'much'" in outcome.err


def test_a_report(people_model: Path, tmp_path: Path, capsys: Capture) -> None:
    test = people_model / "test.parquet"
    outcome = run(capsys, "report", people_model / "model", test, "--output", tmp_path / "r.html")
    assert (outcome.code, outcome.out) == (0, f"report: {tmp_path / 'r.html'}\n")
    page = (tmp_path / "r.html").read_text()
    for text in ("Prediction of income", "On 90 test rows", "Only 90 rows were scored", "train.csv", "best constant"):
        assert text in page
    assert "is the file of training" not in page
    outcome = run(capsys, "report", people_model / "model", people_model / "train.csv", "--output", tmp_path / "s.html")
    assert outcome.code == 0, outcome.err
    assert "is the file of training: 216 of its rows were trained on" in (tmp_path / "s.html").read_text()


@pytest.mark.parametrize("name", ["ring_model", "wave_model"])
def test_reports_of_models_of_numbers(name: str, request: pytest.FixtureRequest, capsys: Capture) -> None:
    directory = request.getfixturevalue(name)
    assert run(capsys, "report", directory / "model", directory / "test.csv").code == 0
    assert "test rows, " in (directory / "model" / "report.html").read_text()


def test_a_plain_install_needs_neither_pandas_nor_polars(people_model: Path, tmp_path: Path) -> None:
    script = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pandas", "polars", "matplotlib", "onnx"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
from bochner.cli import main

data, test, model = sys.argv[1:]
main(["train", data, "--target=income", "--ignore=person", "--preset=fast", f"--output_dir={model}"])
main(["evaluate", model, test])
main(["predict", model, test, "--id=person", "--output", f"{model}.csv"])
"""
    files = [people_model / "train.csv", people_model / "test.parquet", tmp_path / "m"]
    subprocess.run([sys.executable, "-c", script, *map(str, files)], check=True)
    assert len((tmp_path / "m.csv").read_text().splitlines()) == 91


def test_codes_are_categories_if_asked_for(tmp_path: Path, capsys: Capture) -> None:
    rng = np.random.default_rng(0)
    code = rng.integers(0, 5, 100)
    pandas.DataFrame({"code": code, "y": code % 2}).to_csv(tmp_path / "t.csv", index=False)
    words = ["train", tmp_path / "t.csv", "--target=y", "--categories=code", f"--output_dir={tmp_path / 'm'}"]
    assert run(capsys, *words, "--preset=fast").code == 0
    assert bochner.load(tmp_path / "m" / "model.safetensors").encoder_.columns[0].kind == "category"
    assert run(capsys, "evaluate", tmp_path / "m", tmp_path / "t.csv").code == 0


def test_a_report_of_some_rows_without_a_record_of_training(
    people_model: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model file alone does not tell its training file; of more rows than are scored, some are drawn."""
    monkeypatch.setattr(import_module("bochner.cli.report"), "MAX_ROWS", 40)
    model = tmp_path / "model.safetensors"
    model.write_bytes((people_model / "model" / "model.safetensors").read_bytes())
    words = ("report", model, people_model / "test.parquet", "--target=income")
    assert run(capsys, *words).code == 0
    page = (tmp_path / "report.html").read_text()
    assert "40, drawn at random" in page
    assert "SHA-256 of the training file" not in page
    outcome = run(capsys, "report", "https://example.org/model", people_model / "test.parquet")
    assert outcome.code == 1
    assert "output must be given for a model at a URL, https://example.org/model" in outcome.err
