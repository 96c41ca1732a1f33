"""Text labels of classes, and the names that are stored with cached rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

# With more different texts, a target is assumed to hold names or sentences, not classes.
MAX_LABELS = 100_000
NAMES_FILE = "names.json"


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
    """Check that `labels` are distinct strings, at least one, and return them as a tuple."""
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
