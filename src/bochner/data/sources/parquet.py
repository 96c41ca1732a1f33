"""Parquet files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bochner.data.sources.columns import pyarrow
from bochner.data.sources.tables import TableSource, open_tables

STEP = 65_536  # rows of a single column read at once


class ParquetSource(TableSource):
    """The rows of a Parquet file, or of all `*.parquet` in a directory in order of their names.

    Inputs are `columns` in their order, by default all but `target` and `weight`; without a target y is int64 [n, 0].
    A text target (a dictionary of text too) is given as places in `labels`, which one pass over its column finds unless
    they are given; booleans are 0 and 1.

    A row group is a shard. One of more than `shard_rows` rows is several, and each of them decodes the group up to its
    own end: write row groups of about `shard_rows` rows, or `spool` once.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = pyarrow().table({"a": [1.0, 2.0], "b": [3, 4], "y": [0, 1]})
    ...     pyarrow("parquet").write_table(table, folder + "/t.parquet")
    ...     ParquetSource(folder + "/t.parquet", target="y").read(0)
    Block(X=tensor([[1., 3.],
            [2., 4.]], dtype=torch.float64), y=tensor([0, 1]), weight=None)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        target: str | None = None,
        columns: Sequence[str] | None = None,
        weight: str | None = None,
        shard_rows: int | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        tables = open_tables(path, [".parquet"], _ParquetTable)
        super().__init__(tables, target=target, columns=columns, weight=weight, shard_rows=shard_rows, labels=labels)


class _ParquetTable:
    def __init__(self, path: Path) -> None:
        self.path = path
        with pyarrow("parquet").ParquetFile(path) as file:
            self._metadata = file.metadata
            self.schema = file.schema_arrow
        self.group_sizes = [self._metadata.row_group(i).num_rows for i in range(self._metadata.num_row_groups)]

    def read(self, group: int, rows: slice, columns: Sequence[str]) -> Any:
        found, row = [], 0
        with pyarrow("parquet").ParquetFile(self.path, metadata=self._metadata, pre_buffer=False) as file:
            step = rows.stop - rows.start
            for batch in file.iter_batches(step, row_groups=[group], columns=list(columns), use_threads=False):
                start, stop = max(rows.start - row, 0), min(rows.stop - row, len(batch))
                if start < stop:
                    found.append(batch.slice(start, stop - start))
                row += len(batch)
                if row >= rows.stop:
                    break
        return pyarrow().Table.from_batches(found, found[0].schema if found else self.schema)

    def stream(self, column: str) -> Iterator[Any]:
        # As a dictionary each of its values is decoded once.
        with pyarrow("parquet").ParquetFile(self.path, read_dictionary=[column], pre_buffer=False) as file:
            for batch in file.iter_batches(STEP, columns=[column], use_threads=False):
                yield batch.column(0)
