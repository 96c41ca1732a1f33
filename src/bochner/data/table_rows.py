"""Rows of a file: a table in memory with columns of any type, or a source of numbers."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bochner.data.arrays import ArraySource, no_targets
from bochner.data.blocks import Source
from bochner.data.columns import assign_roles, labels_in, pyarrow
from bochner.data.files import open_source
from bochner.data.labels import abbreviated, encode_labels, refuse_label
from bochner.data.table_files import CSV, fits_memory, read_table, table_files, table_suffix
from bochner.remote import AnyPath, RemotePath, path_of

logger = logging.getLogger(__name__)

Array = np.ndarray[Any, Any]
# Fewer rows have distinct values, and columns that agree with the target, by chance.
MIN_ROWS_TO_WARN = 50
_IDENTIFIER = re.compile(r"(.*[\W_])?(id|uuid|guid|key|index|row|nr|no|number)s?", re.I)


class TableRows:
    """Rows of a table whose columns need a `TableEncoder`, with targets and weights.

    `X` is a pyarrow Table [n, d] and `y` an array [n] of numbers or text, or None. Like a source it has `num_inputs`,
    `shard_sizes`, `column_names`, `labels` and `read_targets`; its inputs are numbers only once they are encoded.
    """

    def __init__(
        self,
        X: Any,
        y: Array | None,
        weight: Array | None = None,
        *,
        name: str = "y",
        labels: Sequence[str] | None = None,
        target: str | None = None,
    ) -> None:
        self.X, self.y, self.weight, self.name, self.target = X, y, weight, name, target
        self.num_inputs, self.shard_sizes, self.column_names = X.num_columns, [len(X)], tuple(X.column_names)
        self.labels = None if labels is None else tuple(labels)
        if labels is None and y is not None and y.dtype.kind == "U":
            self.labels = tuple(np.unique(y).tolist())

    def __len__(self) -> int:
        return len(self.X)

    def read_targets(self, shard: int) -> Tensor:
        """y [n] as numbers, or as indices into the labels."""
        if self.y is None:
            return no_targets(len(self))
        if self.labels is None:
            return torch.from_numpy(np.ascontiguousarray(self.y))
        return torch.from_numpy(encode_labels(self.labels, self.y.astype(str), name=self.name, first_row=0))

    def class_indices(self, classes: Array) -> Tensor:
        """y [n] as indices into the sorted `classes`; any other class is an error."""
        if self.y is None:
            raise ValueError(f"{self.name} has no targets.")
        y = self.y.astype(str) if classes.dtype.kind == "U" else self.y
        if classes.dtype.kind != "U" and y.dtype.kind == "U":
            known = abbreviated(classes.tolist())
            raise ValueError(f"{self.name} must hold the classes {known}, got text, {y[0].item()!r}.")
        indices = np.searchsorted(classes, y).clip(max=len(classes) - 1)
        unknown = classes[indices] != y
        if unknown.any():
            row = int(unknown.argmax())
            refuse_label(self.name, y[row].item(), row, classes.tolist())
        return torch.from_numpy(indices.astype(np.int64))

    def take(self, rows: Array | slice) -> TableRows:
        X = self.X.slice(rows.start, rows.stop - rows.start) if isinstance(rows, slice) else self.X.take(rows)
        y, weight = (None if part is None else part[rows] for part in (self.y, self.weight))
        return TableRows(X, y, weight, name=self.name, labels=self.labels, target=self.target)

    def renamed(self, names: Sequence[str]) -> TableRows:
        X = self.X.rename_columns(list(names))
        return TableRows(X, self.y, self.weight, name=self.name, labels=self.labels, target=self.target)

    def batches(self, size: int) -> Iterator[TableRows]:
        """All rows in order, `size` at a time."""
        for start in range(0, len(self), size):
            yield self.take(slice(start, min(start + size, len(self))))


Rows = Source | TableRows


def open_rows(
    path: str | os.PathLike[str] | RemotePath,
    *,
    target: str | int | None = None,
    columns: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    categories: Sequence[str] = (),
    weight: str | None = None,
    labels: Sequence[str] | None = None,
    kinds: Mapping[str, str] | None = None,
    numbers: bool = False,
    num_inputs: int | None = None,
    shard_rows: int | None = None,
    memory_budget: int | None = None,
    sep: str | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
) -> Rows:
    """The rows of any file: numbers as a source, a table with text, dates or missing values as `TableRows`.

    Tables that fit into a quarter of `memory_budget` (bytes; default: of this machine's memory) are read at once.
    Larger ones, and files that are not tables, are read a part at a time by `open_source`, and must hold numbers.

    Parameters
    ----------
    path
        .csv, .tsv (also .gz, .bz2, .xz), .jsonl, .parquet, .arrow, .feather, or what `open_source` reads.
    target
        Name of a column of a table, or its position: 0 is the first, -1 the last. Rows without a target are left out.
    columns, ignore
        Inputs, by default all columns but target and weight; columns that are not inputs.
    categories
        Columns of a table that are text, however they look: codes such as 00501.
    weight
        Name of a column of row weights.
    labels
        Classes of a text target, as in `open_source`.
    kinds
        Kinds of the columns of a fitted `TableEncoder` by name; then the rows are `TableRows`.
    numbers
        Whether the rows must be a source: text and missing values are errors.
    num_inputs, shard_rows
        As in `open_source`.
    sep, encoding, decimal
        Of text tables; detected by default, see `bochner.data.text_format.detect_format`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     _ = Path(directory, "a.csv").write_text("town;size;rent\\nUlm;1,5;low\\nKiel;2,5;high\\n")
    ...     rows = open_rows(directory + "/a.csv", target=-1)
    >>> rows.column_names, rows.y
    (('town', 'size'), array(['low', 'high'], dtype='<U4'))
    """
    path = path_of(path)
    text = {"sep": sep, "encoding": encoding, "decimal": decimal}
    if kinds is not None and path.exists() and not table_files(path):
        raise ValueError(f"{path} must be a table with the columns {abbreviated(list(kinds))}.")
    if kinds is None and not (table_files(path) and path.exists() and fits_memory(path, memory_budget)):
        if isinstance(target, int):
            raise ValueError(f"target must be the name of a column or an array for {path}, got {target}.")
        if categories:
            raise ValueError(f"categories must be empty for {path}, which holds numbers only, got {list(categories)}.")
        options: dict[str, Any] = {"target": target, "columns": columns, "weight": weight, "labels": labels}
        return open_source(path, **options, ignore=ignore, num_inputs=num_inputs, shard_rows=shard_rows, **text)
    # columns that are named were chosen from this table before, or from the one of the training rows
    known = {} if kinds is None and columns is not None else kinds
    table = read_table(path, kinds=known, categories=categories, **text)
    target = None if target is None else column_at(target, table.column_names, path)
    if target is not None:
        table = _with_targets(table, target, path)
    schemas = {path: table.schema}
    names: dict[str, Any] = {"target": target, "weight": weight}
    roles = assign_roles(schemas, **names, columns=columns, ignore=ignore, labels=None, any_type=True)
    X = table.select(list(roles.inputs))
    if kinds is None and (numbers or is_numeric(X)):
        words = None if labels is None else tuple(labels)
        roles = assign_roles(schemas, **names, columns=roles.inputs, labels=words)
        if table_suffix(path) in CSV:
            roles = roles._replace(X_type=torch.float64, weight_type=torch.float64)
        if roles.has_text and words is None:
            roles = roles._replace(labels=labels_in(f"{path}: column {target!r}", [table[target]]))
        block = roles.block(table, path, 0)
        source = ArraySource(*block, shard_rows=shard_rows)
        source.labels, source.column_names, source.target = roles.labels, roles.inputs, target
        return source
    y = None if target is None else _target_values(table[target], f"{path}: column {target!r}")
    weights = None if weight is None else _weights(table[weight], f"{path}: column {weight!r}")
    return TableRows(X, y, weights, name=f"{path}: column {target!r}", labels=labels, target=target)


def column_at(column: str | int, names: Sequence[str], path: AnyPath) -> str:
    """The name of a column that is given by name or position; text such as "-1" is a position unless it is a name."""
    if isinstance(column, str) and (column in names or not re.fullmatch(r"-?\d+", column)):
        return column
    position = int(column)
    if not -len(names) <= position < len(names):
        raise ValueError(
            f"{path} has {len(names)} columns, got the position {position}; they are {abbreviated(names)}."
        )
    return names[position]


def is_numeric(table: Any) -> bool:
    """Whether all columns are numbers without missing values, which need no encoder."""
    types, compute = pyarrow("types"), pyarrow("compute")
    for column in table.columns:
        kind = column.type
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)) or column.null_count:
            return False
        if types.is_floating(kind) and compute.any(compute.is_nan(column)).as_py():
            return False
    return True


def warn_of_columns(rows: Rows, *, option: str = "") -> None:
    """Log columns of numbers that identify rows, and columns that determine the target; `option` leaves a column out.

    Text that identifies rows is dropped by the encoder, which reports it.
    """
    remedy = f" ({option})" if option else ""
    if not isinstance(rows, TableRows) or len(rows) < MIN_ROWS_TO_WARN:
        return
    y = None if rows.y is None else np.unique(rows.y, return_inverse=True)[1]
    for name, column in zip(rows.column_names, rows.X.columns, strict=True):
        kind = pyarrow("types")
        if not (kind.is_integer(column.type) or kind.is_string(column.type) or kind.is_large_string(column.type)):
            continue
        encoded = column.dictionary_encode().combine_chunks()
        num_levels = len(encoded.dictionary)
        if num_levels == len(rows) and _identifies(name, column):
            logger.warning(
                "column %r has another value in every row: leave it out%s if it identifies rows.", name, remedy
            )
        elif y is not None and 1 < num_levels <= len(rows) // 5 and not column.null_count:
            codes = encoded.indices.to_numpy(zero_copy_only=False)
            low, high = np.full(num_levels, len(y)), np.full(num_levels, -1)
            np.minimum.at(low, codes, y)
            np.maximum.at(high, codes, y)
            if (low == high).all() and y.max() > 0:
                logger.warning(
                    "column %r determines the target %r in every row: leave it out%s if it is not known when "
                    "predictions are made.",
                    name,
                    rows.target,
                    remedy,
                )


def _identifies(name: str, column: Any) -> bool:
    if not pyarrow("types").is_integer(column.type):
        return False
    if _IDENTIFIER.fullmatch(name):
        return True
    ends = pyarrow("compute").min_max(column)
    return bool(ends["max"].as_py() - ends["min"].as_py() == len(column) - 1)


def _with_targets(table: Any, target: str, path: AnyPath) -> Any:
    """The rows that have a target."""
    if target not in table.column_names:
        raise ValueError(f"{path} has no column {target!r}; its columns are {abbreviated(table.column_names)}.")
    column, compute = table[target], pyarrow("compute")
    is_missing = compute.is_null(column, nan_is_null=True)
    count = compute.sum(is_missing).as_py() or 0
    if not count:
        return table
    if count == len(table):
        raise ValueError(f"{path}: column {target!r} must have a value in some row, got none.")
    logger.warning("%s: %s rows have no %r, and are left out.", path, f"{count:,}", target)
    table = table.filter(compute.invert(is_missing))
    column = table[target]
    if pyarrow("types").is_floating(column.type) and compute.all(compute.equal(column, compute.floor(column))).as_py():
        # integers with missing values are floats in pandas
        table = table.set_column(table.column_names.index(target), target, column.cast("int64"))
    return table


def _target_values(column: Any, name: str) -> Array:
    types = pyarrow("types")
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if types.is_boolean(kind) or types.is_integer(kind):
        return np.array(column.cast("int64").to_numpy())  # a copy: Arrow's memory is read-only
    if types.is_floating(kind) or types.is_decimal(kind):
        values = np.array(column.cast("float64").to_numpy())
        if not np.isfinite(values).all():
            row = int((~np.isfinite(values)).argmax())
            raise ValueError(f"{name} must be finite, but row {row} is {values[row]}.")
        return values
    if types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view":
        return np.array(column.to_pylist(), dtype=str)
    raise ValueError(f"{name} must hold numbers or text, got type {kind}; choose another target.")


def _weights(column: Any, name: str) -> Array:
    if column.null_count:
        raise ValueError(f"{name} must have a value in every row, got {column.null_count} missing ones.")
    try:
        return np.array(column.cast("float64").to_numpy())
    except pyarrow().ArrowException as error:
        raise ValueError(f"{name} must hold numbers, got type {column.type}.") from error
