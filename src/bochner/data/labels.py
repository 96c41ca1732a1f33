"""Text labels of classes: the labels in a target, targets as indices into them, and the names kept with cached rows."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch

from bochner.data.convert import Array, DType, Part, RowArray
from bochner.ops import row_tiles

# More different texts in a target than this are taken for names or sentences, not classes.
MAX_LABELS = 100_000
# Targets that are read at once when their labels are collected: a few MB of text.
TARGETS_AT_ONCE = 65_536
NAMES_FILE = "names.json"
UNKNOWN = -1


def labels_of(source: object) -> tuple[str, ...] | None:
    """The text labels that y indexes, or None when y holds numbers."""
    return getattr(source, "labels", None)


def column_names_of(source: object) -> tuple[str, ...] | None:
    """The names of the inputs in order, or None when they have none."""
    return getattr(source, "column_names", None)


def distinct(name: str, groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """All labels of all groups, sorted; an error for more than 100,000.

    >>> distinct("y", [["no", "yes"], ["maybe", "no"]])
    ('maybe', 'no', 'yes')
    """
    labels: set[str] = set()
    for group in groups:
        labels.update(group)
        if len(labels) > MAX_LABELS:
            raise ValueError(
                f"{name} must hold class labels or numbers, got text with more than {MAX_LABELS} different values, "
                f"such as {min(labels)!r}; choose another target."
            )
    return tuple(sorted(labels))


def checked_labels(labels: Sequence[str]) -> tuple[str, ...]:
    """`labels` as a tuple, once they are seen to be distinct strings, at least one."""
    words = tuple(labels)
    if isinstance(labels, str) or not words or not all(isinstance(word, str) for word in words):
        raise ValueError(f"labels must be a sequence of strings, got {labels!r}.")
    if len(set(words)) < len(words):
        raise ValueError(f"labels must differ from each other, got {abbreviated(words)}.")
    return tuple(map(str, words))


def encode_labels(
    labels: Sequence[str], values: np.ndarray[Any, Any], *, name: str, first_row: int
) -> np.ndarray[Any, Any]:
    """The index in `labels` [C] of each of `values` [n], int64 [n]. O(n log C).

    >>> encode_labels(("b", "a"), np.array(["a", "b", "a"]), name="y", first_row=0)
    array([1, 0, 1])
    """
    words = np.array(labels)
    order = np.argsort(words)
    codes = order[np.searchsorted(words, values, sorter=order).clip(max=len(words) - 1)]
    unknown = words[codes] != values
    if unknown.any():
        row = int(unknown.argmax())
        refuse_label(name, str(values[row]), first_row + row, labels)
    return codes


def refuse_label(name: str, label: str, row: int, labels: Sequence[str]) -> NoReturn:
    raise ValueError(f"{name} must hold the labels {abbreviated(labels)} only, but row {row} is {label!r}.")


def abbreviated(words: Sequence[object]) -> str:
    """The first 20 of `words`, and their number if there are more."""
    first = ", ".join(map(repr, words[:20]))
    return f"[{first}]" if len(words) <= 20 else f"[{first}, ... {len(words)} in all]"


# -- targets of arrays -------------------------------------------------------------------------------------------------


def encode_targets(
    parts: Sequence[Part], labels: Sequence[str] | None, stored: tuple[str, ...] | None = None
) -> tuple[list[Part], tuple[str, ...] | None]:
    """The parts with y as indices into the labels, and the labels; parts with numbers stay as they are.

    Labels that are not given are collected in one pass over y. `stored` are the labels of a y that holds indices
    already, as `cache_to_disk` writes it.
    """
    targets = [part.y for part in parts if part.y]
    known = None if labels is None else checked_labels(labels)
    if stored is not None:
        known = known or stored
        return [part._replace(y=part.y and ReindexedArray(part.y, stored, known)) for part in parts], known
    if known is None and any(_is_text(y.dtype) for y in targets):
        known = distinct(targets[0].name, (labels for y in targets for labels in _collect_labels(y)))
    if known is None or not targets:
        return list(parts), known
    return [part._replace(y=part.y and LabelArray(part.y, known)) for part in parts], known


class LabelArray:
    """The array `y` [n] of text, or of integers that are looked up as text, as indices into `labels`."""

    dtype: DType = np.dtype(np.int64)

    def __init__(self, y: RowArray, labels: tuple[str, ...]) -> None:
        _check_labels_fit(y)
        self.name, self.shape = y.name, y.shape
        self._y, self._labels = y, labels

    def read(self, rows: slice) -> Array:
        return encode_labels(self._labels, _read_text(self._y, rows), name=self.name, first_row=rows.start)


class ReindexedArray:
    """The array `y` [n] of indices into the labels `stored`, as indices into `labels`."""

    dtype: DType = np.dtype(np.int64)

    def __init__(self, y: RowArray, stored: tuple[str, ...], labels: tuple[str, ...]) -> None:
        _check_labels_fit(y)
        self.name, self.shape = y.name, y.shape
        new = {label: index for index, label in enumerate(labels)}
        self._y, self._stored, self._labels = y, stored, labels
        self._new_index = np.array([new.get(label, UNKNOWN) for label in stored])

    def read(self, rows: slice) -> Array:
        stored = np.asarray(self._y.read(rows))
        outside = (stored < 0) | (stored >= len(self._stored))
        if outside.any():
            row = int(outside.argmax())
            raise ValueError(
                f"{self.name} must hold indices of its {len(self._stored)} labels, "
                f"but row {rows.start + row} is {stored[row]}."
            )
        codes = self._new_index[stored]
        if (unknown := codes == UNKNOWN).any():
            row = int(unknown.argmax())
            refuse_label(self.name, self._stored[stored[row]], rows.start + row, self._labels)
        return codes


def _is_text(dtype: DType) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind == "U"


def _check_labels_fit(y: RowArray) -> None:
    if len(y.shape) != 1:
        raise ValueError(f"{y.name} must have shape [rows] to hold labels, got {y.shape}.")
    if isinstance(y.dtype, torch.dtype):
        is_integer = not (y.dtype.is_floating_point or y.dtype.is_complex or y.dtype == torch.bool)
    else:
        is_integer = y.dtype.kind in "iu"
    if not _is_text(y.dtype) and not is_integer:
        raise ValueError(f"{y.name} must hold text or integers to be looked up in labels, got dtype {y.dtype}.")


def _collect_labels(y: RowArray) -> Iterator[list[str]]:
    _check_labels_fit(y)
    for rows in row_tiles(y.shape[0], row_elements=1, tile_elements=TARGETS_AT_ONCE):
        yield np.unique(_read_text(y, rows)).tolist()


def _read_text(y: RowArray, rows: slice) -> np.ndarray[Any, Any]:
    words = np.asarray(y.read(rows)).astype(str)
    words = words.astype(words.dtype.newbyteorder("="))
    # A damaged file may hold numbers that are no code points, on which Python fails in several ways.
    if words.nbytes and words.view(np.uint32).max() > sys.maxunicode:
        raise ValueError(f"{y.name} must hold text, but holds invalid code points; it is damaged.")
    return words


# -- names of cached rows ----------------------------------------------------------------------------------------------


class StoredNames(NamedTuple):
    """The labels of the targets and the names of the inputs in a directory of cached rows."""

    labels: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None


def write_names(directory: Path, names: StoredNames) -> None:
    if names != StoredNames():
        (directory / NAMES_FILE).write_text(json.dumps(names._asdict()), encoding="utf-8")


def read_names(directory: Path) -> StoredNames:
    """The names in `directory`, or none when it has no such file."""
    path = directory / NAMES_FILE
    if not path.exists():
        return StoredNames()
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        values = [stored[field] for field in StoredNames._fields]
        for value in values:
            if value is not None and not (isinstance(value, list) and all(isinstance(word, str) for word in value)):
                raise TypeError(f"expected a list of strings, got {value!r}")
        return StoredNames(*(None if value is None else tuple(value) for value in values))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read as the names of cached rows: {error!r}.") from error
