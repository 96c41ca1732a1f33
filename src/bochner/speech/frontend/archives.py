"""Matrices in Kaldi's archives."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from bochner.speech.frontend.arrays import Array

BINARY = b"\0B"
TEXT = re.compile(rb"\s*\[")


def read_matrix(place: str | Path) -> Array:
    """The matrix at "file.ark:offset", binary, compressed or text: float32 [T, d].

    Only Kaldi's own formats: kaldiio alone would also run a path that ends in | as a command, and unpickle.
    """
    path, colon, offset = str(place).rpartition(":")
    if not colon or not offset.isdecimal():
        raise ValueError(f"frames must lie at file.ark:offset, got {place}.")
    with Path(path).open("rb") as file:
        file.seek(int(offset))
        head = file.read(16)
        file.seek(int(offset))
        if not (head.startswith(BINARY) or TEXT.match(head)):
            raise ValueError(f"{place} does not hold a matrix: it begins with {head[:8]!r}.")
        try:
            matrix: Array = np.asarray(_reader(head)(file), np.float32)
        except Exception as error:  # kaldiio asserts and unpacks what it reads
            raise ValueError(f"{place} cannot be read as a matrix: {error!r}.") from error
    if matrix.ndim != 2:
        raise ValueError(f"{place} must hold a matrix [T, d], got shape {list(matrix.shape)}.")
    return matrix


def _reader(head: bytes) -> Any:
    try:
        from kaldiio import matio
    except ImportError as error:
        raise ImportError("Kaldi archives need kaldiio: pip install bochner[speech].") from error
    return matio.read_matrix_or_vector if head.startswith(BINARY) else matio.read_ascii_mat
