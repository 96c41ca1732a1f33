"""Predictions on their way to a file: as CSV, .npy or Parquet, some rows at a time, whole or not at all."""

from __future__ import annotations

import csv
import secrets
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from bochner import checks
from bochner.data.columns import pyarrow

Values = np.ndarray[Any, Any]
Table = dict[str, Values]  # columns [n] by name
SUFFIXES = [".csv", ".npy", ".parquet"]


def write_tables(tables: Iterable[Table], output: Path | None, *, num_rows: int) -> None:
    """Write blocks of columns, by the suffix of `output`; None is CSV on the standard output.

    An .npy holds numbers or text [n] of a single column, numbers [n, k] of k columns.
    """
    if output is None:
        write_csv(tables, sys.stdout)
        return
    checks.one_of("the suffix of output", output.suffix.lower(), SUFFIXES)
    with replaced(output) as path:
        if output.suffix.lower() == ".csv":
            with path.open("w", newline="", encoding="utf-8") as file:
                write_csv(tables, file)
        elif output.suffix.lower() == ".npy":
            write_npy(tables, path, num_rows)
        else:
            write_parquet(tables, path)


@contextmanager
def replaced(output: Path) -> Iterator[Path]:
    """A path beside `output` that takes its place at the end, or goes when there was an error."""
    part = output.with_name(f"{output.name}.{secrets.token_hex(4)}.part")
    try:
        yield part
        part.replace(output)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_csv(tables: Iterable[Table], file: IO[str]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    for number, table in enumerate(tables):
        if number == 0:
            writer.writerow(table)
        writer.writerows(zip(*map(_texts, table.values()), strict=True))


def write_npy(tables: Iterable[Table], path: Path, num_rows: int) -> None:
    with path.open("wb") as file:
        for number, table in enumerate(tables):
            columns = list(table.values())
            rows = columns[0] if len(columns) == 1 else np.stack(columns, axis=1)
            if number == 0:
                header = {"descr": rows.dtype.str, "fortran_order": False, "shape": (num_rows, *rows.shape[1:])}
                np.lib.format.write_array_header_1_0(file, header)
            file.write(np.ascontiguousarray(rows).tobytes())


def write_parquet(tables: Iterable[Table], path: Path) -> None:
    arrow, writer = pyarrow(), None
    try:
        for table in tables:
            rows = arrow.table({name: arrow.array(values) for name, values in table.items()})
            writer = writer or pyarrow("parquet").ParquetWriter(path, rows.schema)
            writer.write_table(rows)
    finally:
        if writer is not None:
            writer.close()


def _texts(values: Values) -> Sequence[str]:
    """Floats with the digits that they are good for, everything else as it is."""
    if values.dtype.kind != "f":
        return values.tolist()
    return np.char.mod("%.7g" if values.dtype == np.float32 else "%.15g", values).tolist()
