"""What a directory of cached rows knows of them: the labels of its targets and the names of its inputs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

MAX_LABELS = 100_000


def labels_of(source: object) -> tuple[str, ...] | None:
    """The text that y are places in, or None when y are numbers."""
    return getattr(source, "labels", None)


def column_names_of(source: object) -> tuple[str, ...] | None:
    """The names of the inputs in their order, or None when they have none."""
    return getattr(source, "column_names", None)


def distinct(name: str, groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """All labels of all groups, sorted; more than 100,000 are taken for names or texts, not classes.

    >>> distinct("y", [["no", "yes"], ["maybe", "no"]])
    ('maybe', 'no', 'yes')
    """
    found: set[str] = set()
    for group in groups:
        found.update(group)
        if len(found) > MAX_LABELS:
            raise ValueError(
                f"{name} must hold class labels or numbers, got text with more than {MAX_LABELS} different values, "
                f"such as {min(found)!r}; choose another target."
            )
    return tuple(sorted(found))


def checked_labels(labels: Sequence[str]) -> tuple[str, ...]:
    """`labels` once they are seen to be different strings, at least one."""
    words = tuple(labels)
    if isinstance(labels, str) or not words or not all(isinstance(word, str) for word in words):
        raise ValueError(f"labels must be a sequence of strings, got {labels!r}.")
    if len(set(words)) < len(words):
        raise ValueError(f"labels must differ from each other, got {shown(words)}.")
    return tuple(map(str, words))


def places_in(
    labels: Sequence[str], values: np.ndarray[Any, Any], *, name: str, first_row: int
) -> np.ndarray[Any, Any]:
    """Where each of `values` [n] stands in `labels` [C], int64 [n]. O(n log C).

    >>> places_in(("b", "a"), np.array(["a", "b", "a"]), name="y", first_row=0)
    array([1, 0, 1])
    """
    words = np.array(labels)
    order = np.argsort(words)
    places = order[np.searchsorted(words, values, sorter=order).clip(max=len(words) - 1)]
    unknown = words[places] != values
    if unknown.any():
        row = int(unknown.argmax())
        refuse_label(name, str(values[row]), first_row + row, labels)
    return places


def refuse_label(name: str, label: str, row: int, labels: Sequence[str]) -> None:
    raise ValueError(f"{name} must hold the labels {shown(labels)} only, but row {row} is {label!r}.")


def shown(words: Sequence[object]) -> str:
    """The first of `words`, and how many there are when there are more."""
    first = ", ".join(map(repr, words[:20]))
    return f"[{first}]" if len(words) <= 20 else f"[{first}, ... {len(words)} in all]"


FILE = "names.json"


class StoredNames(NamedTuple):
    labels: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None


def write_names(directory: Path, names: StoredNames) -> None:
    if names != StoredNames():
        (directory / FILE).write_text(json.dumps(names._asdict()), encoding="utf-8")


def read_names(directory: Path) -> StoredNames:
    """The names in `directory`, or none when it has no such file."""
    path = directory / FILE
    if not path.exists():
        return StoredNames()
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return StoredNames(*(_words(found[field]) for field in StoredNames._fields))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read as the names of cached rows: {error!r}.") from error


def _words(value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise TypeError(f"a list of strings must stand there, not {value!r}")
    return tuple(value)
