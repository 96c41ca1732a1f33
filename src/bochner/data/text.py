"""Text files: CSV, and LIBSVM (SVMlight) with one row `label index:value index:value ...` per line."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_svmlight_file
from torch import Tensor

from bochner import checks
from bochner.data.arrays import check_finite, checked, dense, resolve_shard_rows
from bochner.data.blocks import Block
from bochner.data.columns import Roles, assign_roles, labels_in, pyarrow, reading
from bochner.data.compressed import decompressed, is_compressed
from bochner.data.labels import checked_labels
from bochner.data.table_files import is_index
from bochner.data.text_format import detect_format, utf8_file
from bochner.remote import RemotePath, path_of

# Dtypes of a numeric target in a CSV file with their names in pyarrow, in the order in which they are tried.
NUMBERS = {torch.int64: "int64", torch.float64: "float64"}
MAX_INPUTS = 2**26  # a dense row of 256 MiB; a larger index is most likely an error in the file
TEXT_BYTES = 8 * 2**20  # parsed at once, except for a longer line


class CsvBlocks:
    """The rows of a CSV file from first to last, about a megabyte of text at a time; see `cache_to_disk`.

    Inputs are float64. The target is read as text, without surrounding spaces: int64 if all of it are integers, float64
    if all are numbers, else indices into `labels`, by default all of them sorted. To decide, opening reads the target
    once. Fields that are empty or NA are missing, which is an error; in quotes they are text. A file may be compressed
    (.gz, .bz2, .xz). Separator, encoding and decimal sign are detected unless they are given. An index of pandas, a
    first column without a name, is not an input.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory, "t.csv")
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
        ignore: Sequence[str] = (),
        sep: str | None = None,
        encoding: str | None = None,
        decimal: str | None = None,
    ) -> None:
        self.path = Path(path)
        if not self.path.exists():
            raise FileNotFoundError(f"{path} does not exist.")
        self.format = detect_format(self.path, sep=sep, encoding=encoding, decimal=decimal)
        schema = self._schema(target)
        index = [
            name for j, name in enumerate(schema.names) if is_index(j, name.strip()) and name not in (columns or ())
        ]
        roles = assign_roles(
            {self.path: schema},
            target=target,
            columns=columns,
            ignore=[*ignore, *index],
            weight=weight,
            labels=None if labels is None else checked_labels(labels),
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
        """Names and types of the columns, from the first megabyte."""
        with reading(self.path), self._open({} if target is None else {target: "string"}) as reader:
            if not any(len(batch) for batch in reader):
                raise ValueError(f"{self.path} must have at least one row below its header line, got none.")
            _ = reader.schema.names  # decoded only now
            return reader.schema

    def _with_target_type(self, roles: Roles) -> Roles:
        """The narrowest type that fits all targets; a trial ends at the first that does not fit, usually early."""
        if roles.target is None or roles.labels is not None:
            return roles
        for dtype, name in NUMBERS.items():
            if all(_fits(words, name) for words in self._targets(roles.target)):
                return roles._replace(y_type=dtype)
        column = f"{self.path}: column {roles.target!r}"
        return roles._replace(labels=labels_in(column, self._targets(roles.target)))

    def _targets(self, target: str) -> Iterator[Any]:
        return (_trimmed(batch.column(0)) for batch in self._read([target], target))

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
            decimal_point=self.format.decimal,
        )
        parse = csv.ParseOptions(delimiter=self.format.sep, quote_char=self.format.quote)
        read = csv.ReadOptions(skip_rows=self.format.first_line)
        with (
            utf8_file(self.path, self.format.encoding) as path,
            _stream(path) as file,
            csv.open_csv(file, read_options=read, parse_options=parse, convert_options=convert) as reader,
        ):
            yield reader


@contextmanager
def _stream(path: Path) -> Iterator[Any]:
    """The decompressed bytes by pyarrow's own readers: its threads abort a process that exits while they hold a Python
    file."""
    pa = pyarrow()
    with pa.OSFile(str(path)) as file:
        kind = {".gz": "gzip", ".bz2": "bz2"}.get(path.suffix.lower())
        yield file if kind is None else pa.CompressedInputStream(file, kind)


def _trimmed(column: Any) -> Any:
    return pyarrow("compute").utf8_trim_whitespace(column)


def _fits(words: Any, kind: str) -> bool:
    try:
        words.cast(kind)
    except pyarrow().ArrowInvalid:
        return False
    return True


def _with_target(table: Any, roles: Roles) -> Any:
    """`table` with the text of its target as numbers, if the target of the file is numeric."""
    if roles.target is None:
        return table
    words = _trimmed(table[roles.target])
    values = words if roles.labels is not None else words.cast(NUMBERS[roles.y_type])
    return table.set_column(table.column_names.index(roles.target), roles.target, values)


class LibsvmSource:
    """The rows of a LIBSVM file as dense float32 blocks.

    Indices count from 1 and increase along a line; comments after `#` and `qid:` are ignored. Labels are int64 if all
    of them are integers, else float64. `num_inputs` is by default the largest index.

    Opening parses the file once, in O(bytes) time and the memory of 8 MiB of text, to find where shards begin; reading
    a shard then takes O(its bytes + shard_rows d). A file so wide that 8192 dense rows exceed 32 MiB has shorter
    shards, and is parsed twice to find them unless `num_inputs` is given. A compressed file (.gz, .bz2, .xz) is
    decompressed into a temporary file, which is removed with the source.

    The last line must end in a newline: otherwise a file truncated inside a line would pass for a complete one.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory, "a.libsvm")
    ...     _ = path.write_text("+1 1:0.5 3:2\\n-1 2:1  # a comment\\n")
    ...     LibsvmSource(path).read(0)
    Block(X=tensor([[0.5000, 0.0000, 2.0000],
            [0.0000, 1.0000, 0.0000]]), y=tensor([ 1, -1]), weight=None)
    """

    def __init__(
        self, path: str | os.PathLike[str] | RemotePath, *, num_inputs: int | None = None, shard_rows: int | None = None
    ) -> None:
        self.path = path_of(path)
        if num_inputs is not None:
            checks.positive_int("num_inputs", num_inputs)
        self._text = self.path
        if is_compressed(self.path):
            self._text = decompressed(self.path)
            weakref.finalize(self, self._text.unlink, missing_ok=True)
        self._shards = self._cut(num_inputs, shard_rows)
        widest = max(shard.num_inputs for shard in self._shards)
        if num_inputs is not None and widest > num_inputs:
            raise ValueError(f"num_inputs must be at least the largest index in {path}, {widest}, got {num_inputs}.")
        if num_inputs is None and widest > MAX_INPUTS:
            raise ValueError(
                f"{path} has an index {widest}, and rows are dense; give num_inputs={widest} if it is right."
            )
        self.num_inputs = num_inputs or max(1, widest)
        self.shard_sizes = [shard.rows for shard in self._shards]
        self._y_type = torch.int64 if all(shard.whole for shard in self._shards) else torch.float64

    def read(self, shard: int) -> Block:
        X, y = self._read(shard)
        block = Block(torch.from_numpy(dense(X, self.num_inputs)), y)
        names = [f"{self.path}: {part}" for part in Block._fields]
        return checked(block, names, first_row=self._shards[shard].first_row)

    def read_targets(self, shard: int) -> Tensor:
        """y of a shard, without dense rows."""
        return check_finite(self._read(shard)[1], f"{self.path}: y", first_row=self._shards[shard].first_row)

    def _read(self, shard: int) -> tuple[Any, Tensor]:
        offset, length, _, rows, num_inputs, _ = self._shards[shard]
        with self._text.open("rb") as file:
            file.seek(offset)
            text = file.read(length)
        try:
            X, y = _parse(text)
            if (len(y), X.shape[1]) != (rows, num_inputs):
                raise ValueError("other rows than when it was opened")
        except ValueError as error:
            raise ValueError(f"{self.path} was changed while in use: {error}") from error
        return X, torch.from_numpy(y).to(self._y_type)

    def _cut(self, num_inputs: int | None, shard_rows: int | None) -> list[_Shard]:
        """The shards, divided again if the width of the file requires shorter ones."""
        lines = resolve_shard_rows(shard_rows, row_bytes=4 * (num_inputs or 1))
        shards = list(self._scan(lines))
        if not shards:
            raise ValueError(f"{self.path} must have at least one row, got none.")
        widest = num_inputs or max(shard.num_inputs for shard in shards)
        fewer = resolve_shard_rows(shard_rows, row_bytes=4 * widest)
        return shards if fewer == lines else list(self._scan(fewer))

    def _scan(self, lines: int) -> Iterator[_Shard]:
        offset = first_line = first_row = 0
        with self._text.open("rb") as file:
            for text in _pieces(file, lines):
                X, y = self._parse_lines(text, first_line)
                length = sum(map(len, text))
                if len(y):
                    whole = bool(np.all(np.floor(y) == y)) and float(np.abs(y).max()) < 2**53
                    yield _Shard(offset, length, first_row, len(y), X.shape[1], whole)
                offset, first_line, first_row = offset + length, first_line + len(text), first_row + len(y)

    def _parse_lines(self, text: list[bytes], first_line: int) -> tuple[Any, np.ndarray[Any, Any]]:
        try:
            return _parse(b"".join(text))
        except ValueError:
            for number, line in enumerate(text, first_line + 1):
                try:
                    _parse(line)
                except ValueError as error:
                    raise ValueError(f"{self.path}, line {number}: {error}") from error
            raise


class _Shard(NamedTuple):
    offset: int
    length: int
    first_row: int
    rows: int
    num_inputs: int
    whole: bool


def _pieces(file: IO[bytes], lines: int) -> Iterator[list[bytes]]:
    """At most `lines` lines at a time, and no more than fit into `TEXT_BYTES`."""
    while text := file.readlines(TEXT_BYTES):
        for start in range(0, len(text), lines):
            yield text[start : start + lines]


def _parse(text: bytes) -> tuple[Any, np.ndarray[Any, Any]]:
    """Sparse X [n, largest index] and labels [n]."""
    if not text.endswith(b"\n"):
        raise ValueError("the file ends inside this line; if it is complete, end it with a newline")
    try:
        X, y = load_svmlight_file(BytesIO(text), dtype=np.float32, zero_based=True)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"it is not 'label index:value ...': {error}") from error
    if len(X.indices) and X.indices.min() == 0:
        raise ValueError("it has the index 0, but indices count from 1")
    X.indices -= 1
    X.resize(len(y), X.shape[1] - 1)
    return X, y
