"""Comma-separated text with a header line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from bochner.data.blocks import Block
from bochner.data.sources.columns import Roles, assign_roles, labels_in, pyarrow, reading
from bochner.data.sources.compressed import decompressed
from bochner.data.sources.labels import given_labels

NUMBERS = {torch.int64: "int64", torch.float64: "float64"}


class CsvBlocks:
    """The rows of a CSV file from first to last, about a megabyte of text at a time; `spool` makes a source of them.

    Inputs are float64. The target is read as text, without spaces around it: int64 when all of it are whole numbers,
    float64 when all are numbers, else places in `labels`, which are all of them sorted or those that are given. To know
    which, opening reads the file once for its target. Fields that are empty or NA are missing, which is refused;
    in quotes they are text. A file may be compressed (.gz, .bz2, .xz).

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "t.csv")
    ...     _ = path.write_text("a,b,y\\n1,2,yes\\n3,4,no\\n")
    ...     blocks = CsvBlocks(path, target="y")
    ...     blocks.labels, next(iter(blocks))
    (('no', 'yes'), Block(X=tensor([[1., 2.],
            [3., 4.]], dtype=torch.float64), y=tensor([1, 0]), weight=None))
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        target: str | None = None,
        columns: Sequence[str] | None = None,
        weight: str | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        self.path = Path(path)
        roles = assign_roles(
            {self.path: self._schema(target)},
            target=target,
            columns=columns,
            weight=weight,
            labels=None if labels is None else given_labels(labels),
        )
        self._roles = self._with_target_type(roles._replace(X_type=torch.float64, weight_type=torch.float64))
        self.labels, self.column_names = self._roles.labels, self._roles.inputs

    def __iter__(self) -> Iterator[Block]:
        roles, first_row = self._roles, 0
        for batch in self._read(roles.names, roles.target):
            table = pyarrow().Table.from_batches([batch])
            yield roles.block(_with_target(table, roles), self.path, first_row)
            first_row += len(batch)

    def _schema(self, target: str | None) -> Any:
        """Names and types of the columns, as the first megabyte has them."""
        with reading(self.path), self._open({} if target is None else {target: "string"}) as reader:
            if not any(len(batch) for batch in reader):
                raise ValueError(f"{self.path} must have at least one row below its header line, got none.")
            _ = reader.schema.names  # decoded only now
            return reader.schema

    def _with_target_type(self, roles: Roles) -> Roles:
        """The narrowest type that all targets fit: the first that does not ends a trial, most often at once."""
        if roles.target is None or roles.labels is not None:
            return roles
        for dtype, name in NUMBERS.items():
            if all(_fits(words, name) for words in self._targets(roles.target)):
                return roles._replace(y_type=dtype)
        column = f"{self.path}: column {roles.target!r}"
        return roles._replace(labels=labels_in(column, self._targets(roles.target)))

    def _targets(self, target: str) -> Iterator[Any]:
        return (_words(batch.column(0)) for batch in self._read([target], target))

    def _read(self, names: Sequence[str], target: str | None) -> Iterator[Any]:
        types = {name: "string" if name == target else "float64" for name in names}
        with reading(self.path), self._open(types, names) as reader:
            yield from reader

    @contextmanager
    def _open(self, types: dict[str, str], names: Sequence[str] | None = None) -> Iterator[Any]:
        csv = pyarrow("csv")
        convert = csv.ConvertOptions(
            column_types={name: pyarrow().type_for_alias(kind) for name, kind in types.items()},
            include_columns=names,
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        with _stream(self.path) as file, csv.open_csv(file, convert_options=convert) as reader:
            yield reader


@contextmanager
def _stream(path: Path) -> Iterator[Any]:
    """The file's bytes, decompressed, by pyarrow's own readers: its threads abort a process that ends while they hold a
    Python file."""
    suffix, pa = path.suffix.lower(), pyarrow()
    if suffix == ".xz":  # which pyarrow cannot read
        plain = decompressed(path)
        try:
            with pa.OSFile(str(plain)) as file:
                yield file
        finally:
            plain.unlink()
        return
    with pa.OSFile(str(path)) as file:
        kind = {".gz": "gzip", ".bz2": "bz2"}.get(suffix)
        yield file if kind is None else pa.CompressedInputStream(file, kind)


def _words(column: Any) -> Any:
    return pyarrow("compute").utf8_trim_whitespace(column)


def _fits(words: Any, kind: str) -> bool:
    try:
        words.cast(kind)
    except pyarrow().ArrowInvalid:
        return False
    return True


def _with_target(table: Any, roles: Roles) -> Any:
    """`table` with the text of its target as numbers, where all the file's are."""
    if roles.target is None:
        return table
    words = _words(table[roles.target])
    values = words if roles.labels is not None else words.cast(NUMBERS[roles.y_type])
    return table.set_column(table.column_names.index(roles.target), roles.target, values)
