"""Arrow IPC files, which Feather (version 2) files are too."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bochner.data.sources.columns import pyarrow
from bochner.data.sources.tables import TableSource, open_tables


class ArrowSource(TableSource):
    """The rows of an Arrow IPC (Feather) file, or of all `*.arrow` and `*.feather` in a directory.

    As `ParquetSource`, with record batches for row groups.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = pyarrow().table({"a": [1.0, 2.0], "y": [0.5, 1.5]})
    ...     pyarrow("feather").write_feather(table, folder + "/t.feather")
    ...     ArrowSource(folder + "/t.feather", target="y").read(0).y
    tensor([0.5000, 1.5000], dtype=torch.float64)
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
        tables = open_tables(path, [".arrow", ".feather"], _ArrowTable)
        super().__init__(tables, target=target, columns=columns, weight=weight, shard_rows=shard_rows, labels=labels)


class _ArrowTable:
    def __init__(self, path: Path) -> None:
        self.path = path
        with pyarrow().OSFile(str(path)) as file:
            reader = pyarrow("ipc").open_file(file)
            self.schema = reader.schema
            # Row counts stand in the batches themselves: one column of each is read to learn them.
            reader = pyarrow("ipc").open_file(file, options=_only([0]))
            self.group_sizes = [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]

    def read(self, group: int, rows: slice, columns: Sequence[str]) -> Any:
        wanted = _only([self.schema.get_field_index(name) for name in columns])
        with pyarrow().OSFile(str(self.path)) as file:
            batch = pyarrow("ipc").open_file(file, options=wanted).get_batch(group)
        return pyarrow().Table.from_batches([batch.slice(rows.start, rows.stop - rows.start)])

    def stream(self, column: str) -> Iterator[Any]:
        with pyarrow().OSFile(str(self.path)) as file:
            reader = pyarrow("ipc").open_file(file, options=_only([self.schema.get_field_index(column)]))
            for group in range(reader.num_record_batches):
                yield reader.get_batch(group).column(0)


def _only(fields: list[int]) -> Any:
    return pyarrow("ipc").IpcReadOptions(included_fields=fields, use_threads=False)
