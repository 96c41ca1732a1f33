"""Columns of tables: which are inputs, target and weight, their types, and blocks of their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bochner.data.arrays import (
    check_finite,
    checked,
    input_type,
    no_targets,
    number_type,
    target_type,
    to_tensor,
)
from bochner.data.blocks import Block
from bochner.data.compressed import DAMAGE
from bochner.data.labels import abbreviated, distinct, refuse_label
from bochner.remote import AnyPath


def pyarrow(module: str = "") -> Any:
    """`pyarrow` or one of its modules, imported on first use since the import is slow."""
    return import_module(f"pyarrow.{module}".rstrip("."))


@contextmanager
def reading(path: AnyPath) -> Iterator[None]:
    """Raise errors of pyarrow and of the file as a ValueError that names the file."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    try:
        yield
    except (pyarrow().ArrowException, OSError, UnicodeDecodeError, *DAMAGE) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


class Roles(NamedTuple):
    """Which columns are inputs, target and weight, and their dtypes; a text target needs `labels`."""

    inputs: tuple[str, ...]
    target: str | None
    weight: str | None
    X_type: torch.dtype = torch.float32
    y_type: torch.dtype = torch.int64
    weight_type: torch.dtype = torch.float32
    has_text: bool = False
    labels: tuple[str, ...] | None = None

    @property
    def names(self) -> list[str]:
        return [*self.inputs, *(name for name in (self.target, self.weight) if name is not None)]

    def block(self, table: Any, path: AnyPath, first_row: int) -> Block:
        """Rows of a pyarrow table as a checked block."""
        X = torch.empty(len(table), len(self.inputs), dtype=self.X_type)
        for j, name in enumerate(self.inputs):
            X[:, j] = to_tensor(_values(table, name, path, first_row).to_numpy(), self.X_type)
        weight = None
        if self.weight is not None:
            weight = to_tensor(_values(table, self.weight, path, first_row).to_numpy(), self.weight_type)
        names = [f"{path}: X", _column(path, self.target), _column(path, self.weight)]
        return checked(
            Block(X, self.targets(table, path, first_row), weight), names, first_row=first_row, columns=self.inputs
        )

    def targets(self, table: Any, path: AnyPath, first_row: int) -> Tensor:
        """The targets in a pyarrow table: numbers, or indices into the labels."""
        if self.target is None:
            return no_targets(len(table))
        values = _values(table, self.target, path, first_row)
        if self.labels is None:
            y = to_tensor(values.to_numpy(), self.y_type)
            return check_finite(y, _column(path, self.target), first_row=first_row)
        words = values.cast(pyarrow().string())
        codes = pyarrow("compute").index_in(words, value_set=pyarrow().array(self.labels, pyarrow().string()))
        if codes.null_count:
            row = _first_null(codes)
            refuse_label(_column(path, self.target), words[row].as_py(), first_row + row, self.labels)
        return to_tensor(codes.to_numpy(), torch.int64)


def assign_roles(
    schemas: dict[AnyPath, Any],
    *,
    target: str | None,
    columns: Sequence[str] | None,
    weight: str | None,
    labels: tuple[str, ...] | None,
    ignore: Sequence[str] = (),
    any_type: bool = False,
) -> Roles:
    """The roles of the columns of tables with these schemas; by default all but target and weight are inputs.

    With `any_type` only names are checked: inputs and target need not be numbers.
    """
    first = next(iter(schemas))
    names = schemas[first].names
    if unknown := [name for name in ignore if name not in names]:
        raise ValueError(f"{first} has no column {unknown[0]!r} to ignore; its columns are {abbreviated(names)}.")
    others = (target, weight, *ignore)
    inputs = [name for name in names if name not in others] if columns is None else list(columns)
    if not inputs:
        raise ValueError(f"{first} must have at least one column of inputs, has {abbreviated(names)}.")
    if clash := {target, weight} & set(inputs):
        raise ValueError(f"columns must not name the target or the weight, but names {sorted(map(str, clash))}.")
    roles = Roles(tuple(inputs), target, weight, labels=labels)
    types: dict[str, list[Any]] = {name: [] for name in roles.names}
    for path, schema in schemas.items():
        for name in roles.names:
            types[name].append(_type(path, schema, name))
        if any_type:
            continue
        _check_numbers(path, {name: types[name][-1] for name in roles.names if name != target})
    if any_type:
        return roles
    y_types = types[target] if target is not None else []
    has_text = any(map(_is_text, y_types))
    return roles._replace(
        X_type=input_type(_number(kind) for name in inputs for kind in types[name]),
        y_type=_target_type(_column(first, target), y_types, is_text=has_text or labels is not None),
        weight_type=input_type(map(_number, types[weight]) if weight is not None else []),
        has_text=has_text,
    )


def labels_in(name: str, chunks: Iterable[Any]) -> tuple[str, ...]:
    """All labels in some pyarrow columns, sorted; nulls are refused later, when their row is known."""
    # `unique` of a dictionary column gives its values.
    words = (pyarrow("compute").unique(chunk).cast(pyarrow().string()) for chunk in chunks)
    return distinct(name, (chunk.drop_null().to_pylist() for chunk in words))


def _values(table: Any, name: str, path: AnyPath, first_row: int) -> Any:
    """A column without nulls, dictionaries replaced by their values."""
    column = table[name]
    if pyarrow("types").is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.null_count:
        row = first_row + _first_null(column)
        raise ValueError(
            f"{_column(path, name)} must have a value in every row, but row {row} has none; "
            f"fill it in, or leave such rows out."
        )
    return column


def _first_null(column: Any) -> int:
    return pyarrow("compute").index(column.is_null(), True).as_py()


def _column(path: AnyPath, name: str | None) -> str:
    return f"{path}: column {name!r}"


def _type(path: AnyPath, schema: Any, name: str) -> Any:
    count = schema.names.count(name)
    if count == 0:
        raise ValueError(f"{path} has no column {name!r}; its columns are {abbreviated(schema.names)}.")
    if count > 1:
        raise ValueError(f"{path} has {count} columns {name!r}; names must differ, rename all but one.")
    kind = schema.field(name).type
    return kind.value_type if pyarrow("types").is_dictionary(kind) else kind


def _is_number(kind: Any) -> bool:
    types = pyarrow("types")
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _is_text(kind: Any) -> bool:
    types = pyarrow("types")
    return bool(types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view")


def _number(kind: Any) -> torch.dtype:
    return number_type(str(kind), np.dtype(kind.to_pandas_dtype()))


def _check_numbers(path: AnyPath, types: dict[str, Any]) -> None:
    bad = [name for name, kind in types.items() if not _is_number(kind)]
    if bad:
        what = f"column {bad[0]!r}" if len(bad) == 1 else f"{len(bad)} columns, {abbreviated(bad)},"
        kinds = ", ".join(sorted({str(types[name]) for name in bad}))
        raise ValueError(
            f"{path}: {what} must hold numbers, got type {kinds}; encode them as numbers, or leave them out by naming "
            f"the others in columns."
        )


def _target_type(name: str, kinds: Sequence[Any], *, is_text: bool) -> torch.dtype:
    """int64 for indices into labels (integers are looked up as text), else the dtype of the numbers."""
    for kind in kinds:
        if is_text and not (_is_text(kind) or pyarrow("types").is_integer(kind)):
            raise ValueError(f"{name} must hold text or integers to be looked up in labels, got type {kind}.")
        if not is_text and not _is_number(kind):
            raise ValueError(f"{name} must hold numbers or text, got type {kind}; choose another target.")
    return torch.int64 if is_text else target_type(map(_number, kinds))
