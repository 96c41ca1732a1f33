"""LIBSVM (SVMlight) text: `label index:value index:value ...`, one row a line."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_svmlight_file
from torch import Tensor

from bochner import checks
from bochner.data.blocks import Block
from bochner.data.sources.compressed import decompressed, is_compressed
from bochner.data.sources.convert import Names, check_finite, checked
from bochner.data.sources.sizes import rows_per_shard
from bochner.data.sources.sparse import dense

MOST_INPUTS = 2**26  # a dense row of 256 MiB; a larger index is a slip, or malice
TEXT_BYTES = 8 * 2**20  # parsed at once, at most, but for a longer line


class LibsvmSource:
    """The rows of a LIBSVM file as dense float32 blocks.

    Indices count from 1 and rise along a line; what follows `#` and any `qid:` is ignored. Labels are int64 when every
    one in the file is a whole number, else float64. `num_inputs` is the largest index unless it is given.

    Opening parses the file once, in O(bytes) time and the memory of 8 MiB of text, to find where shards begin; a shard
    then takes O(its bytes + shard_rows d). A file so wide that 8192 dense rows are more than 32 MiB has shorter shards,
    and is parsed twice to find them unless `num_inputs` is given. A compressed file (.gz, .bz2, .xz) is decompressed
    once into a temporary file, which goes with the source.

    The last line must end in a newline, since a file cut short inside a line would otherwise pass for a whole one.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.libsvm")
    ...     _ = path.write_text("+1 1:0.5 3:2\\n-1 2:1  # a comment\\n")
    ...     LibsvmSource(path).read(0)
    Block(X=tensor([[0.5000, 0.0000, 2.0000],
            [0.0000, 1.0000, 0.0000]]), y=tensor([ 1, -1]), weight=None)
    """

    def __init__(
        self, path: str | os.PathLike[str], *, num_inputs: int | None = None, shard_rows: int | None = None
    ) -> None:
        self.path = Path(path)
        if num_inputs is not None:
            checks.positive_int("num_inputs", num_inputs)
        self._text = _plain_text(self)
        self._shards = self._cut(num_inputs, shard_rows)
        widest = max(shard.num_inputs for shard in self._shards)
        if num_inputs is not None and widest > num_inputs:
            raise ValueError(f"num_inputs must be at least the largest index in {path}, {widest}, got {num_inputs}.")
        if num_inputs is None and widest > MOST_INPUTS:
            raise ValueError(
                f"{path} has an index {widest}, and rows are dense; give num_inputs={widest} if you mean it."
            )
        self.num_inputs = num_inputs or max(1, widest)
        self.shard_sizes = [shard.rows for shard in self._shards]
        self._y_type = torch.int64 if all(shard.whole for shard in self._shards) else torch.float64

    def read(self, shard: int) -> Block:
        X, y = self._read(shard)
        block = Block(torch.from_numpy(dense(X, self.num_inputs)), y)
        names = Names(f"{self.path}: X", f"{self.path}: y")
        return checked(block, names, first_row=self._shards[shard].first_row)

    def read_targets(self, shard: int) -> Tensor:
        """y of a shard alone: no row is made dense."""
        return check_finite(self._read(shard)[1], f"{self.path}: y", first_row=self._shards[shard].first_row)

    def _read(self, shard: int) -> tuple[Any, Tensor]:
        found = self._shards[shard]
        with self._text.open("rb") as file:
            file.seek(found.offset)
            text = file.read(found.length)
        try:
            X, y = _parse(text)
            if (len(y), X.shape[1]) != (found.rows, found.num_inputs):
                raise ValueError("other rows than when it was opened")
        except ValueError as error:
            raise ValueError(f"{self.path} was changed while in use: {error}") from error
        return X, torch.from_numpy(y).to(self._y_type)

    def _cut(self, num_inputs: int | None, shard_rows: int | None) -> list[_Shard]:
        """The shards, cut anew when the width that was found asks for shorter ones."""
        lines = rows_per_shard(shard_rows, row_bytes=4 * (num_inputs or 1))
        shards = list(self._scan(lines))
        if not shards:
            raise ValueError(f"{self.path} must have at least one row, got none.")
        widest = num_inputs or max(shard.num_inputs for shard in shards)
        fewer = rows_per_shard(shard_rows, row_bytes=4 * widest)
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


def _plain_text(source: LibsvmSource) -> Path:
    if not is_compressed(source.path):
        return source.path
    text = decompressed(source.path)
    weakref.finalize(source, text.unlink, missing_ok=True)
    return text


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
