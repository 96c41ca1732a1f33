"""Tables with named columns, whatever file they come from."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from bochner.data.blocks import Block
from bochner.data.sources.columns import Roles, assign_roles, labels_in, reading
from bochner.data.sources.labels import given_labels
from bochner.data.sources.sizes import rows_per_shard
from bochner.ops import row_tiles


class Table(Protocol):
    """A file whose rows come in groups."""

    @property
    def path(self) -> Path: ...

    @property
    def schema(self) -> Any: ...

    @property
    def group_sizes(self) -> Sequence[int]: ...

    def read(self, group: int, rows: slice, columns: Sequence[str]) -> Any: ...

    def stream(self, column: str) -> Iterator[Any]:
        """One column from first to last, some rows at a time."""
        ...


class TableSource:
    """The rows of tables, one after the other; a group of rows is one shard, or several of `shard_rows` at most."""

    def __init__(
        self,
        tables: Sequence[Table],
        *,
        target: str | None,
        columns: Sequence[str] | None,
        weight: str | None,
        shard_rows: int | None,
        labels: Sequence[str] | None,
    ) -> None:
        words = None if labels is None else given_labels(labels)
        schemas = {table.path: table.schema for table in tables}
        roles = assign_roles(schemas, target=target, columns=columns, weight=weight, labels=words)
        self.roles = _with_labels(roles, tables)
        self.labels, self.column_names = self.roles.labels, self.roles.inputs
        self.num_inputs = len(self.roles.inputs)
        rows = rows_per_shard(shard_rows, row_bytes=self.num_inputs * self.roles.X_type.itemsize)
        self._shards = [shard for table in tables for shard in _shards(table, rows)]
        if not self._shards:
            raise ValueError(f"{tables[0].path} must have at least one row, got none.")
        self.shard_sizes = [shard.rows.stop - shard.rows.start for shard in self._shards]

    def read(self, shard: int) -> Block:
        found = self._read(shard, self.roles.names)
        return self.roles.block(found, self._shards[shard].table.path, self._shards[shard].first_row)

    def read_targets(self, shard: int) -> Tensor:
        """y of a shard alone: the other columns are not read."""
        found = self._read(shard, [self.roles.target or self.roles.inputs[0]])
        return self.roles.targets(found, self._shards[shard].table.path, self._shards[shard].first_row)

    def _read(self, shard: int, columns: Sequence[str]) -> Any:
        table, group, rows, _ = self._shards[shard]
        with reading(table.path):
            found = table.read(group, rows, columns)
        if len(found) != self.shard_sizes[shard]:
            raise ValueError(f"{table.path} was changed while in use: it has other rows than when it was opened.")
        return found


def _with_labels(roles: Roles, tables: Sequence[Table]) -> Roles:
    """The labels of a text target, unless they are given, from one pass over that column."""
    if not roles.has_text or roles.labels is not None:
        return roles
    name = f"{tables[0].path}: column {roles.target!r}"
    return roles._replace(labels=labels_in(name, (chunk for table in tables for chunk in _stream(table, roles.target))))


def _stream(table: Table, column: str | None) -> Iterator[Any]:
    with reading(table.path):
        yield from table.stream(str(column))


class _Shard(NamedTuple):
    table: Table
    group: int
    rows: slice
    first_row: int


def _shards(table: Table, shard_rows: int) -> Iterator[_Shard]:
    first_row = 0
    for group, size in enumerate(table.group_sizes):
        for rows in row_tiles(size, row_elements=1, tile_elements=shard_rows):
            yield _Shard(table, group, rows, first_row + rows.start)
        first_row += size


def open_tables(
    path: str | os.PathLike[str], suffixes: Sequence[str], open_table: Callable[[Path], Table]
) -> list[Table]:
    """The table at `path`, or those with one of `suffixes` in that directory in order of their names."""
    path = Path(path)
    paths = sorted(p for p in path.iterdir() if p.suffix in suffixes) if path.is_dir() else [path]
    if not paths:
        raise ValueError(f"{path} must hold {' or '.join(suffixes)} files, found none.")
    tables = []
    for each in paths:
        with reading(each):
            tables.append(table := open_table(each))
            _ = table.schema.names  # decoded only now
    return tables
