"""Encoders of tables in ONNX: one graph input per column, one matrix of numbers out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from bochner.data.encoder import (
    DAYS_PER_YEAR,
    CategoryColumn,
    DateColumn,
    DroppedColumn,
    NumberColumn,
    TableEncoder,
)
from bochner.data.frames import FIRST_SECOND, LAST_SECOND
from bochner.models.onnx.graph import Graph, Value, element_name, onnx

ML_DOMAIN, ML_OPSET = "ai.onnx.ml", 2  # of LabelEncoder, ONNX 1.5; a file with a table imports it besides ONNX's own
_OUTPUTS = {"X", "label", "probabilities", "scores"}  # the names of `export_onnx`
_FIRST_DAY = -719162  # 1 January of the year 1, a Monday, in days since 1970


class TableInputs(NamedTuple):
    """`infos` are the graph's inputs, one [N, 1] per column, and X [N, width] is `encoder.encode` of them."""

    infos: list[Any]
    X: Value


def encode_table(encoder: TableEncoder, graph: Graph, *, dtype: torch.dtype | None = None) -> TableInputs:
    """Add the nodes of an encoder to `graph`; X is in the graph's dtype.

    Inputs are named as the columns (see `input_name`), of shape [N, 1], in the order of `encoder.columns` without those
    that are dropped. Numbers, booleans (0 and 1) and durations (seconds) have type `dtype`, by default the graph's;
    dates are float64 seconds since 1970 in UTC, since float32 resolves minutes only; text is a string. NaN and the
    empty string are missing values. The file must import `ML_DOMAIN` in version `ML_OPSET`.

    >>> import pandas
    >>> encoder, _ = TableEncoder.fit(pandas.DataFrame({"age": [31, 52], "job": ["a", "b"]}), [0, 1], num_classes=2)
    >>> [info.name for info in encode_table(encoder, Graph(torch.float32)).infos]
    ['age', 'job']
    """
    infos: list[Any] = []
    parts: list[Value] = []
    for column in encoder.columns:
        if isinstance(column, DroppedColumn):
            continue
        rows = Value(graph, input_name(column.name))
        match column:
            case NumberColumn():
                kind = element_name(dtype or graph.dtype)
                parts += _number(column, rows if dtype in (None, graph.dtype) else rows.to(graph.dtype))
            case DateColumn():
                kind = "DOUBLE"
                exact = replace(graph, dtype=torch.float64)  # the same nodes, with constants in float64
                dates = [part.to(graph.dtype) for part in _date(column, Value(exact, rows.name))]
                parts += [Value(graph, part.name) for part in dates]
            case CategoryColumn():
                kind = "STRING"
                parts.append(_category(column, rows))
        infos.append(rows.info(["N", 1], kind=kind))
    return TableInputs(infos, graph.add("Concat", *parts, axis=1))


def input_name(column: str) -> str:
    """The graph input of a column: its own name, with "column " before it where the graph needs that name.

    >>> input_name("age"), input_name("age_1"), input_name("scores"), input_name("Gather_3")
    ('age', 'age_1', 'column scores', 'column Gather_3')
    """
    kind, _, number = column.rpartition("_")
    is_node = number.isdigit() and (onnx("defs").has(kind) or onnx("defs").has(kind, ML_DOMAIN))  # names of `Graph`
    return f"column {column}" if not column or column in _OUTPUTS or is_node else column


def _number(column: NumberColumn, rows: Value) -> Iterator[Value]:
    is_missing = rows.apply("IsNaN")
    filled = is_missing.apply("Where", column.fill, rows)
    if column.has_value:
        yield filled
    if column.has_indicator:
        yield is_missing.to(rows.graph.dtype)
    if column.means is not None:
        codes = filled.to(torch.float32).apply(
            "LabelEncoder",
            domain=ML_DOMAIN,
            keys_floats=column.means.values.tolist(),
            values_int64s=list(range(len(column.means.values))),
            default_int64=len(column.means.values),
        )
        table = rows.graph.constant(torch.from_numpy(column.means.table))
        yield table.apply("Gather", codes.apply("Squeeze", torch.tensor([1])), axis=0)


def _category(column: CategoryColumn, rows: Value) -> Value:
    codes = rows.apply(
        "LabelEncoder",
        domain=ML_DOMAIN,
        keys_strings=list(column.levels),
        values_int64s=list(range(len(column.levels))),
        default_int64=len(column.levels),
    )
    table = rows.graph.constant(torch.from_numpy(column.table))
    return table.apply("Gather", codes.apply("Squeeze", torch.tensor([1])), axis=0)


def _date(column: DateColumn, rows: Value) -> Iterator[Value]:
    """The parts of a date in float64; NaN and seconds outside the years 1 to 9999 are missing."""
    after = rows.apply("Greater", float(np.nextafter(FIRST_SECOND, -np.inf)))
    is_valid = after.apply("And", rows.apply("Less", LAST_SECOND))
    seconds = is_valid.apply("Where", rows, column.fill)
    days = (seconds / 86400.0).apply("Floor")
    from_first = days.to(torch.int64) - torch.tensor(_FIRST_DAY)
    year, day = _calendar(from_first)
    for part in column.parts:
        match part:
            case "days":
                yield seconds / 86400.0
            case "year":
                yield year.to(torch.float64)
            case "day of year":
                yield from _phases(day.to(torch.float64) / DAYS_PER_YEAR)
            case "day of week":
                yield from _phases(_remainder(from_first, 7).to(torch.float64) / 7.0)
            case "time of day":
                yield from _phases((seconds - days * 86400.0) / 86400.0)
    if column.has_indicator:
        yield is_valid.apply("Not").to(torch.float64)


def _calendar(n: Value) -> tuple[Value, Value]:
    """Year and day of the year from 0, n days after 1 January of the year 1, as `datetime.fromordinal` computes it."""
    n400, n = n / torch.tensor(146097), _remainder(n, 146097)
    n100 = (n / torch.tensor(36524)).apply("Min", torch.tensor(3))  # 31 December of a leap year is in the last part
    n = n - n100 * torch.tensor(36524)
    n4, n = n / torch.tensor(1461), _remainder(n, 1461)
    n1 = (n / torch.tensor(365)).apply("Min", torch.tensor(3))
    year = n400 * torch.tensor(400) + n100 * torch.tensor(100) + n4 * torch.tensor(4) + n1 + torch.tensor(1)
    return year, n - n1 * torch.tensor(365)


def _remainder(value: Value, divisor: int) -> Value:
    return value - value / torch.tensor(divisor) * torch.tensor(divisor)


def _phases(turns: Value) -> list[Value]:
    angles = turns * (2 * math.pi)
    return [angles.apply("Sin"), angles.apply("Cos")]
