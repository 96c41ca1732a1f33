"""Frames with text, dates and missing values as matrices of numbers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import torch

from bochner import checks
from bochner.data.blocks import seeded
from bochner.data.frames import FIRST_SECOND, LAST_SECOND, MISSING, Array, FrameColumn, frame_columns, read_column
from bochner.storage import Storable, register

logger = logging.getLogger(__name__)

# One-hot columns put all levels at the same distance and cost one input each. Up to this number they stay about as
# many as the other inputs of a usual table; beyond, a level has too few rows to be learned by itself.
MAX_ONE_HOT = 20
# A level's share of a rare class is estimated from few rows: with more classes, only the most frequent have statistics.
MAX_CLASS_STATISTICS = 10
# Statistics of training rows use 4/5 of the rows, close to all of them at prediction time.
NUM_FOLDS = 5
# The prior counts as at least one row, so that the mean of a level with a single row is always shrunk.
MIN_PRIOR_ROWS = 1.0
# Numbers whose single values are more informative than their size: means by value must predict rows of other folds
# better than means over neighbouring values do, for each of these numbers of bins, by this many standard errors. Smooth
# columns of real tables stay below 1.5 of them; the capital gains and losses of adult have 5 on 6,000 rows.
NUM_BINS = (16, 64, 256)
MIN_STANDARD_ERRORS = 4.0
MIN_ROWS_PER_VALUE = 5
# Relative to the largest value of a column: sums that differ only in the order of their terms.
ROUNDING = 1e-12

_TURN = 2 * np.pi
_DAY = 86400.0
# The length of the mean year; a day of the year falls on the same phase in every year, to within a day.
DAYS_PER_YEAR = 365.25


@register
@dataclass(frozen=True, eq=False)
class ValueMeans:
    """Mean targets by value: a row of `table` [values + 1, outputs] for each of the sorted `values`, float32.

    The last row is for other values.
    """

    values: Array
    table: Array
    outputs: tuple[str, ...]

    def __post_init__(self) -> None:
        is_array = isinstance(self.values, np.ndarray) and isinstance(self.table, np.ndarray)
        if not is_array or self.values.dtype != np.float32 or self.values.ndim != 1 or not len(self.values):
            raise ValueError(f"values must be float32 [n], got {self.values!r}.")
        if not (np.isfinite(self.values).all() and (np.diff(self.values) > 0).all()):
            raise ValueError("values must be finite and increase.")
        if not isinstance(self.outputs, tuple) or not all(isinstance(output, str) for output in self.outputs):
            raise ValueError(f"outputs must be a tuple of str, got {self.outputs!r}.")
        shape = (len(self.values) + 1, len(self.outputs))
        if self.table.dtype != np.float64 or self.table.shape != shape or not np.isfinite(self.table).all():
            raise ValueError(f"table must hold {shape} finite floats.")

    def encode(self, values: Array) -> Array:
        rounded = _rounded(values)
        places = np.searchsorted(self.values, rounded).clip(max=len(self.values) - 1)
        return self.table[np.where(self.values[places] == rounded, places, len(self.values))]


@register
@dataclass(frozen=True, eq=False)
class NumberColumn:
    """A number, boolean (0 or 1) or duration in seconds; `fill` replaces missing values.

    A number whose single values matter, such as amounts suggested by a form, also has their mean targets.
    """

    name: str
    kind: str
    fill: float
    has_value: bool
    has_indicator: bool
    means: ValueMeans | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)
        checks.one_of("kind", self.kind, ["number", "boolean", "duration"])
        _check_fill(self.name, self.fill)
        _check_flags(self.name, self.has_value, self.has_indicator)
        if not (self.has_value or self.has_indicator):
            raise ValueError(f"column {self.name!r} must have a value or an indicator.")
        if not isinstance(self.means, ValueMeans | None):
            raise TypeError(f"means of column {self.name!r} must be ValueMeans or None, got {self.means!r}.")

    @property
    def outputs(self) -> tuple[str, ...]:
        names = (self.name,) * self.has_value + (f"{self.name} missing",) * self.has_indicator
        return names if self.means is None else (*names, *self.means.outputs)

    @property
    def is_binary(self) -> tuple[bool, ...]:
        flags = (self.kind == "boolean",) * self.has_value + (True,) * self.has_indicator
        return flags if self.means is None else (*flags, *(False,) * len(self.means.outputs))

    def filled(self, rows: FrameColumn) -> Array:
        """The values, with `fill` where they are missing."""
        return np.where(np.isnan(rows.values), self.fill, rows.values)

    def encode(self, rows: FrameColumn) -> Array:
        parts = [self.filled(rows)] if self.has_value else []
        means = [] if self.means is None else [self.means.encode(self.filled(rows))]
        return np.column_stack([*parts, *_indicator(rows, self.has_indicator), *means])


@register
@dataclass(frozen=True, eq=False)
class DateColumn:
    """A date, as those of its `parts` that vary; `fill` [seconds since 1970] replaces missing values.

    `order` is that of day, month and year where dates are written as text.
    """

    name: str
    fill: float
    parts: tuple[str, ...]
    has_indicator: bool
    order: str = "ymd"
    kind = "date"

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_fill(self.name, self.fill, FIRST_SECOND, LAST_SECOND)
        _check_flags(self.name, self.has_indicator)
        checks.one_of("order", self.order, ["ymd", "dmy", "mdy"])
        if not isinstance(self.parts, tuple) or list(self.parts) != [part for part in DATE_PARTS if part in self.parts]:
            raise ValueError(f"parts of column {self.name!r} must be some of {list(DATE_PARTS)}, got {self.parts!r}.")
        if not (self.parts or self.has_indicator):
            raise ValueError(f"column {self.name!r} must have a part or an indicator.")

    @property
    def outputs(self) -> tuple[str, ...]:
        names = chain.from_iterable(_part_names(self.name, part) for part in self.parts)
        return (*names, *(f"{self.name} missing",) * self.has_indicator)

    @property
    def is_binary(self) -> tuple[bool, ...]:
        return tuple(name == f"{self.name} missing" for name in self.outputs)

    def encode(self, rows: FrameColumn) -> Array:
        seconds = np.where(np.isnan(rows.values), self.fill, rows.values)
        parts = chain.from_iterable(DATE_PARTS[part](seconds) for part in self.parts)
        return np.column_stack([*parts, *_indicator(rows, self.has_indicator)])


@register
@dataclass(frozen=True, eq=False)
class CategoryColumn:
    """A row of `table` [levels + 1, outputs] for every level; the last is for levels that are not known."""

    name: str
    levels: tuple[str, ...]
    table: Array
    outputs: tuple[str, ...]
    is_binary: tuple[bool, ...]
    kind = "category"

    def __post_init__(self) -> None:
        _check_name(self.name)
        for values, type_ in ((self.levels, str), (self.outputs, str), (self.is_binary, bool)):
            if not isinstance(values, tuple) or not values or not all(isinstance(value, type_) for value in values):
                raise ValueError(f"column {self.name!r} must have a tuple of {type_.__name__}, got {values!r}.")
        if len(set(self.levels)) != len(self.levels):
            raise ValueError(f"column {self.name!r} must have different levels.")
        shape = (len(self.levels) + 1, len(self.outputs))
        is_float = isinstance(self.table, np.ndarray) and self.table.dtype == np.float64
        if not is_float or self.table.shape != shape or not np.isfinite(self.table).all():
            raise ValueError(f"column {self.name!r} must have a table of {shape} finite floats.")
        if (
            len(self.is_binary) != len(self.outputs)
            or not np.isin(self.table[:, np.array(self.is_binary)], (0, 1)).all()
        ):
            raise ValueError(f"column {self.name!r} must have 0 and 1 in its binary outputs.")

    def encode(self, rows: FrameColumn) -> Array:
        index = {level: i for i, level in enumerate(self.levels)}
        known = np.array([index.get(level, len(self.levels)) for level in rows.levels])
        return self.table[known[rows.values]]


@register
@dataclass(frozen=True, eq=False)
class DroppedColumn:
    """A column without information: constant, missing in all training rows, or text that differs in all of them."""

    name: str
    kind = "dropped"
    outputs = ()
    is_binary = ()

    def __post_init__(self) -> None:
        _check_name(self.name)


EncodedColumn = NumberColumn | DateColumn | CategoryColumn | DroppedColumn


class TableEncoder(Storable):
    """Numbers [n, width] of a frame with columns of any type; see `fit`.

    Parameters
    ----------
    columns
        How each column is encoded, in the order of the training frame; each has `name`, `kind` and `outputs`.

    Attributes
    ----------
    names : tuple of str
        Of the outputs: "age", "age missing", "education=Masters", "occupation mean y".
    sources : int64 array [width]
        The index in `columns` of the column of each output.
    is_binary : bool array [width]
        Outputs that are 0 or 1 (booleans, indicators, one-hot columns), which need no scaling.
    """

    def __init__(self, columns: Sequence[EncodedColumn]) -> None:
        super().__init__()
        if not all(isinstance(column, EncodedColumn) for column in columns):
            raise TypeError(f"columns must be encoded columns, got {[type(column).__name__ for column in columns]}.")
        self.columns = tuple(columns)
        if len({column.name for column in self.columns}) != len(self.columns):
            raise ValueError("columns must have different names.")
        self.names = tuple(chain.from_iterable(column.outputs for column in self.columns))
        self.sources = np.repeat(np.arange(len(self.columns)), [len(column.outputs) for column in self.columns])
        self.is_binary = np.array([*chain.from_iterable(column.is_binary for column in self.columns)], dtype=bool)
        if not self.names:
            raise ValueError("columns must have at least one output.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.columns)} columns, {len(self.names)} outputs)"

    @classmethod
    def fit(
        cls, frame: Any, targets: Any, *, num_classes: int | None, weight: Any = None, seed: int = 0
    ) -> tuple[TableEncoder, Array]:
        """The encoder of a frame and its training matrix Z [n, width], float64.

        Numbers, booleans and durations stay, with the median for missing values and an indicator column. A number whose
        single values matter also gives the mean target of each value, as for long categories below: if it predicts
        other rows better than the means of neighbouring values do, by four standard errors. A date gives its days, year
        and phases of year, week and day; a category of at most 20 levels gives one 0/1 column per level. A longer one
        gives the mean target of each level l, shrunk to the overall mean m by empirical Bayes,

            m + sum_{i in l} w_i (y_i - m) / (sum_{i in l} w_i + s),   s = variance within / variance between levels

        (method of moments in the one-way random-effects model, s >= 1), and log(1 + number of other rows in l). In Z
        the sums leave out the row's own fold of 5 (stratified for classes), so that no row sees its own target;
        `encode` uses all rows. Constant and all-missing columns are dropped with a warning. O(n width) time.

        Parameters
        ----------
        frame
            pandas or polars DataFrame or pyarrow Table, n rows.
        targets
            Classes 0 .. num_classes - 1 as integers [n], or numbers [n] or [n, t].
        num_classes
            None for numbers. Two classes give one column of means, up to ten one per class, more the ten most frequent.
        weight
            Weights [n] of the rows in the means, None for equal ones.
        seed
            Determines the folds.

        References
        ----------
        Micci-Barreca, A preprocessing scheme for high-cardinality categorical attributes, SIGKDD Explorations, 2001.
        Searle, Casella and McCulloch, Variance Components, 1992, section 3.6.

        Examples
        --------
        >>> import pandas
        >>> frame = pandas.DataFrame({"age": [31, None, 52], "job": ["clerk", "nurse", None]})
        >>> encoder, Z = TableEncoder.fit(frame, [0, 1, 1], num_classes=2)
        >>> encoder.names
        ('age', 'age missing', 'job missing', 'job=clerk', 'job=nurse')
        >>> encoder.encode(pandas.DataFrame({"job": ["pilot", "nurse"], "age": [44, 28]}))
        array([[44.,  0.,  0.,  0.,  0.],
               [28.,  0.,  0.,  0.,  1.]])
        """
        series = frame_columns(frame)
        task = _Targets.of(targets, num_classes, weight, seed, num_rows=len(next(iter(series.values()))))
        fitted = [_fit_column(read_column(name, values), task) for name, values in series.items()]
        columns = [column for column, _ in fitted]
        dropped = [column.name for column in columns if isinstance(column, DroppedColumn)]
        if len(dropped) == len(columns):
            reason = "are constant, missing or different in all rows"
            raise ValueError(f"frame must have a column that varies; {dropped} {reason}.")
        if dropped:
            logger.warning("Columns %s are constant, missing or different in all rows, and are dropped.", dropped)
        return cls(columns), np.concatenate([Z for _, Z in fitted], axis=1)

    def encode(self, frame: Any) -> Array:
        """The matrix [n, width] of new rows, float64; columns are matched by name, and each row is encoded
        independently.

        Columns that were dropped may be absent.
        """
        series = frame_columns(frame)
        extra = sorted(series.keys() - {column.name for column in self.columns})
        missing = [column.name for column in self.columns if column.outputs and column.name not in series]
        if missing or extra:
            differences = [f"lacks {missing}"] * bool(missing) + [f"has {extra} besides"] * bool(extra)
            raise ValueError(f"frame must have the columns of fit, but {' and '.join(differences)}.")
        parts = []
        for column in self.columns:
            if not isinstance(column, DroppedColumn):
                order = column.order if isinstance(column, DateColumn) else None
                rows = read_column(column.name, series[column.name], expected=column.kind, date_order=order)
                parts.append(column.encode(rows))
        return np.concatenate(parts, axis=1)


@dataclass(frozen=True)
class _Targets:
    """Y [n, t] with a name for each of its columns, weights [n] with mean 1, and the fold of each row."""

    Y: Array
    labels: tuple[str, ...]
    weight: Array
    folds: Array

    @classmethod
    def of(cls, targets: Any, num_classes: int | None, weight: Any, seed: int, *, num_rows: int) -> _Targets:
        y = np.asarray(targets)
        w = np.ones(num_rows) if weight is None else np.asarray(weight, dtype=np.float64)
        if len(y) != num_rows or w.shape != (num_rows,):
            raise ValueError(f"targets and weight must have {num_rows} rows, got shapes {y.shape} and {w.shape}.")
        if not (np.isfinite(w).all() and (w >= 0).all() and w.sum() > 0):
            raise ValueError("weight must be finite, not negative, and positive for some rows.")
        order = torch.randperm(num_rows, generator=seeded(seed, "target-statistics")).numpy()
        if num_classes is None:
            Y = y.astype(np.float64).reshape(num_rows, -1)
            labels = ("y",) if Y.shape[1] == 1 else tuple(f"y{j}" for j in range(Y.shape[1]))
        else:
            if y.ndim != 1 or y.dtype.kind not in "iu" or not ((y >= 0) & (y < num_classes)).all():
                raise ValueError(f"targets must be integers [n] from 0 to {num_classes - 1}, got {y!r}.")
            order = order[np.argsort(y[order], kind="stable")]  # class by class: every fold gets its share of each
            counts = np.bincount(y, minlength=num_classes)
            chosen = [1] if num_classes == 2 else sorted(np.argsort(-counts, kind="stable")[:MAX_CLASS_STATISTICS])
            Y = (y[:, None] == np.array(chosen)).astype(np.float64)
            labels = ("y",) if num_classes == 2 else tuple(f"y={j}" for j in chosen)
        if not np.isfinite(Y).all():
            raise ValueError("targets must be finite.")
        folds = np.empty(num_rows, dtype=np.int64)
        folds[order] = np.arange(num_rows) % NUM_FOLDS
        return cls(Y, labels, w * (num_rows / w.sum()), folds)


def _fit_column(rows: FrameColumn, task: _Targets) -> tuple[EncodedColumn, Array]:
    if rows.kind == "category":
        return _fit_category(rows, task)
    column = _fit_values(rows)
    if isinstance(column, DroppedColumn):
        return column, np.empty((len(rows.values), 0))
    Z = column.encode(rows)
    if isinstance(column, NumberColumn) and column.kind == "number" and column.has_value:
        means, parts = _fit_value_means(column, column.filled(rows), task)
        return replace(column, means=means), np.column_stack([Z, *parts])
    return column, Z


def _rounded(values: Array) -> Array:
    """Values as ONNX files take them, in float32; large ones are infinite."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _fit_value_means(column: NumberColumn, filled: Array, task: _Targets) -> tuple[ValueMeans | None, list[Array]]:
    """Mean targets by value if they predict better than those of neighbouring values, and out-of-fold means of the
    rows."""
    values, codes, counts = np.unique(_rounded(filled), return_inverse=True, return_counts=True)
    if not MAX_ONE_HOT < len(values) <= len(filled) / MIN_ROWS_PER_VALUE or not np.isfinite(values).all():
        return None, []
    table, Z = _target_statistics(codes, len(values), task)
    errors = task.weight * ((task.Y - Z) ** 2).sum(1)
    places = (counts.cumsum() - counts / 2) / len(filled)  # of the values, from 0 to 1
    for num_bins in NUM_BINS:
        _, bins = np.unique((places * num_bins).astype(np.int64)[codes], return_inverse=True)
        _, binned = _target_statistics(bins, bins.max() + 1, task)
        gains = task.weight * ((task.Y - binned) ** 2).sum(1) - errors
        if gains.mean() * np.sqrt(len(gains)) <= MIN_STANDARD_ERRORS * gains.std():
            return None, []
    outputs = tuple(f"{column.name} value mean {label}" for label in task.labels)
    return ValueMeans(values, table, outputs), [Z]


def _fit_values(rows: FrameColumn) -> NumberColumn | DateColumn | DroppedColumn:
    missing = np.isnan(rows.values)
    present = rows.values[~missing]
    if not len(present) or (not missing.any() and present.min() == present.max()):
        return DroppedColumn(rows.name)
    fill, has_indicator = _median(present), bool(missing.any())
    if rows.kind == "date":
        parts = tuple(part for part, phases in DATE_PARTS.items() if any(map(_varies, phases(present))))
        if not (parts or has_indicator):
            return DroppedColumn(rows.name)
        return DateColumn(rows.name, fill, parts, has_indicator, rows.date_order)
    return NumberColumn(rows.name, rows.kind, fill, bool(present.min() < present.max()), has_indicator)


def _fit_category(rows: FrameColumn, task: _Targets) -> tuple[EncodedColumn, Array]:
    """The table of a category's levels, and the rows of Z: those of the table, or without the row's own fold."""
    counts = np.bincount(rows.values, minlength=len(rows.levels))
    if sum(level != MISSING for level in rows.levels) <= MAX_ONE_HOT:
        names = [f"{rows.name}={level}" if level != MISSING else f"{rows.name} missing" for level in rows.levels]
        table, is_binary = np.eye(len(rows.levels) + 1, len(rows.levels)), [True] * len(names)
        Z = table[rows.values]
    else:
        means, Z = _target_statistics(rows.values, len(rows.levels), task)
        log_counts = np.log1p(np.append(counts, 0))
        table = np.column_stack([means, log_counts])
        # the number of other rows: a level of a single row looks as an unknown one will
        Z = np.column_stack([Z, np.log1p(counts - 1)[rows.values]])
        names = [*(f"{rows.name} mean {label}" for label in task.labels), f"{rows.name} log count"]
        is_binary = [False] * len(names)
    levels = rows.levels
    if rows.order:
        levels, table, ranks = _with_ranks(rows, table)
        Z, names, is_binary = np.column_stack([Z, ranks]), [*names, f"{rows.name} rank"], [*is_binary, False]
    kept = [j for j in range(Z.shape[1]) if _varies(Z[:, j])]
    if not kept:
        return DroppedColumn(rows.name), Z[:, kept]
    outputs, binary = tuple(names[j] for j in kept), tuple(is_binary[j] for j in kept)
    return CategoryColumn(rows.name, levels, table[:, kept], outputs, binary), Z[:, kept]


def _target_statistics(codes: Array, num_levels: int, task: _Targets) -> tuple[Array, Array]:
    """Shrunk means [levels + 1, t] of the targets, and [n, t] those of each row's level without its own fold."""
    cells, shape = codes * NUM_FOLDS + task.folds, (num_levels, NUM_FOLDS)
    counts = np.bincount(cells, task.weight, minlength=num_levels * NUM_FOLDS).reshape(shape)
    total = counts.sum(1)
    others = np.maximum(total[:, None] - counts, 0)
    table, Z = np.empty((num_levels + 1, task.Y.shape[1])), np.empty(task.Y.shape)
    for j, y in enumerate(task.Y.T):
        mean = np.average(y, weights=task.weight)
        centred = task.weight * (y - mean)
        sums = np.bincount(cells, centred, minlength=num_levels * NUM_FOLDS).reshape(shape)
        squares = float((centred * (y - mean)).sum())
        s = _prior_rows(sums.sum(1), total, squares, num_rows=len(y))
        table[:, j] = mean + np.append(sums.sum(1) / (total + s), 0)
        Z[:, j] = mean + ((sums.sum(1)[:, None] - sums) / (others + s))[codes, task.folds]
    return table, Z


def _prior_rows(sums: Array, counts: Array, squares: float, *, num_rows: int) -> float:
    """s = within-level / between-level variance by the method of moments; infinite if levels do not differ."""
    sums, counts = sums[counts > 0], counts[counts > 0]
    L = len(counts)
    if L < 2 or num_rows <= L:
        return np.inf
    explained = float((sums**2 / counts).sum())
    within = max(squares - explained, 0) / (num_rows - L)
    rows_per_level = (num_rows - (counts**2).sum() / num_rows) / (L - 1)
    between = (explained / (L - 1) - within) / rows_per_level
    return max(within / between, MIN_PRIOR_ROWS) if between > 0 else np.inf


def _with_ranks(rows: FrameColumn, table: Array) -> tuple[tuple[str, ...], Array, Array]:
    """All levels of an ordered category, the table with their ranks (the median if missing), and those of the rows."""
    seen = set(rows.levels)
    unseen = tuple(level for level in rows.order if level not in seen)
    levels = (*rows.levels, *unseen)
    rank = {level: float(i) for i, level in enumerate(rows.order)}
    of_level = np.array([rank.get(level, np.nan) for level in levels])
    of_row = of_level[rows.values]
    median = 0.0 if np.isnan(of_row).all() else _median(of_row[~np.isnan(of_row)])
    ranks = np.nan_to_num(np.append(of_level, np.nan), nan=median)
    unknown = np.repeat(table[-1:], len(unseen), axis=0)
    return levels, np.column_stack([np.insert(table, [len(table) - 1], unknown, axis=0), ranks]), ranks[rows.values]


def _days(seconds: Array) -> list[Array]:
    return [seconds / _DAY]


def _year(seconds: Array) -> list[Array]:
    return [_dates(seconds).astype("datetime64[Y]").astype(np.float64) + 1970]


def _day_of_year(seconds: Array) -> list[Array]:
    day = _dates(seconds)
    return _phases((day - day.astype("datetime64[Y]")).astype(np.float64) / DAYS_PER_YEAR)


def _day_of_week(seconds: Array) -> list[Array]:
    return _phases((_dates(seconds).astype(np.float64) + 3) % 7 / 7)  # 1970 began on a Thursday


def _time_of_day(seconds: Array) -> list[Array]:
    return _phases(seconds % _DAY / _DAY)


def _dates(seconds: Array) -> Array:
    return np.floor(seconds / _DAY).astype("datetime64[D]")


def _phases(turns: Array) -> list[Array]:
    return [np.sin(_TURN * turns), np.cos(_TURN * turns)]


# Of seconds since 1970. A phase is a point on the circle: 31 December is next to 1 January, 23:59 to 0:00.
DATE_PARTS: dict[str, Callable[[Array], list[Array]]] = {
    "days": _days,
    "year": _year,
    "day of year": _day_of_year,
    "day of week": _day_of_week,
    "time of day": _time_of_day,
}


def _part_names(name: str, part: str) -> list[str]:
    return [f"{name} {part}"] if part in ("days", "year") else [f"{name} {part} sin", f"{name} {part} cos"]


def _median(values: Array) -> float:
    middle = (len(values) - 1) // 2  # the lower of two, which is one of the values: a boolean stays 0 or 1
    return float(np.partition(values, middle)[middle])


def _indicator(rows: FrameColumn, is_wanted: bool) -> list[Array]:
    return [np.isnan(rows.values).astype(np.float64)] if is_wanted else []


def _varies(values: Array) -> bool:
    low, high = values.min(), values.max()
    return bool(high - low > ROUNDING * max(abs(low), abs(high)))


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"the name of a column must be text, got {name!r}.")


def _check_fill(name: str, fill: object, low: float = -np.inf, high: float = np.inf) -> None:
    if isinstance(fill, bool) or not isinstance(fill, float | int) or not np.isfinite(fill) or not low <= fill < high:
        raise ValueError(f"fill of column {name!r} must be a finite number from {low} to {high}, got {fill!r}.")


def _check_flags(name: str, *flags: object) -> None:
    if not all(isinstance(flag, bool) for flag in flags):
        raise TypeError(f"the flags of column {name!r} must be booleans, got {flags!r}.")
