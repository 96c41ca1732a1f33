"""Sources of tables in Parquet and Arrow (Feather) files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from torch import Tensor

from bochner.data.arrays import TARGETS_AT_ONCE, resolve_shard_rows
from bochner.data.blocks import Block
from bochner.data.columns import assign_roles, labels_in, pyarrow, reading
from bochner.data.labels import checked_labels
from bochner.data.table_files import is_index
from bochner.ops import row_tiles
from bochner.remote import AnyPath, RemotePath, path_of


class _ArrowTable:
    """An Arrow file: rows in groups, the record batches; and single columns from first to last."""

    def __init__(self, path: AnyPath) -> None:
        self.path = path
        with _arrow_file(path) as file:
            reader = pyarrow("ipc").open_file(file)
            self.schema = reader.schema
            # The number of rows is stored in each batch: one of its columns is read to learn it.
            reader = pyarrow("ipc").open_file(file, options=_only([0]))
            self.group_sizes = [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]

    def read(self, group: int, rows: slice, columns: Sequence[str]) -> Any:
        options = _only([self.schema.get_field_index(name) for name in columns])
        with _arrow_file(self.path) as file:
            batch = pyarrow("ipc").open_file(file, options=options).get_batch(group)
        return pyarrow().Table.from_batches([batch.slice(rows.start, rows.stop - rows.start)])

    def stream(self, column: str) -> Iterator[Any]:
        with _arrow_file(self.path) as file:
            reader = pyarrow("ipc").open_file(file, options=_only([self.schema.get_field_index(column)]))
            for group in range(reader.num_record_batches):
                yield reader.get_batch(group).column(0)


def _arrow_file(path: AnyPath) -> Any:
    """The open file, of which pyarrow reads the parts that it needs."""
    return pyarrow().OSFile(str(path)) if isinstance(path, Path) else pyarrow().PythonFile(path.open("rb"), "r")


def _only(fields: list[int]) -> Any:
    return pyarrow("ipc").IpcReadOptions(included_fields=fields, use_threads=False)


class _ParquetTable:
    """The same for a Parquet file and its row groups."""

    def __init__(self, path: AnyPath) -> None:
        self.path = path
        with _arrow_file(path) as opened, pyarrow("parquet").ParquetFile(opened) as file:
            self._metadata = file.metadata
            self.schema = file.schema_arrow
        self.group_sizes = [self._metadata.row_group(i).num_rows for i in range(self._metadata.num_row_groups)]

    def read(self, group: int, rows: slice, columns: Sequence[str]) -> Any:
        batches, row = [], 0
        options = {"metadata": self._metadata, "pre_buffer": False}
        with _arrow_file(self.path) as opened, pyarrow("parquet").ParquetFile(opened, **options) as file:
            step = rows.stop - rows.start
            for batch in file.iter_batches(step, row_groups=[group], columns=list(columns), use_threads=False):
                start, stop = max(rows.start - row, 0), min(rows.stop - row, len(batch))
                if start < stop:
                    batches.append(batch.slice(start, stop - start))
                row += len(batch)
                if row >= rows.stop:
                    break
        return pyarrow().Table.from_batches(batches, batches[0].schema if batches else self.schema)

    def stream(self, column: str) -> Iterator[Any]:
        # As a dictionary, each distinct value is decoded once.
        options = {"read_dictionary": [column], "pre_buffer": False}
        with _arrow_file(self.path) as opened, pyarrow("parquet").ParquetFile(opened, **options) as file:
            for batch in file.iter_batches(TARGETS_AT_ONCE, columns=[column], use_threads=False):
                yield batch.column(0)


Table = _ArrowTable | _ParquetTable


class _Shard(NamedTuple):
    table: Table
    group: int
    rows: slice
    first_row: int


class TableSource:
    """The rows of one table, or of all in a directory; a group of rows is one shard, or several of `shard_rows`."""

    suffixes: ClassVar[tuple[str, ...]]
    _table: ClassVar[type[_ArrowTable] | type[_ParquetTable]]

    def __init__(
        self,
        path: str | os.PathLike[str] | RemotePath,
        *,
        target: str | None = None,
        columns: Sequence[str] | None = None,
        weight: str | None = None,
        shard_rows: int | None = None,
        labels: Sequence[str] | None = None,
        ignore: Sequence[str] = (),
    ) -> None:
        tables = self._open(path_of(path))
        words = None if labels is None else checked_labels(labels)
        schemas = {table.path: table.schema for table in tables}
        names = tables[0].schema.names
        index = [name for j, name in enumerate(names) if is_index(j, name) and name not in (columns or ())]
        others = [*ignore, *index]
        roles = assign_roles(schemas, target=target, columns=columns, weight=weight, labels=words, ignore=others)
        if roles.has_text and words is None:  # one pass over the target
            chunks = (chunk for table in tables for chunk in _stream(table, str(target)))
            roles = roles._replace(labels=labels_in(f"{tables[0].path}: column {target!r}", chunks))
        self.roles, self.labels, self.column_names = roles, roles.labels, roles.inputs
        self.num_inputs = len(roles.inputs)
        rows = resolve_shard_rows(shard_rows, row_bytes=self.num_inputs * roles.X_type.itemsize)
        self._shards = [shard for table in tables for shard in _shards(table, rows)]
        if not self._shards:
            raise ValueError(f"{tables[0].path} must have at least one row, got none.")
        self.shard_sizes = [shard.rows.stop - shard.rows.start for shard in self._shards]

    def read(self, shard: int) -> Block:
        table, path, first_row = self._read(shard, self.roles.names)
        return self.roles.block(table, path, first_row)

    def read_targets(self, shard: int) -> Tensor:
        """y of a shard, without reading the other columns."""
        table, path, first_row = self._read(shard, [self.roles.target or self.roles.inputs[0]])
        return self.roles.targets(table, path, first_row)

    def _open(self, path: AnyPath) -> list[Table]:
        paths: list[AnyPath] = (
            sorted(p for p in path.iterdir() if p.suffix in self.suffixes) if path.is_dir() else [path]
        )
        if not paths:
            raise ValueError(f"{path} must hold {' or '.join(self.suffixes)} files, found none.")
        tables: list[Table] = []
        for file in paths:
            with reading(file):
                tables.append(table := self._table(file))
                _ = table.schema.names  # decoded only now
        return tables

    def _read(self, shard: int, columns: Sequence[str]) -> tuple[Any, AnyPath, int]:
        """Some columns of a shard, the path of their file, and the number of their first row in it."""
        table, group, rows, first_row = self._shards[shard]
        with reading(table.path):
            content = table.read(group, rows, columns)
        if len(content) != self.shard_sizes[shard]:
            raise ValueError(f"{table.path} was changed while in use: it has other rows than when it was opened.")
        return content, table.path, first_row


def _stream(table: Table, column: str) -> Iterator[Any]:
    with reading(table.path):
        yield from table.stream(column)


def _shards(table: Table, shard_rows: int) -> Iterator[_Shard]:
    first_row = 0
    for group, size in enumerate(table.group_sizes):
        for rows in row_tiles(size, row_elements=1, tile_elements=shard_rows):
            yield _Shard(table, group, rows, first_row + rows.start)
        first_row += size


class ParquetSource(TableSource):
    """The rows of a Parquet file, or of all `*.parquet` in a directory in order of their names.

    Inputs are `columns` in their order, by default all but `target` and `weight`; without a target y is int64 [n, 0].
    A text target (or a dictionary of text) becomes indices into `labels`, which one pass over its column collects
    unless they are given; booleans are 0 and 1.

    A row group is a shard. One of more than `shard_rows` rows is several, and each of them decodes the group up to its
    own end: write row groups of about `shard_rows` rows, or use `cache_to_disk`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     table = pyarrow().table({"a": [1.0, 2.0], "b": [3, 4], "y": [0, 1]})
    ...     pyarrow("parquet").write_table(table, directory + "/t.parquet")
    ...     ParquetSource(directory + "/t.parquet", target="y").read(0)
    Block(X=tensor([[1., 3.],
            [2., 4.]], dtype=torch.float64), y=tensor([0, 1]), weight=None)
    """

    suffixes, _table = (".parquet",), _ParquetTable


class ArrowSource(TableSource):
    """The rows of an Arrow IPC (Feather) file, or of all `*.arrow` and `*.feather` in a directory.

    As `ParquetSource`, with record batches for row groups.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     table = pyarrow().table({"a": [1.0, 2.0], "y": [0.5, 1.5]})
    ...     pyarrow("feather").write_feather(table, directory + "/t.feather")
    ...     ArrowSource(directory + "/t.feather", target="y").read(0).y
    tensor([0.5000, 1.5000], dtype=torch.float64)
    """

    suffixes, _table = (".arrow", ".feather"), _ArrowTable
