"""Tables of rows as the commands read them: opening files, the task that their targets define, and validation rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from bochner.data import Rows, TableRows, cache_to_disk, column_names_of, labels_of, open_rows, split
from bochner.data.blocks import num_rows, read_targets, seeded
from bochner.data.labels import abbreviated
from bochner.data.table_files import table_files
from bochner.data.table_rows import warn_of_columns
from bochner.data.transforms import SelectedSource
from bochner.estimators.inputs import FilePath, check_inputs, open_inputs
from bochner.remote import path_of
from bochner.search.plan import parse_bytes, rows_per_shard

Columns = list[str] | str | None
Task = Literal["auto", "classify", "regress"]
MAX_INTEGER_CLASSES = 100  # more distinct integers are a count or an amount rather than classes


def column_list(columns: Columns) -> list[str] | None:
    """Column names as a list; text holds names separated by commas.

    >>> column_list("age, hours")
    ['age', 'hours']
    """
    return [name.strip() for name in columns.split(",")] if isinstance(columns, str) else columns


class TextOptions(NamedTuple):
    """How text tables are written; None is detected."""

    sep: str | None = None
    encoding: str | None = None
    decimal: str | None = None


DETECTED = TextOptions()


def open_training_rows(
    data: FilePath,
    *,
    target: str | None,
    columns: Columns,
    weight: str | None,
    memory_budget: int | str | None,
    ignore: Columns = None,
    categories: Columns = None,
    text: TextOptions = DETECTED,
) -> Rows:
    """Rows with targets; those of a file that is read a part at a time in shards that fit a memory budget."""
    options: dict[str, Any] = {"target": target, "columns": column_list(columns), "weight": weight}
    options |= {"ignore": column_list(ignore) or [], "categories": column_list(categories) or [], **text._asdict()}
    budget = None if memory_budget is None else parse_bytes(memory_budget)
    rows = require_targets(data, open_rows(data, **options, memory_budget=budget))
    warn_of_columns(rows, option="--ignore")
    if memory_budget is None or isinstance(rows, TableRows):
        return rows
    shard_rows = rows_per_shard(memory_budget, row_bytes=8 * rows.num_inputs + 16)
    if shard_rows >= max(rows.shard_sizes):
        return rows
    return open_rows(data, **options, memory_budget=budget, shard_rows=shard_rows)


def require_targets(data: FilePath, rows: Rows) -> Rows:
    first = next(shard for shard, size in enumerate(rows.shard_sizes) if size)
    if read_targets(rows, first).shape[1:] == (0,):
        names = column_names_of(rows)
        columns = "" if names is None else f"; its columns are {abbreviated(names)}"
        raise ValueError(f"{data} has no targets: choose the column to predict with --target{columns}.")
    return rows


def open_like(
    data: FilePath, training: Rows, *, target: str | None, weight: str | None, text: TextOptions = DETECTED
) -> Rows:
    """Other rows with the labels, shard size and inputs of `training`, matched by name if they have names."""
    names = column_names_of(training)
    kinds = None
    if isinstance(training, TableRows):
        # text of the training rows stays text, even where it looks like numbers in these
        kinds = {field.name: "category" if str(field.type) == "string" else "" for field in training.X.schema}
    rows = open_rows(
        data,
        target=target,
        columns=names if table_files(path_of(data)) else None,
        weight=weight,
        labels=labels_of(training),
        kinds=kinds,
        numbers=kinds is None,
        num_inputs=training.num_inputs,
        shard_rows=max(training.shard_sizes),
        **text._asdict(),
    )
    check_inputs(data, rows, num_inputs=training.num_inputs, names=names)
    return require_targets(data, rows)


def open_for_model(
    model: Any,
    data: FilePath,
    *,
    columns: Columns = None,
    target: str | None = None,
    weight: str | None = None,
    labels: Sequence[str] | None = None,
    text: TextOptions = DETECTED,
) -> Rows:
    """Rows with the inputs of a fitted estimator, matched by name if both have names."""
    names: dict[str, Any] = {"columns": column_list(columns), "target": target, "weight": weight}
    return open_inputs(model, data, **names, labels=labels, **text._asdict())


def text_classes(model: Any) -> list[str] | None:
    """The classes of a classifier if they are text, else None."""
    classes = getattr(model, "classes_", None)
    return classes.tolist() if classes is not None and np.asarray(classes).dtype.kind == "U" else None


# -- classification or regression ------------------------------------------------------------------------------


class TaskChoice(NamedTuple):
    """A task, and why it was chosen."""

    task: Literal["classify", "regress"]
    reason: str


def choose_task(task: Task, source: Rows) -> TaskChoice:
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


def _count_integers(source: Rows) -> int | None:
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

    training: Rows
    validation: Rows
    protocol: str
    is_training: bool = False  # whether the validation rows are those of training


def draw_validation(rows: Rows, *, fraction: float, seed: int) -> Split:
    """Draw validation rows at random.

    The estimator could draw them itself, but some of its solvers refit on all rows once they have chosen, and scores
    on rows that were trained on are biased. The rows that are drawn from a source are cached on disk: they are read
    once per epoch and lie scattered over the file.
    """
    N = num_rows(rows)
    training: Rows
    validation: Rows
    if isinstance(rows, TableRows):
        if N < 2:
            raise ValueError(f"the data must have at least 2 rows to be split, got {N}.")
        order = torch.randperm(N, generator=seeded(seed, "heldout-rows")).numpy()
        count = min(max(round(fraction * N), 1), N - 1)
        training, validation = rows.take(np.sort(order[count:])), rows.take(np.sort(order[:count]))
    else:
        training, drawn = split(rows, fraction, seed)
        validation = cache_to_disk(drawn)
    return Split(training, validation, f"{num_rows(validation):,} of the {N:,} rows, drawn with seed {seed}")


def open_validation(
    rows: Rows, data: FilePath, *, target: str | None, weight: str | None, text: TextOptions = DETECTED
) -> Split:
    """Take all rows of another file for validation."""
    validation = open_like(data, rows, target=target, weight=weight, text=text)
    return Split(rows, validation, f"all {num_rows(validation):,} rows of {data}")


def folds(rows: Rows, *, count: int, is_classification: bool, seed: int) -> Iterator[tuple[Rows, Rows]]:
    """Training and validation rows of `count` folds, stratified by class.

    The only row of a class is in no validation fold: a model that was trained without it does not know the class.
    """
    N = num_rows(rows)
    if not 2 <= count <= N:
        raise ValueError(f"cv must be from 2 to the number of rows, {N:,}, got {count}.")
    order = torch.randperm(N, generator=seeded(seed, "folds")).numpy()
    fold = np.empty(N, dtype=np.int64)
    single = np.zeros(N, dtype=bool)
    if is_classification:
        y = np.concatenate([read_targets(rows, shard).numpy() for shard, size in enumerate(rows.shard_sizes) if size])
        _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        order = order[np.argsort(codes[order], kind="stable")]
        single = counts[codes] == 1
    fold[order] = np.arange(N) % count
    fold[single] = count
    for number in range(count):
        parts = fold != number, fold == number
        if isinstance(rows, TableRows):
            yield rows.take(np.flatnonzero(parts[0])), rows.take(np.flatnonzero(parts[1]))
        else:
            yield SelectedSource(rows, parts[0]), SelectedSource(rows, parts[1])
