"""Kaldi's binary format, read token by token."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Cursor:
    """A place in the bytes of a file of Kaldi's; what is not there is an error, and no size is believed beyond them.

    >>> cursor = Cursor(b"<Some> " + struct.pack("<bi", 4, 7))
    >>> cursor.token(), cursor.integer()
    ('<Some>', 7)
    """

    def __init__(self, content: bytes, place: int = 0) -> None:
        self.content, self.place = content, place

    def token(self) -> str:
        end = self.content.index(b" ", self.place)
        start, self.place = self.place, end + 1
        return self.content[start:end].decode("ascii")

    def expect(self, token: str) -> None:
        if (found := self.token()) != token:
            raise ValueError(f"expected {token}, got {found[:20]!r}")

    def integer(self) -> int:
        return int(self._sized("<bi", 5)[1])

    def unsigned(self) -> int:
        return int(self._sized("<bI", 5)[1])

    def real(self) -> float:
        """A float32 or float64; the byte before it says which."""
        wide = self.content[self.place] == 8
        return float(self._sized("<bd", 9)[1] if wide else self._sized("<bf", 5)[1])

    def integers(self) -> list[int]:
        _, count = self._sized("<bi", 5)
        return list(self._sized(f"<{count}i", 4 * count))

    def vector(self) -> Array:
        dtype = np.dtype({"FV": "<f4", "DV": "<f8"}[self.token()])
        count = self.integer()
        start, self.place = self.place, self.place + count * dtype.itemsize
        return np.frombuffer(self.content[start : self.place], dtype=dtype).astype(np.float64)

    def _sized(self, layout: str, size: int) -> tuple[Any, ...]:
        start, self.place = self.place, self.place + size
        return struct.unpack(layout, self.content[start : self.place])
