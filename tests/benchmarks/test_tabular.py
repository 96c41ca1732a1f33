"""The tabular benchmark: cells run in processes, failures are recorded, results are kept, and the page shows them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.tabular.__main__ import main
from benchmarks.tabular.contenders import CONTENDERS, Setting, build
from benchmarks.tabular.encoding import Categories, Matrix
from benchmarks.tabular.records import read_records, write_csv
from benchmarks.tabular.runner import Cell, Limits, Runner
from benchmarks.tabular.summary import Summary, critical_difference
from benchmarks.tabular.tables import read

QUICK = ["random-forest", "hist-gradient-boosting"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two tables of text, dates, missing values and an easy target."""
    generator = np.random.default_rng(0)
    color = generator.choice(["red", "green", "blue"], 300)
    number = generator.standard_normal(300)
    frame = pd.DataFrame(
        {
            "color": pd.Series(color).where(generator.random(300) > 0.1),
            "name": [f"n{i % 60}" for i in range(300)],
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(generator.integers(0, 900, 300), "D"),
            "size": pd.Series(number).where(generator.random(300) > 0.1),
        }
    )
    folder = tmp_path / "data" / "tabular"
    folder.mkdir(parents=True)
    frame.assign(label=np.where(number > 0, "yes", "no")).to_parquet(folder / "labels.parquet")
    frame.assign(value=3 * number + (color == "red")).to_parquet(folder / "values.parquet")
    index = [
        ("labels", "labels.parquet", 300, "binary", "label", "ROC AUC"),
        ("values", "values.parquet", 300, "regression", "value", "R2"),
    ]
    pd.DataFrame(index, columns=["name", "file", "rows", "task", "target", "metric"]).to_csv(folder / "index.csv")
    return tmp_path / "data"


def test_records_survive_the_file(tmp_path: Path) -> None:
    done = {"set": "a", "split": 0, "contender": "x", "num_train": 80, "scores": {"accuracy": 0.5}, "threads": 1}
    done["machine"] = {"python": "3.12", "cores": 16, "commit": "1234567", "versions": {"x": "1.10"}}
    failed = {"set": "a", "split": 1, "contender": "x", "threads": 1, "error": "time limit of 9 s"}
    write_csv([done, failed], tmp_path / "results.csv")
    assert read_records(tmp_path / "results.csv") == [done, failed]


def test_cells_are_run_once_and_shown_on_the_page(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"
    options = ["--data", str(data), "--results", str(results)]
    run = [*options, "--splits", "0", "--contenders", *QUICK, "--jobs", "2"]
    main(run)
    assert len(capsys.readouterr().out.splitlines()) == 4
    main(run)
    assert capsys.readouterr().out == ""

    records = {(record["set"], record["contender"]): record for record in read_records(results)}
    assert len(records) == 4
    for (name, _), record in records.items():
        assert "error" not in record, record
        assert record["scores"]["roc_auc" if name == "labels" else "r2"] > 0.7
        assert record["fit_seconds"] > 0
        assert (record["num_train"], record["num_test"]) == (240, 60)

    page, stored = tmp_path / "docs" / "page.md", tmp_path / "results.csv"
    main([*options, "--store", str(stored)])
    main(["--results", str(stored), "--page", str(page)])
    text = page.read_text()
    main([*options, "--page", str(page)])
    assert text == page.read_text()  # the file holds all that the page shows
    assert "2 tables, splits 0, 4 fits" in text
    assert "1 thread per fit, 2 fits at a time" in text
    shown = f"{100 * records['labels', 'random-forest']['scores']['roc_auc']:.2f}"
    assert shown in text
    assert {path.name for path in (tmp_path / "docs" / "assets").iterdir()} == {
        "tabular_ranks.png",
        "tabular_costs.png",
    }


@pytest.mark.parametrize(
    ("limits", "error"), [(Limits(seconds=0.05), "time limit of 0.05 s"), (Limits(gibibytes=1e-3), "memory limit")]
)
def test_a_cell_beyond_its_limits_is_recorded(data: Path, tmp_path: Path, limits: Limits, error: str) -> None:
    runner = Runner(tmp_path / "results", data, limits=limits)
    assert runner.run(Cell("labels", 0, "random-forest"))["error"].startswith(error)
    assert [json.loads(path.read_text())["split"] for path in (tmp_path / "results").glob("*/*.json")] == [0]


def test_encoders_learn_from_the_training_rows_alone(data: Path) -> None:
    table = read("values", data)
    train, test = table.X.iloc[:240], table.X.iloc[240:].assign(color="purple", size=math.nan)
    categories = Categories("continuous", impute=True)
    Z = categories.fit_transform(train, table.y[:240])
    changed = categories.transform(test)
    assert list(Z.columns) == list(changed.columns)
    assert changed["c0"].isna().all()
    assert (changed["c9"] == Z["c9"][Z["c9 missing"] == 1].iloc[0]).all()
    matrix = Matrix("continuous")
    assert matrix.fit_transform(train, table.y[:240]).shape[1] == matrix.transform(test).shape[1]
    assert np.isfinite(matrix.transform(test)).all()


def _record(name: str, contender: str, **outcome: Any) -> dict[str, Any]:
    return {"set": name, "split": 0, "contender": contender, "kind": "binary", "metric": "accuracy"} | outcome


def test_failures_rank_last_and_count_as_lost() -> None:
    def scored(value: float) -> dict[str, Any]:
        return {"scores": {"accuracy": value}}

    summary = Summary(
        [
            _record("a", "x", **scored(0.9)),
            _record("a", "y", **scored(0.8)),
            _record("a", "z", error="time limit of 1 s"),
            _record("b", "x", **scored(0.7)),
            _record("b", "y", **scored(0.73)),
            _record("b", "z", **scored(0.7)),
            _record("c", "x", **scored(0.7)),  # not common: no part of the ranks
        ]
    )
    ranks = summary.ranks(["x", "y", "z"])
    assert ranks.loc["a"].to_list() == [1, 2, 3]
    assert ranks.loc["b"].to_list() == [2.5, 1, 2.5]
    assert summary.wins("z", "x")[:3] == (0, 1, 1)
    assert summary.wins("x", "z")[:3] == (0, 1, 0)  # a peer that exceeded the time limit does not count as beaten
    assert [row.set for row in summary.behind("x", "y")] == ["b"]
    assert summary.behind("y", "x")[0].gap == pytest.approx(0.1)


def test_times_of_different_machines_are_not_compared() -> None:
    def timed(name: str, contender: str, seconds: float, **place: Any) -> dict[str, Any]:
        return _record(name, contender, scores={"accuracy": 0.9}, fit_seconds=seconds, **({"threads": 1} | place))

    records = [timed("a", "x", 6.0), timed("a", "y", 2.0), timed("b", "x", 8.0, threads=2), timed("b", "y", 1.0)]
    assert Summary(records).cost_ratio("x", "y", "fit_seconds") == 3.0


def test_our_models_run_on_the_device_of_the_record() -> None:
    setting = Setting("regression", 0, seed=0, threads=1, device="cpu")
    for name in ("bochner", "bochner-fast"):
        assert build(CONTENDERS[name], setting).solver_params == {"device": "cpu"}


def test_the_critical_difference_is_that_of_the_tables() -> None:
    # Demsar (2006), table 5: q = 2.728 for five classifiers at 0.05
    assert critical_difference(5, 30) == pytest.approx(2.728 * math.sqrt(5 * 6 / (6 * 30)), rel=1e-3)
