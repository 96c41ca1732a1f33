"""Files of rows as the commands open them: alike in inputs and classes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bochner.data import column_names_of, labels_of, open_source
from bochner.data.blocks import Source, read_targets
from bochner.data.compressed import inner_suffix
from bochner.data.files import TABLES
from bochner.data.labels import shown
from bochner.search.memory import parse_bytes, rows_per_shard

Columns = list[str] | str | None


def listed(columns: Columns) -> list[str] | None:
    """Names as a list; text is names between commas.

    >>> listed("age, hours")
    ['age', 'hours']
    """
    return [name.strip() for name in columns.split(",")] if isinstance(columns, str) else columns


def open_rows(
    data: Path, *, target: str | None, columns: Columns, weight: str | None, memory_budget: int | str | None
) -> Source:
    """Rows to learn from, in shards that a memory budget has room for."""
    named: dict[str, Any] = {"target": target, "columns": listed(columns), "weight": weight}
    source = with_targets(data, open_source(data, **named))
    if memory_budget is None:
        return source
    shard_rows = rows_per_shard(parse_bytes(memory_budget), row_bytes=8 * source.num_inputs + 16)
    return source if shard_rows >= max(source.shard_sizes) else open_source(data, **named, shard_rows=shard_rows)


def with_targets(data: Path, source: Source) -> Source:
    first = next(shard for shard, size in enumerate(source.shard_sizes) if size)
    if read_targets(source, first).shape[1:] == (0,):
        names = column_names_of(source)
        columns = "" if names is None else f"; its columns are {shown(names)}"
        raise ValueError(f"{data} has no targets: name what is to be predicted with --target{columns}.")
    return source


def open_alike(data: Path, known: Source, *, target: str | None, weight: str | None) -> Source:
    """Other rows with the labels and the size of shards of `known`, and its inputs, by name where they have names."""
    names = column_names_of(known)
    source = open_source(
        data,
        target=target,
        columns=names if has_columns(data) else None,
        weight=weight,
        labels=labels_of(known),
        num_inputs=known.num_inputs,
        shard_rows=max(known.shard_sizes),
    )
    check_inputs(data, source, num_inputs=known.num_inputs, names=names)
    return with_targets(data, source)


def open_for(
    model: Any,
    data: Path,
    *,
    columns: Columns = None,
    target: str | None = None,
    weight: str | None = None,
    labels: Sequence[str] | None = None,
) -> Source:
    """Rows with the inputs that a fitted estimator knows, by name where both have names."""
    names = names_of(model)
    wanted = listed(columns) if columns is not None or not has_columns(data) else names
    source = open_source(
        data,
        target=target,
        columns=wanted,
        weight=weight,
        labels=labels,
        num_inputs=model.n_features_in_,
    )
    check_inputs(data, source, num_inputs=model.n_features_in_, names=names if columns is None else None)
    return source


def check_inputs(data: Path, source: Source, *, num_inputs: int, names: Sequence[str] | None) -> None:
    found = column_names_of(source)
    if names is not None and found is not None and tuple(found) != tuple(names):
        raise ValueError(f"{data} must have the inputs {shown(list(names))} in that order, got {shown(found)}.")
    if source.num_inputs != num_inputs:
        remedy = "" if found is None else f"; choose them among {shown(found)} with --columns"
        raise ValueError(f"{data} must have the {num_inputs} inputs of training, got {source.num_inputs}{remedy}.")


def has_columns(data: Path) -> bool:
    """Whether a file's inputs go by names, as those of tables do."""
    if data.is_dir():
        found = {path.suffix.lower() for path in data.iterdir()}
        return not found & {".npy", ".npz"} and bool(found & set(TABLES))
    return inner_suffix(data) in (".csv", *TABLES)


def names_of(model: Any) -> list[str] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def text_classes(model: Any) -> list[str] | None:
    """The classes of a classifier of text, else None."""
    classes = getattr(model, "classes_", None)
    return classes.tolist() if classes is not None and np.asarray(classes).dtype.kind == "U" else None
