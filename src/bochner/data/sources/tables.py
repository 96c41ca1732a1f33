"""Tables with named columns, whatever file they come from."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from bochner import checks
from bochner.data.blocks import Block
from bochner.data.sources.convert import Names, checked, input_type, no_targets, number_type, target_type, to_tensor
from bochner.ops import row_tiles


def pyarrow(module: str = "") -> Any:
    """`pyarrow` or one of its modules, imported when it is first needed."""
    try:
        return importlib.import_module(f"pyarrow.{module}".rstrip("."))
    except ModuleNotFoundError as error:
        raise ImportError("Parquet, Arrow and CSV files need pyarrow: pip install bochner[parquet]") from error


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Errors of pyarrow as a ValueError that names the file."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    try:
        yield
    except (pyarrow().ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


class Roles(NamedTuple):
    """Which columns are inputs, target and weight, and the types they become."""

    inputs: tuple[str, ...]
    target: str | None
    weight: str | None
    X_type: torch.dtype = torch.float32
    y_type: torch.dtype = torch.int64
    weight_type: torch.dtype = torch.float32

    @property
    def names(self) -> list[str]:
        return [*self.inputs, *(name for name in (self.target, self.weight) if name is not None)]

    def block(self, table: Any, path: Path, first_row: int) -> Block:
        """Rows of a pyarrow table as a checked block."""
        for name in self.names:
            if table[name].null_count:
                row = first_row + pyarrow("compute").index(table[name].is_null(), True).as_py()
                raise ValueError(f"{path}: column {name!r} must not hold nulls, but row {row} does.")
        X = torch.empty(len(table), len(self.inputs), dtype=self.X_type)
        for j, name in enumerate(self.inputs):
            X[:, j] = to_tensor(table[name].to_numpy(), self.X_type)
        y = no_targets(len(X)) if self.target is None else to_tensor(table[self.target].to_numpy(), self.y_type)
        weight = None if self.weight is None else to_tensor(table[self.weight].to_numpy(), self.weight_type)
        names = Names(f"{path}: X", f"{path}: column {self.target!r}", f"{path}: column {self.weight!r}")
        return checked(Block(X, y, weight), names, first_row=first_row, columns=self.inputs)


def assign_roles(
    schemas: dict[Path, Any], *, target: str | None, columns: Sequence[str] | None, weight: str | None
) -> Roles:
    """The roles of columns that all `schemas` have, in the first one's order; by default all others are inputs."""
    first, schema = next(iter(schemas.items()))
    inputs = [name for name in schema.names if name not in (target, weight)] if columns is None else list(columns)
    if not inputs:
        raise ValueError(f"{first} must have at least one column of inputs, has {schema.names}.")
    if clash := {target, weight} & set(inputs):
        raise ValueError(f"columns must not name the target or the weight, but names {sorted(map(str, clash))}.")
    roles = Roles(tuple(inputs), target, weight)
    types = {name: [_type(path, schema, name) for path, schema in schemas.items()] for name in roles.names}
    return roles._replace(
        X_type=input_type(dtype for name in inputs for dtype in types[name]),
        y_type=target_type(types[target] if target is not None else []),
        weight_type=input_type(types[weight] if weight is not None else []),
    )


def _type(path: Path, schema: Any, name: str) -> torch.dtype:
    if schema.names.count(name) != 1:
        raise ValueError(f"{path} must have one column {name!r}, its columns are {schema.names}.")
    kind, types = schema.field(name).type, pyarrow("types")
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        raise ValueError(f"{path}: column {name!r} must hold numbers, got type {kind}; encode it or leave it out.")
    return number_type(name, np.dtype(kind.to_pandas_dtype()))


class Table(Protocol):
    """A file whose rows come in groups."""

    @property
    def path(self) -> Path: ...

    @property
    def schema(self) -> Any: ...

    @property
    def group_sizes(self) -> Sequence[int]: ...

    def read(self, group: int, rows: slice, columns: Sequence[str]) -> Any: ...


class TableSource:
    """The rows of tables, one after the other; a group of rows is one shard, or several of `shard_rows` at most."""

    def __init__(
        self,
        tables: Sequence[Table],
        *,
        target: str | None,
        columns: Sequence[str] | None,
        weight: str | None,
        shard_rows: int,
    ) -> None:
        rows = checks.positive_int("shard_rows", shard_rows)
        schemas = {table.path: table.schema for table in tables}
        self.roles = assign_roles(schemas, target=target, columns=columns, weight=weight)
        self._shards = [shard for table in tables for shard in _shards(table, rows)]
        if not self._shards:
            raise ValueError(f"{tables[0].path} must have at least one row, got none.")
        self.num_inputs = len(self.roles.inputs)
        self.shard_sizes = [shard.rows.stop - shard.rows.start for shard in self._shards]

    def read(self, shard: int) -> Block:
        table, group, rows, first_row = self._shards[shard]
        with reading(table.path):
            found = table.read(group, rows, self.roles.names)
        if len(found) != self.shard_sizes[shard]:
            raise ValueError(f"{table.path} was changed while in use: it has other rows than when it was opened.")
        return self.roles.block(found, table.path, first_row)


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
