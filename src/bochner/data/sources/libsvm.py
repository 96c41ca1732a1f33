"""LIBSVM (SVMlight) text: `label index:value index:value ...`, one row a line."""

from __future__ import annotations

import os
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_svmlight_file

from bochner import checks
from bochner.data.blocks import Block
from bochner.data.sources.convert import Names, checked


class LibsvmSource:
    """The rows of a LIBSVM file as dense float32 blocks.

    Indices count from 1 and rise along a line; what follows `#` and any `qid:` is ignored. Labels are int64 when every
    one in the file is a whole number, else float64. `num_inputs` is the largest index unless it is given.

    Opening parses the file once, in O(bytes) time and the memory of one shard, to find where shards begin; a shard then
    takes O(its bytes + shard_rows d). The last line must end in a newline, since a file cut short inside a line would
    otherwise pass for a whole one.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.libsvm")
    ...     _ = path.write_text("+1 1:0.5 3:2\\n-1 2:1  # a comment\\n")
    ...     LibsvmSource(path).read(0)
    Block(X=tensor([[0.5000, 0.0000, 2.0000],
            [0.0000, 1.0000, 0.0000]]), y=tensor([ 1, -1]), weight=None)
    """

    def __init__(self, path: str | os.PathLike[str], *, num_inputs: int | None = None, shard_rows: int = 8192) -> None:
        self.path = Path(path)
        lines = checks.positive_int("shard_rows", shard_rows)
        if num_inputs is not None:
            checks.positive_int("num_inputs", num_inputs)
        scanned = self._scan(lines)
        if not scanned:
            raise ValueError(f"{path} must have at least one row, got none.")
        widest = max(scanned, key=lambda shard: shard.num_inputs)
        if num_inputs is not None and widest.num_inputs > num_inputs:
            raise ValueError(
                f"num_inputs must be at least the largest index in {path}, {widest.num_inputs}, got {num_inputs}."
            )
        self.num_inputs = num_inputs or max(1, widest.num_inputs)
        self.shard_sizes = [shard.rows for shard in scanned]
        self._shards = scanned
        self._y_type = torch.int64 if all(shard.whole for shard in scanned) else torch.float64

    def read(self, shard: int) -> Block:
        found = self._shards[shard]
        with self.path.open("rb") as file:
            file.seek(found.offset)
            text = file.read(found.length)
        try:
            X, y = _parse(text)
            if (len(y), X.shape[1]) != (found.rows, found.num_inputs):
                raise ValueError("other rows than when it was opened")
        except ValueError as error:
            raise ValueError(f"{self.path} was changed while in use: {error}") from error
        dense = torch.zeros(len(y), self.num_inputs)
        dense[:, : X.shape[1]] = torch.from_numpy(X.toarray())
        names = Names(f"{self.path}: X", f"{self.path}: y")
        return checked(Block(dense, torch.from_numpy(y).to(self._y_type)), names, first_row=found.first_row)

    def _scan(self, lines: int) -> list[_Shard]:
        shards: list[_Shard] = []
        offset = first_line = first_row = 0
        with self.path.open("rb") as file:
            while text := list(islice(file, lines)):
                X, y = self._parse_lines(text, first_line)
                length = sum(map(len, text))
                if len(y):
                    whole = bool(np.all(np.floor(y) == y)) and float(np.abs(y).max()) < 2**53
                    shards.append(_Shard(offset, length, first_row, len(y), X.shape[1], whole))
                offset, first_line, first_row = offset + length, first_line + len(text), first_row + len(y)
        return shards

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
    return X[:, 1:], y
