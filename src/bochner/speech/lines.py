"""Text files, line by line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def numbered_lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, str]]:
    """(1, first line), (2, second line), ... of a file in UTF-8; what is not UTF-8 is an error that names the line.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "names.txt")
    ...     _ = file.write_bytes(b"ann\\nbob\\n")
    ...     list(numbered_lines(file))
    [(1, 'ann'), (2, 'bob')]
    """
    for number, line in enumerate(Path(path).read_bytes().splitlines(), start=1):
        try:
            yield number, line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}, line {number}, is not UTF-8: {error}.") from error
