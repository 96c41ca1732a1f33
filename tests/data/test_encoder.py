"""Encoded tables: every encoding compared with plain loops, all frame libraries, real tables and bad columns."""

from __future__ import annotations

import csv
import logging
import math
import statistics
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import bochner
from bochner.data import TableEncoder, is_frame
from bochner.data.encoder import (
    MAX_CLASS_STATISTICS,
    MAX_ONE_HOT,
    CategoryColumn,
    DateColumn,
    DroppedColumn,
    NumberColumn,
    ValueMeans,
    _Targets,
)
from bochner.storage import pack, unpack

TABLES = Path(__file__).parents[3] / "shared" / "data" / "tabular"
LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}

every_library = pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES)


def fit(frame: Any, y: Any = None, **settings: Any) -> tuple[TableEncoder, np.ndarray]:
    y = np.arange(len(frame)) % 2 if y is None else y
    return TableEncoder.fit(frame, y, **{"num_classes": 2, **settings})


def output(encoder: TableEncoder, Z: np.ndarray, name: str) -> list[float]:
    return Z[:, encoder.names.index(name)].tolist()


# -- frames ------------------------------------------------------------------------------------------------------------


def test_what_is_a_frame() -> None:
    frames = [make({"a": [1]}) for make in LIBRARIES.values()]
    assert all(map(is_frame, frames))
    others = [
        np.eye(2),
        [[1.0]],
        torch.eye(2),
        pd.Series([1]),
        pl.Series([1]),
        pl.LazyFrame({"a": [1]}),
        None,
        {"a": [1]},
    ]
    assert not any(map(is_frame, others))
    with pytest.raises(TypeError, match="ndarray"):
        fit(np.eye(2))


@every_library
def test_numbers_stay(make: Any) -> None:
    encoder, Z = fit(make({"a": [3, 1, 2], "b": [0.5, -1e300, 2.0]}))
    assert encoder.names == ("a", "b")
    assert Z.dtype == np.float64
    assert Z.tolist() == encoder.encode(make({"b": [0.5, -1e300, 2.0], "a": [3, 1, 2]})).tolist()  # by name
    assert Z.T.tolist() == [[3, 1, 2], [0.5, -1e300, 2.0]]


@every_library
def test_missing_numbers_are_medians_with_an_indicator(make: Any) -> None:
    encoder, Z = fit(make({"a": [1.0, None, 5.0, 4.0], "b": [1, 2, 3, 9], "c": [7, None, 7, 7]}))
    assert encoder.names == ("a", "a missing", "b", "c missing")
    assert encoder.is_binary.tolist() == [False, True, False, True]
    assert encoder.sources.tolist() == [0, 0, 1, 2]
    assert Z.T.tolist() == [[1, 4, 5, 4], [0, 1, 0, 0], [1, 2, 3, 9], [0, 1, 0, 0]]
    later = make({"a": [2.0], "b": [None], "c": [8]})
    assert encoder.encode(later).tolist() == [[2, 0, 2, 0]]  # no indicator where no training row was missing


@every_library
def test_booleans_are_0_and_1(make: Any) -> None:
    encoder, Z = fit(make({"a": [True, False, True], "b": [True, None, False]}))
    assert Z.T.tolist() == [[1, 0, 1], [1, 0, 0], [0, 1, 0]]
    assert encoder.names == ("a", "b", "b missing")
    assert encoder.is_binary.all()
    assert [column.kind for column in encoder.columns] == ["boolean", "boolean"]


@every_library
def test_few_levels_are_one_hot(make: Any) -> None:
    encoder, Z = fit(make({"job": ["nurse", None, "clerk", "nurse", ""]}))  # the empty string is missing text
    assert encoder.names == ("job missing", "job=clerk", "job=nurse")
    assert encoder.is_binary.all()
    assert Z.tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert encoder.encode(make({"job": ["pilot", "clerk"]})).tolist() == [[0, 0, 0], [0, 1, 0]]
    assert encoder.encode(make({"job": pa.nulls(1) if make is pa.table else [None]})).tolist() == [[1, 0, 0]]


def test_the_number_of_levels_decides() -> None:
    def columns(levels: int) -> int:
        frame = pd.DataFrame({"a": [f"l{i % levels}" for i in range(100)] + [None]})
        return len(fit(frame, np.arange(101) % 3 % 2)[0].names)

    assert columns(MAX_ONE_HOT) == MAX_ONE_HOT + 1
    assert columns(MAX_ONE_HOT + 1) <= 2


def test_categoricals_of_all_libraries() -> None:
    expected = [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
    texts = pa.chunked_array([pa.array(["b", None]).dictionary_encode(), pa.array(["a"]).dictionary_encode()])
    for values in (
        pd.DataFrame({"a": pd.Categorical(["b", None, "a"])}),
        pd.DataFrame({"a": pd.array(["b", None, "a"], dtype="string")}),
        pl.DataFrame({"a": pl.Series(["b", None, "a"], dtype=pl.Categorical)}),
        pl.DataFrame({"a": pl.Series(["b", None, "a"], dtype=pl.Enum(["b", "a", "c"]))}),
        pa.table({"a": texts}),
    ):
        encoder, Z = fit(values)
        assert (encoder.names, Z.tolist()) == (("a missing", "a=a", "a=b"), expected)
        missing = pa.array([None], pa.string()).dictionary_encode()  # a dictionary without levels
        assert encoder.encode(pa.table({"a": missing})).tolist() == [[1, 0, 0]]


def test_categories_of_numbers_have_one_name_in_all_types() -> None:
    encoder, _ = fit(pd.DataFrame({"a": pd.Categorical([10, None, 2])}))
    assert encoder.names == ("a missing", "a=10", "a=2")
    for values in (pd.Categorical([10]), [10], [10.0], ["10"], [Decimal("10.0")], np.array([10], np.uint8)):
        assert encoder.encode(pd.DataFrame({"a": values})).tolist() == [[0, 1, 0]]
    assert encoder.encode(pa.table({"a": pa.array([10]).dictionary_encode()})).tolist() == [[0, 1, 0]]


def test_ordered_categoricals_have_a_rank() -> None:
    sizes = ["s", "m", "l", "xl"]
    frame = pd.DataFrame({"a": pd.Categorical(["m", "s", None, "xl", "m"], sizes, ordered=True)})
    encoder, Z = fit(frame)
    assert encoder.names == ("a missing", "a=m", "a=s", "a=xl", "a rank")
    assert encoder.is_binary.tolist() == [True] * 4 + [False]
    assert output(encoder, Z, "a rank") == [1, 0, 1, 3, 1]
    assert encoder.encode(pd.DataFrame({"a": ["l", "xxl"]})).tolist() == [[0, 0, 0, 0, 2], [0, 0, 0, 0, 1]]
    chunk = pa.DictionaryArray.from_arrays(pa.array([1, 0, None, 3, 1], pa.int8()), sizes, ordered=True)
    assert TableEncoder.fit(pa.table({"a": chunk}), [0, 1, 0, 1, 0], num_classes=2)[1].tolist() == Z.tolist()


def test_intervals_are_ordered_levels() -> None:
    frame = pd.DataFrame({"a": pd.cut(np.array([1, 25, 15, np.nan]), [0, 10, 20, 30])})
    encoder, Z = fit(frame)
    assert encoder.names == ("a missing", "a=(0, 10]", "a=(10, 20]", "a=(20, 30]", "a rank")
    assert output(encoder, Z, "a rank") == [0, 2, 1, 1]
    assert encoder.encode(frame).tolist() == Z.tolist()


def test_levels_of_arrow_may_be_dates() -> None:
    """A declared categorical has levels of any type."""
    days = pa.array([date(2020, 1, 31), date(2021, 2, 28)]).dictionary_encode()
    encoder, Z = fit(pa.table({"a": days.take(pa.array([0, 1, 1, None]))}))
    assert [name[:12] for name in encoder.names] == ["a missing", "a=2020-01-31", "a=2021-02-28"]
    assert Z.tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 1], [1, 0, 0]]


def test_numbers_that_libraries_store_in_other_ways() -> None:
    expected = [[1.5, 0], [1.5, 1], [2, 0]]
    decimals = [Decimal("1.5"), None, Decimal(2)]
    for values in (
        pd.DataFrame({"a": decimals}),
        pl.DataFrame({"a": decimals}),
        pa.table({"a": decimals}),
        pd.DataFrame({"a": pd.array([1.5, None, 2], dtype="Float64")}),
        pd.DataFrame({"a": [1.5, None, 2]}, dtype=object),
        pd.DataFrame({"a": pd.arrays.SparseArray([1.5, np.nan, 2])}),
        pd.DataFrame({"a": np.array([1.5, np.nan, 2], np.float16)}),
        pl.DataFrame({"a": [1.5, float("nan"), 2.0]}),
    ):
        assert fit(values)[1].tolist() == expected


@every_library
def test_durations_are_seconds(make: Any) -> None:
    encoder, Z = fit(make({"a": [timedelta(days=1, microseconds=500_000), None, timedelta(0)]}))
    assert encoder.names == ("a", "a missing")
    assert Z.tolist() == [[86400.5, 0], [0, 1], [0, 0]]


# -- dates -------------------------------------------------------------------------------------------------------------

MOMENTS = [
    datetime(2024, 2, 29, 6),
    datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime(1, 1, 1),
    datetime(9999, 12, 31, 12),
    datetime(2001, 9, 9, 1, 46, 40),
]


def plain_parts(moment: datetime) -> list[float]:
    """The parts of a date with the standard library only."""
    days = (moment.date() - date(1970, 1, 1)).days
    fraction = (moment - datetime.combine(moment.date(), time())).total_seconds() / 86400
    turns = [(moment.timetuple().tm_yday - 1) / 365.25, moment.weekday() / 7, fraction]
    phases = [f(2 * math.pi * turn) for turn in turns for f in (math.sin, math.cos)]
    return [days + fraction, moment.year, *phases]


@every_library
def test_dates_against_the_standard_library(make: Any) -> None:
    encoder, Z = fit(make({"d": MOMENTS}))
    assert encoder.names == (
        *("d days", "d year", "d day of year sin", "d day of year cos"),
        *("d day of week sin", "d day of week cos", "d time of day sin", "d time of day cos"),
    )
    np.testing.assert_allclose(Z, [plain_parts(moment) for moment in MOMENTS], rtol=1e-12, atol=1e-9)
    assert not encoder.is_binary.any()


@every_library
def test_parts_of_a_date_that_do_not_vary_are_left_out(make: Any) -> None:
    days = [date(2020, 1, 1), date(2020, 1, 8), None, date(2020, 2, 5)]  # Wednesdays of one year
    encoder, Z = fit(make({"d": days}))
    assert encoder.names == ("d days", "d day of year sin", "d day of year cos", "d missing")
    assert Z[:, 0].tolist() == [18262, 18269, 18269, 18297]  # the median where missing
    assert encoder.encode(make({"d": [datetime(2021, 5, 5, 12)]}))[0, 0] == 18752.5


def test_the_same_instant_in_other_time_zones_and_units() -> None:
    zone = timezone(timedelta(hours=-5))
    moments = [datetime(2020, 3, 1, 22, 30, tzinfo=zone), datetime(2021, 7, 1, 3, tzinfo=zone)]
    naive = [moment.astimezone(UTC).replace(tzinfo=None) for moment in moments]
    encoder, Z = fit(pd.DataFrame({"d": naive}))
    frames = [make({"d": moments}) for make in (pd.DataFrame, pa.table)]
    frames += [pl.DataFrame({"d": pl.Series(naive).dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo")})]
    frames += [pd.DataFrame({"d": pd.Series(naive).astype(f"M8[{unit}]")}) for unit in ("s", "ms", "us", "ns")]
    frames += [
        pd.DataFrame({"d": pd.Series(moments, dtype=object)}),
        pd.DataFrame({"d": pd.Series(naive, dtype=object)}),
    ]
    for frame in frames:
        np.testing.assert_array_equal(encoder.encode(frame), Z)


def test_dates_out_of_range_are_missing() -> None:
    frame = pd.DataFrame({"d": pd.Series(np.array(["2020-01-01", "NaT", "12020-01-01", "2020-01-03"], "M8[s]"))})
    encoder, Z = fit(frame)
    assert output(encoder, Z, "d missing") == [0, 1, 1, 0]
    assert output(encoder, Z, "d days") == [18262, 18262, 18262, 18264]


# -- target statistics -------------------------------------------------------------------------------------------------


def plain_statistics(levels: list[str], y: list[float], weight: list[float], folds: list[int]) -> tuple[list, dict]:
    """Out-of-fold means of every row and full means of every level, row by row."""
    mean = sum(w * t for w, t in zip(weight, y, strict=True)) / sum(weight)
    scale = len(y) / sum(weight)
    weight = [w * scale for w in weight]

    def total(level: str, without: int | None) -> tuple[float, float]:
        count = sum_ = 0.0
        for other, t, w, fold in zip(levels, y, weight, folds, strict=True):
            if other == level and fold != without:
                count, sum_ = count + w, sum_ + w * (t - mean)
        return count, sum_

    names = sorted(set(levels))
    n, L = len(y), len(names)
    totals = {name: total(name, None) for name in names}
    explained = sum(s * s / c for c, s in totals.values())
    within = (sum(w * (t - mean) ** 2 for w, t in zip(weight, y, strict=True)) - explained) / (n - L)
    size = (n - sum(c * c for c, _ in totals.values()) / n) / (L - 1)
    between = (explained / (L - 1) - within) / size
    s = max(within / between, 1) if between > 0 else math.inf
    rows = []
    for level, fold in zip(levels, folds, strict=True):
        count, sum_ = total(level, fold)
        rows.append(mean + sum_ / (count + s))
    return rows, {name: mean + total_ / (count + s) for name, (count, total_) in totals.items()}


def long_category(n: int = 300, num_levels: int = 40, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, num_levels, n)
    effect = rng.normal(size=num_levels)
    frame = pd.DataFrame({"city": [f"c{code:02d}" if code else None for code in codes]})
    return frame, effect[codes] + rng.normal(size=n)


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("task", ["numbers", "two outputs", "2 classes", "4 classes"])
def test_statistics_against_loops(task: str, is_weighted: bool) -> None:
    frame, y = long_category()
    levels = [level or "" for level in frame["city"].astype(object).where(frame["city"].notna(), "")]
    weight = np.random.default_rng(1).uniform(0.1, 3, len(y)) if is_weighted else np.ones(len(y))
    classes = np.digitize(y, [0.0] if task == "2 classes" else [-1.0, 0.0, 1.0])
    targets, num_classes, columns = {
        "numbers": (y, None, {"y": y}),
        "two outputs": (np.stack([y, -(y**2)], 1), None, {"y0": y, "y1": -(y**2)}),
        "2 classes": (classes, 2, {"y": classes == 1}),
        "4 classes": (classes, 4, {f"y={c}": classes == c for c in range(4)}),
    }[task]
    encoder, Z = TableEncoder.fit(
        frame, targets, num_classes=num_classes, weight=weight if is_weighted else None, seed=7
    )
    assert encoder.names == (*(f"city mean {label}" for label in columns), "city log count")
    folds = _Targets.of(targets, num_classes, None, 7, num_rows=len(y)).folds.tolist()
    E = encoder.encode(frame)
    for j, values in enumerate(columns.values()):
        rows, means = plain_statistics(levels, [float(value) for value in values], weight.tolist(), folds)
        np.testing.assert_allclose(Z[:, j], rows, rtol=1e-9)
        np.testing.assert_allclose(E[:, j], [means[level] for level in levels], rtol=1e-9)
    counts = np.array([levels.count(level) for level in levels])
    np.testing.assert_allclose(Z[:, -1], np.log(counts))  # of the other rows, plus 1
    np.testing.assert_allclose(E[:, -1], np.log(counts + 1))


def test_an_unknown_level_has_the_overall_mean() -> None:
    frame, y = long_category()
    encoder, _ = TableEncoder.fit(frame, y, num_classes=None)
    np.testing.assert_allclose(encoder.encode(pd.DataFrame({"city": ["elsewhere"]})), [[y.mean(), 0]])


def test_no_row_sees_its_own_target() -> None:
    """A change of one target moves the statistics of other rows only, apart from the overall mean and s."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"id": [f"i{i}" for i in range(500)] + ["i0"], "x": rng.normal(size=501)})
    y = rng.normal(size=501)
    encoder, Z = TableEncoder.fit(frame, y, num_classes=None)
    correlation = np.corrcoef(Z.T, y)[-1, :-1]
    assert np.abs(correlation).max() < 0.2  # 501 rows; with its own target the correlation would be 1
    alone = np.arange(1, 500)
    assert np.ptp(Z[alone], axis=0)[[name.startswith("id") for name in encoder.names]].max(initial=0) == 0


def test_noise_of_many_levels_is_shrunk_and_signal_is_not() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 100, 5000)
    frame = pd.DataFrame({"a": [f"l{code}" for code in codes]})
    effect = rng.normal(size=100)
    spread = {}
    for size in (0.02, 3.0):
        encoder, Z = TableEncoder.fit(frame, size * effect[codes] + rng.normal(size=5000), num_classes=None)
        spread[size] = np.ptp(Z[:, 0]) if "a mean y" in encoder.names else 0.0
    raw = 2 * 2.5 / math.sqrt(50)  # about the range of 100 means of 50 rows of noise
    assert spread[0.02] < raw / 2
    assert spread[3.0] > 9


def test_unique_text_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    frame = pd.DataFrame({"id": [f"i{i}" for i in range(100)], "x": np.arange(100.0)})
    encoder, Z = fit(frame)
    assert encoder.names == ("x",)
    assert "['id']" in caplog.text
    assert encoder.encode(frame).tolist() == Z.tolist()


def test_folds_are_random_even_and_stratified() -> None:
    y = np.array([0] * 985 + [1] * 15)
    parts = [_Targets.of(y, 2, None, seed, num_rows=1000).folds for seed in (0, 0, 1)]
    assert (parts[0] == parts[1]).all()
    assert (parts[0] != parts[2]).any()
    assert np.bincount(parts[0][y == 1]).tolist() == [3] * 5
    assert np.bincount(_Targets.of(y * 1.0, None, None, 0, num_rows=1000).folds).tolist() == [200] * 5


def test_the_most_frequent_of_many_classes() -> None:
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.integers(3, 13, 2000), np.arange(30)])
    frame = pd.DataFrame({"a": [f"l{(c + k) % 30}" for c, k in zip(y, rng.integers(0, 2, len(y)), strict=True)]})
    encoder, _ = TableEncoder.fit(frame, y, num_classes=30)
    assert encoder.names == (*(f"a mean y={c}" for c in range(3, 13)), "a log count")
    assert len(encoder.names) == MAX_CLASS_STATISTICS + 1


def test_weights_are_relative() -> None:
    frame, y = long_category()
    w = np.random.default_rng(0).uniform(size=len(y))
    a, b = (TableEncoder.fit(frame, y, num_classes=None, weight=scale * w)[1] for scale in (1, 1000))
    np.testing.assert_allclose(a, b, rtol=1e-10)


# -- columns without information, and errors ---------------------------------------------------------------------------


@every_library
def test_constant_and_missing_columns_are_dropped(make: Any, caplog: pytest.LogCaptureFixture) -> None:
    frame = make({"one": [1, 1], "none": [None, None], "text": ["a", "a"], "x": [1, 2], "d": [date(2020, 1, 1)] * 2})
    with caplog.at_level(logging.WARNING):
        encoder, Z = fit(frame)
    assert "['one', 'none', 'text', 'd']" in caplog.text
    assert (encoder.names, encoder.sources.tolist(), Z.tolist()) == (("x",), [3], [[1], [2]])
    assert [column.kind for column in encoder.columns] == ["dropped"] * 3 + ["number", "dropped"]
    later = make({"one": ["text"], "none": [3], "text": [None], "x": [5], "d": [None]})
    assert encoder.encode(later).tolist() == [[5]]
    with pytest.raises(ValueError, match=r"\['one'\]"):
        fit(make({"one": [1, 1]}))


@every_library
def test_columns_that_vanish_or_appear(make: Any) -> None:
    encoder, _ = fit(make({"a": [1, 2], "b": [3, 4]}))
    with pytest.raises(ValueError, match=r"\['b'\].*\['c'\]"):
        encoder.encode(make({"a": [1], "c": [2]}))
    with pytest.raises(ValueError, match=r"\['c'\]"):
        encoder.encode(make({"a": [1], "b": [2], "c": [2]}))


KINDS: dict[str, list[Any]] = {
    "number": [1.5, 2.5],
    "boolean": [True, False],
    "category": ["a", "b"],
    "date": [datetime(2020, 1, 1), datetime(2021, 1, 2)],
    "duration": [timedelta(1), timedelta(2)],
}


@every_library
@pytest.mark.parametrize("later", KINDS)
@pytest.mark.parametrize("kind", KINDS)
def test_columns_that_change_their_type(kind: str, later: str, make: Any) -> None:
    encoder, _ = fit(make({"a": KINDS[kind]}))
    assert encoder.columns[0].kind == kind
    allowed = {(k, k) for k in KINDS} | {("number", "boolean"), ("category", "number"), ("category", "boolean")}
    if (kind, later) in allowed:
        assert np.isfinite(encoder.encode(make({"a": KINDS[later]}))).all()
    else:
        with pytest.raises(ValueError, match=rf"column 'a' .*kind {kind}, got .*{type(KINDS[later][0]).__name__}"):
            encoder.encode(make({"a": KINDS[later]}))
    assert np.isfinite(encoder.encode(make({"a": [None, None]}))).all()


def test_text_of_numbers_is_read() -> None:
    encoder, _ = fit(pd.DataFrame({"a": [1.5, None, 2]}))
    assert encoder.encode(pd.DataFrame({"a": ["3.5", "", None, "nan"]})).tolist() == [
        [3.5, 0],
        [1.5, 1],
        [1.5, 1],
        [1.5, 1],
    ]
    with pytest.raises(ValueError, match=r"column 'a' .*kind number, got 'n/a' of type str"):
        encoder.encode(pd.DataFrame({"a": ["3.5", "n/a", "other"]}))
    encoder, _ = fit(pd.DataFrame({"a": [True, False]}))
    assert encoder.encode(pd.DataFrame({"a": [1, 0.0]})).tolist() == [[1], [0]]
    with pytest.raises(ValueError, match=r"column 'a' .*kind boolean, got 2\.0"):
        encoder.encode(pd.DataFrame({"a": [1, 2.0]}))


@every_library
def test_infinite_values_name_their_column_and_row(make: Any) -> None:
    with pytest.raises(ValueError, match=r"column 'b' .*-inf in row 1"):
        fit(make({"a": [1, 2], "b": [0.0, -math.inf]}))
    encoder, _ = fit(make({"b": [0.0, 1.0]}))
    with pytest.raises(ValueError, match=r"column 'b' .*inf in row 0"):
        encoder.encode(make({"b": [math.inf]}))
    with pytest.raises(ValueError, match=r"column 'b' .*inf in row 0"):
        encoder.encode(make({"b": ["inf"]}))


@pytest.mark.parametrize("bad", [[[1], [2]], [{"a": 1}, {"a": 2}], [b"a", b"b"], [time(1), time(2)]], ids=str)
@every_library
def test_values_that_have_no_treatment(make: Any, bad: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"column 'b' must hold"):
        fit(make({"a": [1, 2], "b": bad}))


@pytest.mark.parametrize("bad", [(1, 2), 1j, object(), pd.Period("2020"), {1, 2}, 10**400], ids=lambda x: str(type(x)))
def test_objects_that_have_no_treatment(bad: object) -> None:
    with pytest.raises(ValueError, match=r"column 'b' must hold"):
        fit(pd.DataFrame({"b": pd.Series([bad, None, "a"], dtype=object)}))


def test_names_that_repeat() -> None:
    frames = [
        pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"]),
        pd.DataFrame([[1, 2]], columns=[1, "1"]),
        pa.table([[1], [2]], names=["a", "a"]),
    ]
    for frame, name in zip(frames, ["a", "1", "a"], strict=True):
        with pytest.raises(ValueError, match=rf"different names, got \['{name}'\]"):
            fit(frame)


def test_names_that_are_numbers() -> None:
    encoder, Z = fit(pd.DataFrame(np.eye(2)))
    assert encoder.names == ("0", "1")
    assert encoder.encode(pd.DataFrame(np.eye(2))).tolist() == Z.tolist()


@every_library
def test_no_rows(make: Any) -> None:
    encoder, _ = fit(make({"a": [1.0, 2.0]}))
    for call in (fit, encoder.encode):
        with pytest.raises(ValueError, match="at least one row"):
            call(make({"a": []}))


def test_bad_targets() -> None:
    frame = pd.DataFrame({"a": [1, 2, 3]})
    for y, num_classes, weight in [
        ([0, 1], 2, None),
        ([0, 1, 2], 2, None),
        ([0.0, 1.0, 1.0], 2, None),
        ([0.0, math.nan, 1.0], None, None),
        ([0, 1, 1], 2, [1, 1]),
        ([0, 1, 1], 2, [1, 1, -1]),
        ([0, 1, 1], 2, [0, 0, 0]),
    ]:
        with pytest.raises(ValueError, match=r"targets|weight"):
            TableEncoder.fit(frame, y, num_classes=num_classes, weight=weight)


def test_ten_thousand_levels() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 10_000, 100_000)
    frame = pl.DataFrame({"a": codes.astype(str)})
    encoder, Z = TableEncoder.fit(frame, rng.normal(size=100_000) + codes / 1000, num_classes=None)
    assert encoder.names == ("a mean y", "a log count")
    assert np.corrcoef(Z[:, 0], codes)[0, 1] > 0.9


# -- storage -----------------------------------------------------------------------------------------------------------


def mixed(n: int = 300, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame, _ = long_category(n, seed=seed)
    return frame.assign(
        age=np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
        job=pd.Series(rng.choice(["a", "b", None], n), dtype=object),
        day=pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 10**8, n), unit="s"),
        flag=rng.random(n) < 0.5,
        same=0,
    )


def test_an_encoder_is_stored(tmp_path: Path) -> None:
    encoder, _ = fit(mixed())
    bochner.save(encoder, tmp_path / "encoder.safetensors")
    loaded = bochner.load(tmp_path / "encoder.safetensors")
    new = mixed(seed=1)
    np.testing.assert_array_equal(loaded.encode(new), encoder.encode(new))
    assert loaded.names == encoder.names
    assert repr(loaded) == f"TableEncoder(6 columns, {len(encoder.names)} outputs)"


@pytest.mark.parametrize(
    ("cls", "change"),
    [
        (NumberColumn, {"fill": math.nan}),
        (NumberColumn, {"fill": "0"}),
        (NumberColumn, {"fill": True}),
        (NumberColumn, {"name": 3}),
        (NumberColumn, {"kind": "date"}),
        (NumberColumn, {"has_value": 1}),
        (NumberColumn, {"has_value": False, "has_indicator": False}),
        (NumberColumn, {"means": 1}),
        (ValueMeans, {"values": np.array([1, 0], np.float32)}),
        (ValueMeans, {"values": np.array([0, np.inf], np.float32)}),
        (ValueMeans, {"values": np.array([0.0, 1.0])}),
        (ValueMeans, {"values": (0.0, 1.0)}),
        (ValueMeans, {"table": np.zeros((2, 1))}),
        (ValueMeans, {"table": np.full((3, 1), np.nan)}),
        (ValueMeans, {"outputs": "a"}),
        (DateColumn, {"fill": math.inf}),
        (DateColumn, {"fill": 1e18}),
        (DateColumn, {"parts": ("year", "days")}),
        (DateColumn, {"parts": ("minute",)}),
        (DateColumn, {"parts": "days"}),
        (DateColumn, {"parts": (), "has_indicator": False}),
        (CategoryColumn, {"levels": ("a", "a")}),
        (CategoryColumn, {"levels": ("a", 3)}),
        (CategoryColumn, {"levels": "ab"}),
        (CategoryColumn, {"levels": ("a",)}),
        (CategoryColumn, {"table": np.full((3, 2), np.nan)}),
        (CategoryColumn, {"table": np.full((3, 2), 0.5)}),
        (CategoryColumn, {"table": np.zeros((3, 2), np.float32)}),
        (CategoryColumn, {"table": [[0.0, 0.0]] * 3}),
        (CategoryColumn, {"outputs": ("a",)}),
        (CategoryColumn, {"outputs": ()}),
        (CategoryColumn, {"is_binary": (True,)}),
        (CategoryColumn, {"is_binary": (1, 0)}),
        (DroppedColumn, {"name": None}),
        (TableEncoder, {"columns": ()}),
        (TableEncoder, {"columns": (1,)}),
        (TableEncoder, {"columns": (DroppedColumn("a"),)}),
        (TableEncoder, {"columns": (NumberColumn("a", "number", 0.0, True, False),) * 2}),
    ],
)
def test_hostile_states(cls: type, change: dict[str, Any]) -> None:
    good: dict[type, dict[str, Any]] = {
        NumberColumn: {"name": "a", "kind": "number", "fill": 0.0, "has_value": True, "has_indicator": True},
        ValueMeans: {"values": np.array([0, 1], np.float32), "table": np.zeros((3, 1)), "outputs": ("a",)},
        DateColumn: {"name": "a", "fill": 0.0, "parts": ("days", "year"), "has_indicator": True},
        CategoryColumn: {
            "name": "a",
            "levels": ("a", "b"),
            "table": np.eye(3, 2),
            "outputs": ("a=a", "a=b"),
            "is_binary": (True, True),
        },
        DroppedColumn: {"name": "a"},
        TableEncoder: {"columns": (NumberColumn("a", "number", 0.0, True, False),)},
    }
    tensors: dict[str, torch.Tensor] = {}
    assert type(unpack(pack(cls(**good[cls]), "", tensors), tensors)) is cls
    with pytest.raises((TypeError, ValueError)):
        cls(**{**good[cls], **change})


# -- numbers whose single values matter --------------------------------------------------------------------------------


def amounts(n: int = 3000, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Mostly 0, otherwise one of 80 amounts, each with its own class; and a number with a monotone effect."""
    rng = np.random.default_rng(seed)
    amount = np.where(rng.random(n) < 0.7, 0, 100 + rng.integers(80, size=n)) / 10
    is_decided, size = amount > 0, rng.integers(200, size=n)
    y = np.where(is_decided, (amount * 10).astype(int) * 7919 % 13 < 6, rng.random(n) < size / 200)
    missing = rng.random(n) < 0.05
    return pd.DataFrame({"amount": np.where(missing, np.nan, amount), "size": size}), y.astype(int)


def test_values_that_matter_have_means() -> None:
    frame, y = amounts()
    encoder, Z = fit(frame, y)
    assert encoder.names == ("amount", "amount missing", "amount value mean y", "size")
    assert encoder.is_binary.tolist() == [False, True, False, False]
    means = np.array(output(encoder, Z, "amount value mean y"))
    decided = frame["amount"].to_numpy() > 0
    assert ((means > 0.5) == y)[decided].mean() > 0.95
    new = pd.DataFrame({"amount": [10.1, 10.15, np.nan], "size": [1, 1, 1]})
    known, unknown, missing = output(encoder, encoder.encode(new), "amount value mean y")
    rows = frame["amount"] == 10.1
    assert abs(known - y[rows].mean()) < 0.1
    assert unknown == pytest.approx(y.mean())
    assert missing == output(encoder, encoder.encode(new.assign(amount=0.0)), "amount value mean y")[0]  # the median


def test_means_of_values_do_not_see_the_target_of_their_row() -> None:
    """Random targets: no value predicts them, and no column is added; otherwise the fit would look too good."""
    frame, _ = amounts()
    y = np.random.default_rng(1).integers(0, 2, len(frame))
    assert fit(frame, y)[0].names == ("amount", "amount missing", "size")
    frame, y = amounts()
    row = int(np.flatnonzero(frame["amount"] > 0)[0])
    encoder, Z = fit(frame, y.astype(float), num_classes=None)
    other = y.astype(float)
    other[row] += 1
    changed = fit(frame, other, num_classes=None)[1]
    column = encoder.names.index("amount value mean y")
    np.testing.assert_allclose(changed[row, column], Z[row, column], atol=0.01)  # the overall mean alone has moved
    same_value = np.flatnonzero(frame["amount"] == frame["amount"][row])
    assert np.abs(changed[same_value, column] - Z[same_value, column]).max() > 0.03


def test_means_of_values_are_stored(tmp_path: Path) -> None:
    frame, y = amounts()
    encoder, _ = fit(frame, y)
    bochner.save(encoder, tmp_path / "encoder.safetensors")
    np.testing.assert_array_equal(bochner.load(tmp_path / "encoder.safetensors").encode(frame), encoder.encode(frame))


def test_capital_gains_of_adult() -> None:
    path = TABLES / "adult.parquet"
    if not path.exists():
        pytest.skip("adult.parquet is not beside the repository (shared/data)")
    frame = pd.read_parquet(path)[:12_000]
    encoder, _ = fit(frame.drop(columns="income"), (frame["income"] == ">50K").astype(int))
    added = [column.name for column in encoder.columns if getattr(column, "means", None) is not None]
    assert added == ["capital-gain", "capital-loss"]


# -- properties --------------------------------------------------------------------------------------------------------

cells = {
    "x": st.none() | st.floats(allow_infinity=False),
    "i": st.integers(-(2**63), 2**63 - 1),
    "b": st.none() | st.booleans(),
    "t": st.none() | st.text(max_size=3),
    "d": st.none() | st.datetimes(),
    "e": st.timedeltas(),
}
TYPES = {
    "x": pl.Float64,
    "i": pl.Int64,
    "b": pl.Boolean,
    "t": pl.String,
    "d": pl.Datetime("us"),
    "e": pl.Duration("us"),
}


@settings(max_examples=60)
@given(st.lists(st.fixed_dictionaries(cells), min_size=2, max_size=40), st.integers(0, 9))
def test_any_table_is_finite_and_row_by_row(rows: list[dict[str, Any]], seed: int) -> None:
    frame = pl.DataFrame(rows, schema=TYPES).with_columns(z=np.arange(len(rows)))
    y = np.arange(len(rows)) % 3 % 2
    encoder, Z = fit(frame, y, seed=seed)
    E = encoder.encode(frame)
    assert np.isfinite(Z).all()
    assert np.isfinite(E).all()
    np.testing.assert_array_equal(Z, fit(frame.to_arrow(), y, seed=seed)[1])
    i = seed % len(rows)
    np.testing.assert_array_equal(encoder.encode(frame[i : i + 1])[0], E[i])
    np.testing.assert_array_equal(encoder.encode(frame.reverse()), E[::-1])
    assert np.isin(E[:, encoder.is_binary], (0, 1)).all()


# -- real tables -------------------------------------------------------------------------------------------------------


def real_tables() -> list[dict[str, str]]:
    if not (TABLES / "index.csv").exists():
        return []
    with (TABLES / "index.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.skipif(not real_tables(), reason=f"{TABLES} is not here")
@pytest.mark.parametrize("about", real_tables(), ids=[about["name"] for about in real_tables()])
def test_real_tables(about: dict[str, str], tmp_path: Path) -> None:
    table = pa.parquet.read_table(TABLES / about["file"])
    table = table.take(np.random.default_rng(0).permutation(len(table))[:2000])
    is_multilabel = about["task"] == "multilabel"
    names = [name for name in table.column_names if name.startswith("target_")] if is_multilabel else [about["target"]]
    X, targets = table.drop_columns(names), table.select(names).to_pandas().to_numpy().squeeze()
    num_classes = None
    if about["task"] in ("binary", "multiclass"):
        labels, targets = np.unique(targets, return_inverse=True)
        num_classes = len(labels)
    encoder, Z = TableEncoder.fit(X, targets, num_classes=num_classes, seed=3)
    E = encoder.encode(X)
    assert Z.shape == E.shape == (len(X), len(encoder.names))
    assert len(encoder.sources) == len(encoder.is_binary) == len(encoder.names)
    assert np.isfinite(Z).all()
    assert np.isfinite(E).all()
    assert (np.ptp(Z, axis=0) > 0).all()
    for frame in (X.to_pandas(), pl.from_arrow(X), X):
        other, again = TableEncoder.fit(frame, targets, num_classes=num_classes, seed=3)
        assert other.names == encoder.names
        np.testing.assert_array_equal(again, Z)
        np.testing.assert_array_equal(other.encode(frame), E)
    np.testing.assert_array_equal(encoder.encode(X.slice(17, 1)), E[17:18])
    bochner.save(encoder, tmp_path / "encoder.safetensors")
    np.testing.assert_array_equal(bochner.load(tmp_path / "encoder.safetensors").encode(X), E)
    kinds = [column.kind for column in encoder.columns]
    exact = [
        j
        for j, name in enumerate(encoder.names)
        if kinds[encoder.sources[j]] != "category" and " value mean " not in name  # means of other folds
    ]
    np.testing.assert_array_equal(Z[:, exact], E[:, exact])


def test_medians_of_a_real_column() -> None:
    values = [3.0, None, 1.0, 8.0, None, 5.0, 9.0]
    encoder, Z = fit(pd.DataFrame({"a": values}))
    assert output(encoder, Z, "a")[1] == statistics.median_low([value for value in values if value is not None])
