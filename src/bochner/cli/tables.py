"""Tables of rows as the commands read them: opening files, the task that their targets define, and validation rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from bochner.data import cache_to_disk, column_names_of, labels_of, open_source, split
from bochner.data.blocks import Source, num_rows, read_targets
from bochner.data.compressed import inner_suffix
from bochner.data.files import TABLES
from bochner.data.labels import abbreviated
from bochner.search.plan import rows_per_shard

Columns = list[str] | str | None
Task = Literal["auto", "classify", "regress"]
MAX_INTEGER_CLASSES = 100  # more distinct integers are a count or an amount rather than classes


def column_list(columns: Columns) -> list[str] | None:
    """Column names as a list; text holds names separated by commas.

    >>> column_list("age, hours")
    ['age', 'hours']
    """
    return [name.strip() for name in columns.split(",")] if isinstance(columns, str) else columns


def open_training_rows(
    data: Path, *, target: str | None, columns: Columns, weight: str | None, memory_budget: int | str | None
) -> Source:
    """Rows with targets, in shards that fit a memory budget."""
    options: dict[str, Any] = {"target": target, "columns": column_list(columns), "weight": weight}
    source = require_targets(data, open_source(data, **options))
    if memory_budget is None:
        return source
    shard_rows = rows_per_shard(memory_budget, row_bytes=8 * source.num_inputs + 16)
    return source if shard_rows >= max(source.shard_sizes) else open_source(data, **options, shard_rows=shard_rows)


def require_targets(data: Path, source: Source) -> Source:
    first = next(shard for shard, size in enumerate(source.shard_sizes) if size)
    if read_targets(source, first).shape[1:] == (0,):
        names = column_names_of(source)
        columns = "" if names is None else f"; its columns are {abbreviated(names)}"
        raise ValueError(f"{data} has no targets: choose the column to predict with --target{columns}.")
    return source


def open_like(data: Path, training: Source, *, target: str | None, weight: str | None) -> Source:
    """Other rows with the labels, shard size and inputs of `training`, matched by name if they have names."""
    names = column_names_of(training)
    source = open_source(
        data,
        target=target,
        columns=names if has_named_columns(data) else None,
        weight=weight,
        labels=labels_of(training),
        num_inputs=training.num_inputs,
        shard_rows=max(training.shard_sizes),
    )
    check_inputs(data, source, num_inputs=training.num_inputs, names=names)
    return require_targets(data, source)


def open_for_model(
    model: Any,
    data: Path,
    *,
    columns: Columns = None,
    target: str | None = None,
    weight: str | None = None,
    labels: Sequence[str] | None = None,
) -> Source:
    """Rows with the inputs of a fitted estimator, matched by name if both have names."""
    names = feature_names(model)
    selected = column_list(columns) if columns is not None or not has_named_columns(data) else names
    source = open_source(
        data, target=target, columns=selected, weight=weight, labels=labels, num_inputs=model.n_features_in_
    )
    check_inputs(data, source, num_inputs=model.n_features_in_, names=names if columns is None else None)
    return source


def check_inputs(data: Path, source: Source, *, num_inputs: int, names: Sequence[str] | None) -> None:
    columns = column_names_of(source)
    if names is not None and columns is not None and tuple(columns) != tuple(names):
        raise ValueError(
            f"{data} must have the inputs {abbreviated(list(names))} in that order, got {abbreviated(columns)}."
        )
    if source.num_inputs != num_inputs:
        remedy = "" if columns is None else f"; select them from {abbreviated(columns)} with --columns"
        raise ValueError(f"{data} must have the {num_inputs} inputs of training, got {source.num_inputs}{remedy}.")


def has_named_columns(data: Path) -> bool:
    """Whether the inputs of a file have names, as the columns of a table do."""
    if data.is_dir():
        suffixes = {path.suffix.lower() for path in data.iterdir()}
        return not suffixes & {".npy", ".npz"} and bool(suffixes & set(TABLES))
    return inner_suffix(data) in (".csv", *TABLES)


def feature_names(model: Any) -> list[str] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def text_classes(model: Any) -> list[str] | None:
    """The classes of a classifier if they are text, else None."""
    classes = getattr(model, "classes_", None)
    return classes.tolist() if classes is not None and np.asarray(classes).dtype.kind == "U" else None


# -- classification or regression ------------------------------------------------------------------------------


class TaskChoice(NamedTuple):
    """A task, and why it was chosen."""

    task: Literal["classify", "regress"]
    reason: str


def choose_task(task: Task, source: Source) -> TaskChoice:
    """Resolve "auto": text and at most 100 distinct integers are classes, other numbers are regressed.

    At most one pass over the targets, which ends after more than 100 distinct integers.

    >>> from bochner.data import ArraySource
    >>> choose_task("auto", ArraySource(np.eye(3), ["yes", "no", "yes"]))
    TaskChoice(task='classify', reason='the target is text')
    >>> choose_task("auto", ArraySource(np.eye(3), [0.5, 1.5, 0.5])).task
    'regress'
    """
    has_text = labels_of(source) is not None
    if task == "regress" and has_text:
        raise ValueError("task must not be 'regress' for a target that is text; choose another --target.")
    if task != "auto":
        return TaskChoice(task, "as requested")
    if has_text:
        return TaskChoice("classify", "the target is text")
    count = _count_integers(source)
    if count is None:
        return TaskChoice("regress", "the targets are not all integers; --task classify treats them as classes")
    if count > MAX_INTEGER_CLASSES:
        reason = f"more than {MAX_INTEGER_CLASSES} distinct integers; --task classify treats them as classes"
        return TaskChoice("regress", reason)
    return TaskChoice("classify", f"{count} distinct integers; --task regress treats them as numbers")


def _count_integers(source: Source) -> int | None:
    """Distinct integers in y, counted until they exceed the limit; None if y holds other numbers."""
    distinct: np.ndarray[tuple[int], np.dtype[np.int64]] = np.empty(0, np.int64)
    for shard, size in enumerate(source.shard_sizes):
        if not size:
            continue
        y = read_targets(source, shard)
        if y.is_floating_point() or y.ndim != 1:
            return None
        distinct = np.union1d(distinct, y.cpu().numpy())
        if len(distinct) > MAX_INTEGER_CLASSES:
            break
    return len(distinct)


# -- validation rows -------------------------------------------------------------------------------------------


class Split(NamedTuple):
    """Training rows, validation rows, and a description of how the validation rows were selected."""

    training: Source
    validation: Source
    protocol: str


def draw_validation(rows: Source, *, fraction: float, seed: int) -> Split:
    """Draw validation rows at random.

    The estimator could draw them itself, but some of its solvers refit on all rows once they have chosen, and scores
    on rows that were trained on are biased. The drawn rows are cached on disk: they are read once per epoch and lie
    scattered over the file.
    """
    training, validation = split(rows, fraction, seed)
    protocol = f"{num_rows(validation):,} of the {num_rows(rows):,} rows, drawn with seed {seed}"
    return Split(training, cache_to_disk(validation), protocol)


def open_validation(rows: Source, data: Path, *, target: str | None, weight: str | None) -> Split:
    """Take all rows of another file for validation."""
    validation = open_like(data, rows, target=target, weight=weight)
    return Split(rows, validation, f"all {num_rows(validation):,} rows of {data}")
