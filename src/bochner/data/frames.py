"""Columns of pandas, polars and Arrow frames as plain arrays, the same for all libraries."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from numbers import Integral, Real
from typing import Any, NamedTuple, NoReturn

import narwhals as nw
import numpy as np
from narwhals.dependencies import is_pandas_dataframe, is_polars_dataframe, is_pyarrow_table

Array = np.ndarray[Any, Any]
logger = logging.getLogger(__name__)

KINDS = ("number", "boolean", "duration", "date", "category")
MISSING = ""  # the level of missing text: CSV files and ONNX strings cannot tell it from the empty string

_TEXT_DATE = re.compile(
    r"(?P<first>\d{1,4})(?P<mark>[-/.])(?P<second>\d{1,2})(?P=mark)(?P<third>\d{1,4})"
    r"(?:[ T](?P<clock>\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?) ?(?P<zone>Z|[-+]\d{2}:?\d{2})?)?"
)
_EPOCH = datetime(1970, 1, 1)
FIRST_SECOND = (datetime(1, 1, 1) - _EPOCH).total_seconds()
LAST_SECOND = (datetime(9999, 12, 31) - _EPOCH).total_seconds() + 86400
_SECONDS = {"D": 86400, "h": 3600, "m": 60, "s": 1}
_TICKS_PER_SECOND = {"ms": 10**3, "us": 10**6}
_KIND_OF_DTYPE = {"b": "boolean", "i": "number", "u": "number", "f": "number", "M": "date", "m": "duration"}


class FrameColumn(NamedTuple):
    """The rows of one column.

    `values` are floats with NaN where a value is missing: numbers, 0 and 1, seconds of a duration, or seconds since
    1970 in UTC. For a category they are int64 indices into `levels`, of which `MISSING` is one if a row needs it.
    `order` names all levels of an ordered categorical, smallest first; `date_order` is that of dates written as text.
    """

    name: str
    kind: str
    values: Array
    levels: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    date_order: str = "ymd"


def is_frame(X: object) -> bool:
    """Whether X is a pandas or polars DataFrame or a pyarrow Table; none of these libraries is imported.

    >>> import pandas
    >>> is_frame(pandas.DataFrame({"a": [1]})), is_frame([[1.0]])
    (True, False)
    """
    return is_pandas_dataframe(X) or is_polars_dataframe(X) or is_pyarrow_table(X)


def frame_columns(frame: Any) -> dict[str, Any]:
    """The columns of a frame by name, as narwhals series; names become text."""
    if not is_frame(frame):
        raise TypeError(f"frame must be a pandas or polars DataFrame or a pyarrow Table, got {type(frame).__name__}.")
    names = [str(name) for name in (frame.column_names if is_pyarrow_table(frame) else frame.columns)]
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise ValueError(f"the columns of a frame must have different names, got {repeated} more than once.")
    table = nw.from_native(frame, eager_only=True)
    if not len(table) or not names:
        raise ValueError(f"frame must have at least one row and one column, got {len(table)} rows of {len(names)}.")
    return dict(zip(names, table.iter_columns(), strict=True))


def read_column(name: str, series: Any, *, expected: str | None = None, date_order: str | None = None) -> FrameColumn:
    """The rows of `series`, as the kind that its type suggests, or as the `expected` kind.

    A column that changed its type is read as the expected kind where every value allows it (text of a number, a number
    as the name of a level); else the error names the column, the kind and the first value that does not. Object columns
    are numbers, booleans, dates or durations if all of their values are. Text is a date if all of it is, such as
    2020-12-31 14:00, 2020/12/31, 31.12.2020 or 12/31/2020, in the one order that all rows allow, or in `date_order`. A
    date outside the years 1 to 9999 is missing, like NaT. One pass over the rows in compiled code; only distinct values
    are handled one by one.
    """
    if series.dtype.is_nested():
        _refuse_nested(name, str(series.dtype))
    is_category = isinstance(series.dtype, nw.Categorical | nw.Enum)
    if is_category:
        raw, is_null, order = _decoded(series)
    else:
        if isinstance(series.dtype, nw.Int128 | nw.UInt128):  # which NumPy lacks
            series = series.cast(nw.Float64)
        raw, order = series.to_numpy(), ()
        kind = _KIND_OF_DTYPE.get(raw.dtype.kind)
        if kind is not None and expected in (None, kind):
            return FrameColumn(name, kind, _checked(name, kind, _floats(raw)))
        is_null = series.is_null().to_numpy()
    distinct, codes = _factorize(name, raw, is_null)
    text_order = date_order or (None if is_category or expected else _date_order(name, distinct))
    kind = expected or ("category" if is_category else "date" if text_order else _kind_of(name, distinct))
    convert = _level if is_category and kind == "category" else _CONVERT[kind]
    if kind == "date":
        convert = partial(_date, order=text_order or "ymd")
    try:
        converted = [_missing(kind) if value is None else convert(value) for value in distinct]
    except (TypeError, ValueError, OverflowError):
        _refuse(name, kind, distinct, convert)
    if kind != "category":
        return FrameColumn(
            name,
            kind,
            _checked(name, kind, np.array(converted, dtype=np.float64)[codes]),
            date_order=text_order or "ymd",
        )
    levels = tuple(sorted(set(converted)))  # distinct values may have the same name: 1 and "1"
    position = {level: i for i, level in enumerate(levels)}
    return FrameColumn(name, kind, np.array([position[level] for level in converted])[codes], levels, order)


def _decoded(series: Any) -> tuple[Array, Array, tuple[str, ...]]:
    """Values and nulls of a categorical column, and the names of its levels if they are ordered."""
    native = series.to_native()
    order: tuple[str, ...] = ()
    if hasattr(native, "cat") and hasattr(native.cat, "categories"):  # pandas, whose to_numpy makes floats of numbers
        levels = tuple(map(_level, native.cat.categories.tolist()))
        codes = native.cat.codes.to_numpy()  # -1 where missing
        return np.array([*levels, None], dtype=object)[codes], codes < 0, levels if native.cat.ordered else ()
    if hasattr(getattr(native, "type", None), "value_type"):  # Arrow, whose to_numpy looks up nulls as well
        if native.type.ordered and native.num_chunks:
            order = tuple(map(_level, native.unify_dictionaries().chunk(0).dictionary.to_pylist()))
        series = nw.from_native(native.cast(native.type.value_type), series_only=True)
    return series.to_numpy(), series.is_null().to_numpy(), order


def _floats(raw: Array) -> Array:
    if raw.dtype.kind not in "mM":
        return raw.astype(np.float64)
    unit, count = np.datetime_data(raw.dtype)
    if unit == "ns":  # beyond the 53 bits of a float; the same instants in microseconds must give the same numbers
        raw, unit, count = raw.astype(f"{raw.dtype.kind}8[us]"), "us", 1
    ticks = np.where(np.isnat(raw), np.nan, raw.astype(np.int64).astype(np.float64))
    # both are integers, so that whole seconds are exact
    return ticks * (count * _SECONDS[unit]) if unit in _SECONDS else ticks * count / _TICKS_PER_SECOND[unit]


def _checked(name: str, kind: str, values: Array) -> Array:
    if kind == "date":
        with np.errstate(invalid="ignore"):
            return np.where((values >= FIRST_SECOND) & (values < LAST_SECOND), values, np.nan)
    infinite = np.isinf(values)
    if infinite.any():
        row = int(infinite.argmax())
        raise ValueError(
            f"column {name!r} must be finite, got {values[row]} in row {row}; use a missing value (NaN) instead."
        )
    return values


def _factorize(name: str, raw: Array, is_null: Array) -> tuple[list[Any], Array]:
    """Distinct values in order of appearance, None where missing, and the index of each row's value."""
    if raw.dtype.kind in "mM":
        raw = raw.astype(f"{raw.dtype.kind}8[us]")  # of which NumPy makes datetime and timedelta
    values = raw.astype(object)
    values[is_null.astype(bool)] = None
    rows = values.tolist()
    try:
        index = {value: i for i, value in enumerate(dict.fromkeys(rows))}
        codes = np.fromiter(map(index.__getitem__, rows), dtype=np.int64, count=len(rows))
    except TypeError:
        _refuse_nested(name, ", ".join(sorted({type(row).__name__ for row in rows if row is not None})))
    return [None if value is None or value != value or value == MISSING else value for value in index], codes


def _kind_of(name: str, distinct: Iterable[Any]) -> str:
    """The kind of which all values are."""
    present = [value for value in distinct if value is not None]
    for kind, types in _TYPES.items():
        if all(isinstance(value, types) for value in present):
            return kind
    for value in present:
        try:
            _text(value)
        except (TypeError, OverflowError) as error:
            raise ValueError(
                f"column {name!r} must hold numbers, booleans, text, dates or durations, got {value!r} of type "
                f"{type(value).__name__}; convert or drop it."
            ) from error
    return "category"


def _number(value: Any) -> float:
    if not isinstance(value, Real | Decimal | np.bool_ | str):
        raise TypeError
    return float(value)


def _boolean(value: Any) -> float:
    if isinstance(value, str) or value not in (0, 1):
        raise ValueError
    return float(value)


def _duration(value: Any) -> float:
    if not isinstance(value, timedelta):
        raise TypeError
    return value.total_seconds()


def _date(value: Any, order: str = "ymd") -> float:
    if isinstance(value, str):
        value = _parsed_date(value, order)
    if not isinstance(value, date):
        raise TypeError
    if not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return (value - _EPOCH).total_seconds()


def _parsed_date(text: str, order: str) -> datetime:
    """Text as a date; a year that comes first is followed by the month, else `order` says what the numbers are."""
    match = _TEXT_DATE.fullmatch(text.strip())
    if match is None:
        raise ValueError
    if len(match["first"]) == 4:
        order = "ymd"
    parts = dict(zip(order, (match["first"], match["second"], match["third"]), strict=True))
    if len(parts["y"]) != 4:
        raise ValueError
    clock = (match["clock"] or "0:00").split(":")
    day = datetime(int(parts["y"]), int(parts["m"]), int(parts["d"]), int(clock[0]), int(clock[1]))
    seconds = float(clock[2]) if len(clock) > 2 else 0.0
    zone = match["zone"]
    offset = timedelta() if zone in (None, "Z") else _offset(zone)
    return day + timedelta(seconds=seconds) - offset


def _offset(zone: str) -> timedelta:
    digits = zone[1:].replace(":", "")
    return (-1 if zone[0] == "-" else 1) * timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))


def _date_order(name: str, distinct: Iterable[Any]) -> str | None:
    """The order of day, month and year if all values are text of dates, else None."""
    present = [value for value in distinct if value is not None]
    if not present or not all(isinstance(value, str) and _TEXT_DATE.fullmatch(value.strip()) for value in present):
        return None
    orders = []
    for order in ("ymd", "dmy", "mdy"):
        try:
            _ = [_parsed_date(value, order) for value in present]
        except ValueError:
            continue
        orders.append(order)
    if len(orders) < 2 or "ymd" in orders:
        return orders[0] if orders else None
    # the point is written where the day comes first; with a slash both are common, and pandas reads the month first
    order = "mdy" if "/" in present[0] else "dmy"
    first = "the day" if order == "dmy" else "the month"
    logger.warning("Column %r holds dates such as %r, in which %s is assumed to come first.", name, present[0], first)
    return order


def _text(value: Any) -> str:
    """The name of a level; a whole number has the same name as an integer, a float and text."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if not isinstance(value, Real | Decimal):
        raise TypeError
    number = float(value)
    return str(value) if not number.is_integer() else str(value if isinstance(value, Integral) else int(number))


def _level(value: Any) -> str:
    """The name of a level of a declared categorical, which may be of any type, as the intervals of `pandas.cut`."""
    return _text(value) if isinstance(value, str | bool | np.bool_ | Real | Decimal) else str(value)


# Tried in this order: True is also a number. A column without any value is of the first kind.
_TYPES: dict[str, tuple[type, ...]] = {
    "boolean": (bool, np.bool_),
    "number": (Real, Decimal),
    "date": (date,),
    "duration": (timedelta,),
}
_CONVERT: dict[str, Callable[[Any], Any]] = {
    "number": _number,
    "boolean": _boolean,
    "duration": _duration,
    "date": _date,
    "category": _text,
}


def _missing(kind: str) -> Any:
    return MISSING if kind == "category" else np.nan


def _refuse_nested(name: str, kind: str) -> NoReturn:
    raise ValueError(f"column {name!r} must hold single values, got {kind}; split it into several columns, or drop it.")


def _refuse(name: str, kind: str, distinct: Iterable[Any], convert: Callable[[Any], Any]) -> NoReturn:
    for value in distinct:
        try:
            _ = value is None or convert(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(
                f"column {name!r} must hold values of kind {kind}, got {value!r} of type {type(value).__name__}; "
                "convert the column."
            ) from error
    raise AssertionError("every value converts")
