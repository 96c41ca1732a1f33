"""Rows in other containers than arrays: files, frames that hold their target, datasets and data loaders."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import narwhals as nw
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from bochner.data.blocks import Source, read_targets
from bochner.data.frames import frame_columns, is_frame
from bochner.data.labels import abbreviated, column_names_of
from bochner.data.table_files import table_files
from bochner.data.table_rows import Rows, TableRows, column_at, open_rows, warn_of_columns
from bochner.data.transforms import with_classes
from bochner.remote import RemotePath, path_of

FilePath = str | os.PathLike[str]


class TrainingRows(NamedTuple):
    """Arguments of `fit`: X with targets and weights, or a source of all three; and the name of the target."""

    X: Any
    y: Any = None
    sample_weight: Any = None
    target: str | None = None


def read_training(X: Any, y: Any, sample_weight: Any, target: str | int | None) -> TrainingRows:
    """The rows of a path, a data loader, or a frame or dataset whose column `target` holds the targets.

    A data loader gives batches (X, y) of tensors; all of them are held in memory.
    """
    if y is not None:
        raise ValueError("y must be None where X holds the targets: with target=, a path or a data loader.")
    if isinstance(X, str | os.PathLike):
        rows = open_rows(X, target=target)
        if isinstance(rows, TableRows):
            if rows.y is None:
                raise ValueError(f"target must name the column of {X} to predict; they are {list(rows.column_names)}.")
            warn_of_columns(rows)
            weight = rows.weight if sample_weight is None else sample_weight
            return TrainingRows(rows.X, rows.y, weight, rows.target)
        name = getattr(rows, "target", None) or target
        return TrainingRows(rows, None, sample_weight, name if isinstance(name, str) else None)
    if isinstance(X, DataLoader):
        if target is not None:
            raise ValueError(f"target must be None with a data loader, whose batches are (X, y), got {target!r}.")
        return TrainingRows(*_concatenated(X), sample_weight)
    frame = as_frame(X)
    if not is_frame(frame):
        raise ValueError(f"target must be None unless X is a path, frame or dataset, got {type(X).__name__}.")
    names = list(frame_columns(frame))
    assert target is not None
    name = column_at(target, names, Path("X"))
    if name not in names:
        raise ValueError(f"X has no column {name!r}; its columns are {abbreviated(names)}.")
    table = nw.from_native(frame, eager_only=True)
    column = table.columns[names.index(name)]  # pandas names may be other than text
    return TrainingRows(table.drop(column).to_native(), table[column].to_numpy(), sample_weight, name)


def is_dataset(X: object) -> bool:
    """Whether X is a dataset of Hugging Face, which is not imported."""
    return type(X).__module__.split(".")[0] == "datasets" and hasattr(X, "with_format")


def as_frame(X: Any) -> Any:
    """A dataset of Hugging Face as an Arrow table; anything else unchanged."""
    return X.with_format("arrow")[:] if is_dataset(X) else X


def _concatenated(loader: DataLoader[Any], *, needs_targets: bool = True) -> tuple[Tensor, Tensor | None]:
    """All rows of a loader; without targets, batches may also be (X,) or X alone."""
    inputs, targets = [], []
    for batch in loader:
        parts = batch if isinstance(batch, tuple | list) else (batch,)
        if len(parts) not in ((2,) if needs_targets else (1, 2)) or not all(isinstance(p, Tensor) for p in parts):
            raise ValueError(f"a data loader must give batches (X, y) of tensors, got {type(batch).__name__}.")
        inputs.append(parts[0].detach().flatten(1))
        targets += [part.detach() for part in parts[1:]]
    if not inputs:
        raise ValueError("the data loader must give at least one batch, got none.")
    X = torch.cat(inputs)
    return X if X.is_floating_point() else X.float(), torch.cat(targets) if targets else None


# -- inputs of a fitted estimator ------------------------------------------------------------------------------


def open_inputs(
    model: Any,
    path: FilePath | RemotePath,
    *,
    columns: Sequence[str] | None = None,
    target: str | None = None,
    weight: str | None = None,
    labels: Sequence[str] | None = None,
    sep: str | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
) -> Rows:
    """Rows of a file with the inputs of a fitted estimator, matched by name if both have names.

    `columns` names the inputs of the file if they differ from those of training. A model with an encoder reads
    `TableRows`, any other a source.
    """
    path = path_of(path)
    names, encoder = feature_names(model), model.encoder_
    kinds = None if encoder is None else {column.name: column.kind for column in encoder.columns if column.outputs}
    if kinds is not None:
        names = list(kinds)
        kinds = kinds if columns is None else dict(zip(columns, kinds.values(), strict=False))
    num_inputs = model.n_features_in_ if kinds is None else len(names or [])
    rows = open_rows(
        path,
        target=target,
        columns=columns if columns is not None or not table_files(path) else names,
        weight=weight,
        labels=labels,
        kinds=kinds,
        numbers=kinds is None,
        num_inputs=num_inputs,
        sep=sep,
        encoding=encoding,
        decimal=decimal,
    )
    check_inputs(path, rows, num_inputs=num_inputs, names=names if columns is None else None)
    return rows.renamed(names or []) if isinstance(rows, TableRows) else rows


def check_inputs(data: FilePath | RemotePath, rows: Rows, *, num_inputs: int, names: Sequence[str] | None) -> None:
    columns = column_names_of(rows)
    if names is not None and columns is not None and tuple(columns) != tuple(names):
        raise ValueError(
            f"{data} must have the inputs {abbreviated(list(names))} in that order, got {abbreviated(columns)}."
        )
    if rows.num_inputs != num_inputs:
        remedy = "" if columns is None else f"; select them from {abbreviated(columns)} with --columns"
        raise ValueError(f"{data} must have the {num_inputs} inputs of training, got {rows.num_inputs}{remedy}.")


def feature_names(model: Any) -> list[str] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def read_inputs(model: Any, X: Any) -> Any:
    """The inputs of a fitted estimator in a file, a dataset, a data loader, or a frame that holds the target, too."""
    if isinstance(X, str | os.PathLike):
        rows = open_inputs(model, X)
        return rows.X if isinstance(rows, TableRows) else rows
    if isinstance(X, DataLoader):
        return _concatenated(X, needs_targets=False)[0]
    if is_dataset(X):
        frame, names = as_frame(X), feature_names(model)
        return frame if names is None else frame.select([name for name in names if name in frame.column_names])
    target = model.target_name_
    if target is not None and is_frame(X) and target in (names := list(frame_columns(X))):
        table = nw.from_native(X, eager_only=True)
        return table.drop(table.columns[names.index(target)]).to_native()
    return X


def read_test(model: Any, X: Any, sample_weight: Any) -> TrainingRows:
    """Test rows of a file, a source, a frame, a dataset or a data loader that holds the targets of a fitted estimator.

    The targets are those of the column that `fit` got as `target`.
    """
    target, classes = model.target_name_, getattr(model, "classes_", None)
    if isinstance(X, str | os.PathLike):
        labels = None if classes is None or classes.dtype.kind != "U" else classes.tolist()
        X = open_inputs(model, X, target=target, labels=labels)
    if isinstance(X, TableRows):
        y = X.y if classes is None or X.y is None else classes[X.class_indices(classes).numpy()]
        rows = TrainingRows(X.X, y, X.weight if sample_weight is None else sample_weight)
    elif isinstance(X, Source):
        source = X if classes is None else with_classes(X, classes)
        y = torch.cat([read_targets(source, shard) for shard, size in enumerate(source.shard_sizes) if size]).numpy()
        rows = TrainingRows(X, None if y.shape[1:] == (0,) else y if classes is None else classes[y], sample_weight)
    elif isinstance(X, DataLoader):
        rows = TrainingRows(*_concatenated(X), sample_weight)
    else:
        rows = TrainingRows(X) if target is None else read_training(X, None, sample_weight, target)
    if rows.y is None:
        raise ValueError("y must be given: X does not hold the targets, or fit did not get their column as target.")
    return rows
