"""Arrays of targets as places in a list of labels."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from bochner.data.sources.convert import Array, DType
from bochner.data.sources.labels import distinct, given_labels, places_in, refuse_label
from bochner.data.sources.row_arrays import Part, RowArray
from bochner.ops import row_tiles

STEP = 65_536  # targets read at once when labels are looked for
UNKNOWN = -1


def encode_targets(
    parts: Sequence[Part], labels: Sequence[str] | None, stored: tuple[str, ...] | None = None
) -> tuple[list[Part], tuple[str, ...] | None]:
    """The parts with y as places in the labels, and the labels; parts with numbers stay as they are.

    Labels are looked for in one pass over y, unless they are given. `stored` are the labels of y that is places
    already, as `spool` writes it.
    """
    targets = [part.y for part in parts if part.y]
    wanted = None if labels is None else given_labels(labels)
    if stored is not None:
        wanted = wanted or stored
        return [part._replace(y=part.y and PlacesArray(part.y, stored, wanted)) for part in parts], wanted
    if wanted is None and any(is_text(y.dtype) for y in targets):
        wanted = distinct(targets[0].name, (each for y in targets for each in _labels_in(y)))
    if wanted is None or not targets:
        return list(parts), wanted
    return [part._replace(y=part.y and LabelArray(part.y, wanted)) for part in parts], wanted


def is_text(dtype: DType) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind == "U"


class LabelArray:
    """The array `y` [n] of text, or of integers that are looked up as text, as places in `labels`."""

    dtype: DType = np.dtype(np.int64)

    def __init__(self, y: RowArray, labels: tuple[str, ...]) -> None:
        _check_column(y)
        self.name, self.shape = y.name, y.shape
        self._y, self._labels = y, labels

    def read(self, rows: slice) -> Array:
        return places_in(self._labels, _words(self._y, rows), name=self.name, first_row=rows.start)


class PlacesArray:
    """The array `y` [n] of places in the labels `stored`, as places in `wanted`."""

    dtype: DType = np.dtype(np.int64)

    def __init__(self, y: RowArray, stored: tuple[str, ...], wanted: tuple[str, ...]) -> None:
        _check_column(y)
        self.name, self.shape = y.name, y.shape
        places = {label: place for place, label in enumerate(wanted)}
        self._y, self._stored, self._wanted = y, stored, wanted
        self._places = np.array([places.get(label, UNKNOWN) for label in stored])

    def read(self, rows: slice) -> Array:
        stored = np.asarray(self._y.read(rows))
        outside = (stored < 0) | (stored >= len(self._stored))
        if outside.any():
            row = int(outside.argmax())
            raise ValueError(
                f"{self.name} must hold places among its {len(self._stored)} labels, "
                f"but row {rows.start + row} is {stored[row]}."
            )
        places = self._places[stored]
        if (unknown := places == UNKNOWN).any():
            row = int(unknown.argmax())
            refuse_label(self.name, self._stored[stored[row]], rows.start + row, self._wanted)
        return places


def _check_column(y: RowArray) -> None:
    if len(y.shape) != 1:
        raise ValueError(f"{y.name} must have shape [rows] to hold labels, got {y.shape}.")
    if not is_text(y.dtype) and not _is_integer(y.dtype):
        raise ValueError(f"{y.name} must hold text or integers to be looked up in labels, got dtype {y.dtype}.")


def _is_integer(dtype: DType) -> bool:
    if isinstance(dtype, torch.dtype):
        return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)
    return dtype.kind in "iu"


def _labels_in(y: RowArray) -> Iterator[Any]:
    _check_column(y)
    for rows in row_tiles(y.shape[0], row_elements=1, tile_elements=STEP):
        yield np.unique(_words(y, rows)).tolist()


def _words(y: RowArray, rows: slice) -> np.ndarray[Any, Any]:
    words = np.asarray(y.read(rows)).astype(str)
    words = words.astype(words.dtype.newbyteorder("="))
    # A damaged file may hold what is no character, on which Python fails in ways of its own.
    if words.nbytes and words.view(np.uint32).max() > sys.maxunicode:
        raise ValueError(f"{y.name} must hold text, but holds bytes that are none; it is damaged.")
    return words
