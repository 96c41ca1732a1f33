"""`bochner predict`: predictions of a model as CSV, .npy or Parquet."""

from __future__ import annotations

import csv
import logging
import secrets
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from bochner import checks
from bochner.cli.evaluate import BATCH_ROWS
from bochner.cli.logs import logging_at
from bochner.cli.tables import Columns, TextOptions, column_list, open_for_model
from bochner.cli.train_directory import load_model
from bochner.data import Rows, TableRows, read_table
from bochner.data.batches import in_order
from bochner.data.blocks import num_rows
from bochner.data.columns import pyarrow
from bochner.data.table_files import table_files
from bochner.estimators.inputs import FilePath
from bochner.remote import local_path, path_of, written

Values = np.ndarray[Any, Any]
Table = dict[str, Values]  # columns [n] by name
SUFFIXES = [".csv", ".npy", ".parquet"]


def predict(
    model: str,
    data: str,
    *,
    output: str | None = None,
    probabilities: bool = False,
    id: Columns = None,  # noqa: A002
    columns: Columns = None,
    sep: str | None = None,
    encoding: str | None = None,
    decimal: Literal[".", ","] | None = None,
    device: str = "auto",
) -> None:
    """Predict every row of a file, a few thousand at a time.

    Examples:

        bochner predict out/iris_csv new.csv
        bochner predict out/iris_csv new.csv --output predictions.csv --id plant
        bochner predict out/iris_csv new.csv --output probabilities.npy --probabilities

    In tables, the inputs are the columns with the names of the training columns; other columns are ignored, and those
    of --id are written before the predictions.

    Args:
        model: The output directory of `bochner train`, or a model file.
        data: Rows, in any format that `bochner train` reads.
        output: A .csv, .npy or .parquet file, or its URL; written atomically. Default: CSV on the standard output.
        probabilities: Add p(class | x), one column p(CLASS) per class; an .npy then holds the probabilities only.
        id: Names of columns of a table that are written before the predictions, separated by commas.
        columns: Names of the inputs, separated by commas, if they differ from those of training.
        sep: Separator of a CSV file, a character or "tab". Default: detected.
        encoding: Encoding of a CSV file, such as "cp1252". Default: detected.
        decimal: Decimal sign of a CSV file. Default: detected.
        device: Where predictions are computed; "auto" is the GPU if there is one.
    """
    estimator = load_model(local_path(model), device=device)
    if probabilities and not hasattr(estimator, "classes_"):
        raise ValueError("probabilities must not be set for a regressor, which has no classes.")
    text = TextOptions(sep, encoding, decimal)
    is_array = output is not None and Path(output).suffix.lower() == ".npy"
    with logging_at(logging.WARNING if output is None else logging.INFO):  # rows are on the standard output
        rows = open_for_model(estimator, data, columns=columns, text=text)
    with logging_at(logging.WARNING):  # the file was described above
        ids = None if id is None else read_ids(data, column_list(id) or [], text)
    if ids is not None and (is_array or ids.num_rows != num_rows(rows)):
        raise ValueError(f"id must be None for .npy files, which have no columns, got {id!r}.")
    tables = predict_tables(estimator, rows, probabilities=probabilities, predictions=not (is_array and probabilities))
    write_tables(tables if ids is None else with_ids(tables, ids), output, num_rows=num_rows(rows))
    if output is not None:
        print(f"{num_rows(rows):,} predictions: {output}")


def predict_tables(model: Any, rows: Rows, *, probabilities: bool, predictions: bool) -> Iterator[Table]:
    """Columns of predictions, block by block."""
    if isinstance(rows, TableRows):
        inputs: Iterator[Any] = (part.X for part in rows.batches(BATCH_ROWS))
    else:
        inputs = (block.X.double() for block in in_order(rows, BATCH_ROWS))  # predictions have the dtype of X
    for X in inputs:
        if not probabilities:
            yield _prediction_columns(model, np.asarray(model.predict(X)))
            continue
        labels, p = model.predict_with_proba(X)  # in the time of one of them
        p = p.astype(_dtype(model))
        columns = {f"p({label})": p[:, index] for index, label in enumerate(model.classes_.tolist())}
        yield (_prediction_columns(model, labels) if predictions else {}) | columns


def read_ids(data: str, names: Sequence[str], text: TextOptions) -> Any:
    """Columns of a table as a pyarrow Table, those of a text table as they are written."""
    if not table_files(path_of(data)):
        raise ValueError(f"id must be None for {data}, which is not a table, got {list(names)}.")
    return read_table(data, kinds={}, categories=names, **text._asdict()).select(list(names))


def with_ids(tables: Iterable[Table], ids: Any) -> Iterator[Table]:
    """The columns of `ids` before those of predictions of the same rows."""
    start = 0
    for table in tables:
        count = len(next(iter(table.values())))
        part = ids.slice(start, count)
        yield {name: np.array(part[name].to_pylist(), dtype=object) for name in ids.column_names} | table
        start += count


def _prediction_columns(model: Any, predictions: Values) -> Table:
    if hasattr(model, "classes_"):
        return {"prediction": predictions}
    predictions = predictions.astype(_dtype(model))
    if predictions.ndim == 1:
        return {"prediction": predictions}
    return {f"prediction {index}": predictions[:, index] for index in range(predictions.shape[1])}


def _dtype(model: Any) -> Any:
    return np.float64 if model.make_plan().params.precision == "float64" else np.float32


# -- output files ----------------------------------------------------------------------------------------------


def write_tables(tables: Iterable[Table], output: FilePath | None, *, num_rows: int) -> None:
    """Write blocks of columns in the format of the suffix of `output`; None is CSV on the standard output.

    An .npy file holds an array [n] for a single column, [n, k] for k numeric columns.
    """
    if output is None:
        _write_csv(tables, sys.stdout)
        return
    suffix = Path(output).suffix.lower()
    checks.one_of("the suffix of output", suffix, SUFFIXES)
    with written(output) as local, _replacing(local) as path:
        if suffix == ".csv":
            with path.open("w", newline="", encoding="utf-8") as file:
                _write_csv(tables, file)
        elif suffix == ".npy":
            _write_npy(tables, path, num_rows)
        else:
            _write_parquet(tables, path)


@contextmanager
def _replacing(output: Path) -> Iterator[Path]:
    """A temporary path next to `output` that replaces it at the end, or is removed after an error."""
    if not output.parent.is_dir():
        raise FileNotFoundError(f"output={output} must be in a directory that exists, but {output.parent} does not.")
    part = output.with_name(f"{output.name}.{secrets.token_hex(4)}.part")
    try:
        yield part
        part.replace(output)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _write_csv(tables: Iterable[Table], file: IO[str]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    for number, table in enumerate(tables):
        if number == 0:
            writer.writerow(table)
        writer.writerows(zip(*map(_as_text, table.values()), strict=True))


def _write_npy(tables: Iterable[Table], path: Path, num_rows: int) -> None:
    with path.open("wb") as file:
        for number, table in enumerate(tables):
            columns = list(table.values())
            rows = columns[0] if len(columns) == 1 else np.stack(columns, axis=1)
            if number == 0:
                header = {"descr": rows.dtype.str, "fortran_order": False, "shape": (num_rows, *rows.shape[1:])}
                np.lib.format.write_array_header_1_0(file, header)
            file.write(np.ascontiguousarray(rows).tobytes())


def _write_parquet(tables: Iterable[Table], path: Path) -> None:
    arrow, writer = pyarrow(), None
    try:
        for table in tables:
            rows = arrow.table({name: arrow.array(values) for name, values in table.items()})
            writer = writer or pyarrow("parquet").ParquetWriter(path, rows.schema)
            writer.write_table(rows)
    finally:
        if writer is not None:
            writer.close()


def _as_text(values: Values) -> Sequence[str]:
    """Floats with their significant digits, everything else unchanged."""
    if values.dtype.kind != "f":
        return values.tolist()
    return np.char.mod("%.7g" if values.dtype == np.float32 else "%.15g", values).tolist()
