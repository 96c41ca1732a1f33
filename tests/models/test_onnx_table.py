"""Tables in ONNX: the graph's matrix is the encoder's, for unknown levels, missing values and dates of all years."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from bochner import KernelClassifier
from bochner.data import TableEncoder
from bochner.data.encoder import DroppedColumn
from bochner.data.frames import frame_columns, read_column
from bochner.models.onnx.export import IR_VERSION, OPSET
from bochner.models.onnx.graph import Graph, Value
from bochner.models.onnx.table import ML_DOMAIN, ML_OPSET, encode_table, input_name

onnx = pytest.importorskip("onnx", reason="pip install bochner[onnx]")
onnxruntime = pytest.importorskip("onnxruntime", reason="pip install bochner[onnx]")

TABLES = Path(__file__).parents[3] / "shared" / "data" / "tabular"

both_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def run(encoder: TableEncoder, frame: Any, dtype: torch.dtype, *, inputs: torch.dtype | None = None) -> np.ndarray:
    """The output of ONNX Runtime for a frame's columns."""
    graph = Graph(dtype)
    infos, X = encode_table(encoder, graph, dtype=inputs)
    graph.nodes.append(onnx.helper.make_node("Identity", [X.name], ["out"]))
    model = onnx.helper.make_model(
        graph.proto("table", infos, [Value(graph, "out").info(["N", len(encoder.names)])]),
        opset_imports=[onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid(ML_DOMAIN, ML_OPSET)],
        ir_version=IR_VERSION,
    )
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    series = frame_columns(frame)
    feeds = {}
    for column in encoder.columns:
        if isinstance(column, DroppedColumn):
            continue
        rows = read_column(column.name, series[column.name], expected=column.kind)
        if column.kind == "category":
            values = np.array(rows.levels, dtype=object)[rows.values]
        else:
            is_double = column.kind == "date" or (inputs or dtype) == torch.float64
            values = rows.values.astype(np.float64 if is_double else np.float32)
        feeds[input_name(column.name)] = values[:, None]
    return session.run(["out"], feeds)[0]


def frame(n: int = 200, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    dates = pd.Series(np.datetime64("2012-02-27T05:00:00", "us") + rng.integers(0, 4 * 365 * 86400, n) * 10**6)
    return pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(40, 10, n)),
            "count": rng.integers(0, 1000, n),
            "scores": rng.random(n),  # also the name of an output
            "Gather_3": rng.random(n) < 0.5,
            "": np.where(rng.random(n) < 0.2, np.nan, 3.0),
            "constant": 1,
            "job": pd.Series(rng.choice(["a", "b", "ü €", None], n), dtype=object),
            "size": pd.Categorical(rng.choice(["s", "m", "l"], n), ["s", "m", "l", "xl"], ordered=True),
            "city": pd.Series([f"c{i}" for i in rng.zipf(1.3, n) % 60], dtype=object).mask(rng.random(n) < 0.05),
            "seen": dates.mask(rng.random(n) < 0.1),
            "paid": dates.dt.normalize(),
            "waited": pd.to_timedelta(rng.exponential(1000, n), unit="s"),
        }
    )


def fitted(num_classes: int | None) -> TableEncoder:
    rng = np.random.default_rng(1)
    y = rng.normal(size=200) if num_classes is None else rng.integers(0, num_classes, 200)
    return TableEncoder.fit(frame(), y, num_classes=num_classes)[0]


def assert_same(actual: np.ndarray, expected: np.ndarray, dtype: torch.dtype) -> None:
    assert actual.dtype == (np.float32 if dtype == torch.float32 else np.float64)
    assert actual.shape == expected.shape
    scale = np.maximum(np.abs(expected).max(axis=0, initial=0), 1)
    np.testing.assert_array_less(np.abs(actual - expected) / scale, 1e-5 if dtype == torch.float32 else 1e-12)


@both_dtypes
@pytest.mark.parametrize("num_classes", [None, 2, 3, 12])
def test_the_graph_encodes_as_the_encoder(num_classes: int | None, dtype: torch.dtype) -> None:
    encoder, new = fitted(num_classes), frame(500, seed=2)  # other cities besides
    assert any(name.startswith("city mean y") for name in encoder.names)  # which of them depends on random folds
    new["job"] = new["job"].where(new.index % 3 > 0, "unknown")
    new.loc[::5, ["city", "paid", "count", "waited"]] = None  # missing where no training row was
    for rows in (new, new[:1]):
        assert_same(run(encoder, rows, dtype), encoder.encode(rows), dtype)


def test_inputs_in_float32_for_a_graph_in_float64() -> None:
    encoder, new = fitted(2), frame(50, seed=2)
    new["age"], new["scores"] = new["age"].astype(np.float32), new["scores"].astype(np.float32)
    actual = run(encoder, new, torch.float64, inputs=torch.float32)
    assert actual.dtype == np.float64
    assert_same(actual.astype(np.float32), encoder.encode(new), torch.float32)


@both_dtypes
def test_dates_of_all_years(dtype: torch.dtype) -> None:
    """The calendar of the graph is written out by hand: ends of leap years, centuries and the first and last day."""
    years = [1, 4, 5, 100, 101, 400, 401, 1599, 1600, 1601, 1900, 1969, 1970, 1972, 2000, 2001, 2023, 2024, 2100, 9999]
    dates = [datetime(y, *day) for y in years for day in ((1, 1), (2, 28, 23, 59, 59), (3, 1), (12, 31, 12))]
    rows = pd.DataFrame({"date": pd.Series([*dates, None], dtype=object)})
    encoder, _ = TableEncoder.fit(rows, np.arange(len(rows)) * 1.0, num_classes=None)
    assert len(encoder.names) == 9
    assert_same(run(encoder, rows, dtype), encoder.encode(rows), dtype)


def test_seconds_out_of_range_are_missing() -> None:
    rows = pd.DataFrame({"date": pd.to_datetime(["2020-01-01", "2021-07-05", None])})
    encoder, _ = TableEncoder.fit(rows, [0, 1, 1], num_classes=2)
    far = pd.DataFrame({"date": pd.Series(np.array([253402300800, 253402300799, -62135596801], "M8[s]"))})
    missing = encoder.names.index("date missing")
    assert encoder.encode(far)[:, missing].tolist() == [1, 0, 1]
    graph = Graph(torch.float64)
    infos, X = encode_table(encoder, graph)
    model = onnx.helper.make_model(
        graph.proto("table", infos, [X.info(["N", len(encoder.names)])]),
        opset_imports=[onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid(ML_DOMAIN, ML_OPSET)],
        ir_version=IR_VERSION,
    )
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    seconds = np.array([[253402300800.0], [253402300799], [-62135596801]])
    np.testing.assert_allclose(session.run(None, {"date": seconds})[0], encoder.encode(far), atol=1e-9)


@pytest.mark.skipif(not TABLES.exists(), reason=f"{TABLES} is not here")
@both_dtypes
@pytest.mark.parametrize(
    ("name", "target"), [("adult", "income"), ("mplsstops", "problem"), ("sba_loans", "MIS_Status")]
)
def test_real_tables(name: str, target: str, dtype: torch.dtype) -> None:
    """Half of the rows to fit on, the others with levels that these do not have."""
    rows = pd.read_parquet(TABLES / f"{name}.parquet").sample(4000, random_state=0)
    y = np.unique(rows.pop(target), return_inverse=True)[1]
    encoder, _ = TableEncoder.fit(rows[:2000], y[:2000], num_classes=2)
    assert_same(run(encoder, rows[2000:], dtype), encoder.encode(rows[2000:]), dtype)


@both_dtypes
def test_numbers_with_means_of_their_values(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(0)
    amount = np.where(rng.random(4000) < 0.7, 0, rng.integers(100, 200, 4000)) / 10
    rows = pd.DataFrame({"amount": np.where(rng.random(4000) < 0.05, np.nan, amount), "size": rng.random(4000)})
    y = (amount * 10).round().astype(int) * 7919 % 13 < 6
    encoder, _ = TableEncoder.fit(rows, y.astype(int), num_classes=2)
    assert "amount value mean y" in encoder.names
    new = pd.DataFrame({"amount": [0, 10.1, 10.15, np.nan, 14.9], "size": 0.5})
    assert_same(run(encoder, new, dtype), encoder.encode(new), dtype)


def feeds_of(session: Any, rows: pd.DataFrame) -> dict[str, np.ndarray]:
    """The columns of a frame as a client would send them: text as text, numbers as they are."""
    feeds = {}
    for node in session.get_inputs():
        column = rows[node.name]
        is_text = node.type == "tensor(string)"
        values = column.astype(object).where(column.notna(), "") if is_text else column.astype(np.float32)
        feeds[node.name] = values.to_numpy(object if is_text else np.float32)[:, None]
    return feeds


def test_an_automatic_model_of_a_real_table(shared_data: Any, tmp_path: Path) -> None:
    rows = pd.read_parquet(shared_data("tabular/adult.parquet"))[:1200]
    model = KernelClassifier(random_state=0).fit(rows[:800], target="income")
    rows = rows[800:].drop(columns="income")
    rows.loc[rows.index[0], "workclass"] = "astronaut"  # which training did not see
    for dtype, tolerance in ((torch.float32, 2e-3), (torch.float64, 1e-6)):
        model.model_.to(dtype)
        model.export_onnx(tmp_path / "adult.onnx")
        session = onnxruntime.InferenceSession(tmp_path / "adult.onnx", providers=["CPUExecutionProvider"])
        label, p, _ = session.run(None, feeds_of(session, rows))
        expected = model.predict_proba(rows)
        np.testing.assert_allclose(p, expected, rtol=0, atol=tolerance)
        is_sure = np.abs(expected[:, 0] - 0.5) > tolerance
        assert label[is_sure].tolist() == model.predict(rows)[is_sure].tolist()


def test_classes_of_a_column_of_objects(tmp_path: Path) -> None:
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.array(["no", "yes"] * 15, dtype=object)
    KernelClassifier(preset=None).fit(X, y).export_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    assert set(session.run(["label"], {"X": X.astype(np.float32)})[0]) <= {"no", "yes"}
