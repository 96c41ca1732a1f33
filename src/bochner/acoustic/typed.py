"""Settings as they stand in YAML, made into dataclasses; what does not fit is an error that names the key."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

Settings = TypeVar("Settings")


def typed(kind: type[Settings], values: object, *, key: str) -> Settings:
    """The dataclass `kind` with `values` for its fields, which are those of YAML: text, numbers, lists, mappings.

    >>> @dataclasses.dataclass
    ... class Search:
    ...     beam: float = 11.0
    >>> typed(Search, {"beam": 9}, key="decoding")
    Search(beam=9.0)
    >>> typed(Search, {"beams": 9}, key="decoding")
    Traceback (most recent call last):
    ...
    ValueError: decoding.beams is unknown; decoding takes beam.
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"{key} must be a mapping of {', '.join(_names(kind))}, got {values!r}.")
    check_known(values, _names(kind), key=key)
    if missing := [name for name in _required(kind) if name not in values]:
        raise ValueError(f"{key}.{missing[0]} is missing.")
    hints = get_type_hints(kind)
    return kind(**{name: fitted(hints[name], value, f"{key}.{name}") for name, value in values.items()})


def check_known(values: Mapping[str, object], names: list[str], *, key: str) -> None:
    for name in values:
        if name not in names:
            known = f"{key or 'a recipe'} takes {', '.join(names)}"
            raise ValueError(f"{f'{key}.{name}'.lstrip('.')} is unknown; {known}.")


def fitted(hint: Any, value: object, key: str) -> Any:
    """One value as its type hint wants it."""
    origin = get_origin(hint)
    if dataclasses.is_dataclass(hint):
        return typed(hint, value, key=key)  # type: ignore[arg-type]
    if origin in (Union, UnionType):
        return _member(get_args(hint), value, key)
    if origin is Literal and value in get_args(hint):
        return value
    if origin is tuple and isinstance(value, list | tuple) and len(_places(hint, len(value))) == len(value):
        return tuple(fitted(one, part, key) for one, part in zip(_places(hint, len(value)), value, strict=True))
    if origin is dict and isinstance(value, Mapping) and all(isinstance(name, get_args(hint)[0]) for name in value):
        return {name: fitted(get_args(hint)[1], part, f"{key}.{name}") for name, part in value.items()}
    if hint is Path and isinstance(value, str | Path):
        return Path(value)
    if hint in (float, int):
        return _number(hint, value, key)
    if isinstance(hint, type) and isinstance(value, hint):
        return value
    raise ValueError(f"{key} must be {_shown(hint)}, got {value!r}.")


def _member(hints: tuple[Any, ...], value: object, key: str) -> Any:
    """The first type of a union that the value fits; its last one's error where it fits none."""
    if value is None and NoneType in hints:
        return None
    *others, last = (hint for hint in hints if hint is not NoneType)
    for hint in others:
        try:
            return fitted(hint, value, key)
        except ValueError:
            continue
    return fitted(last, value, key)


def _number(hint: type, value: object, key: str) -> Any:
    """YAML reads 1e-3, without a point, as text; no setting is infinite."""
    is_number = isinstance(value, int | float | str) and not isinstance(value, bool)
    try:
        if is_number and hint(value) == float(value) and math.isfinite(float(value)):  # type: ignore[arg-type]
            return hint(value)
    except (ValueError, OverflowError):  # int("x"), int(float("inf")) and float(10**400)
        pass
    raise ValueError(f"{key} must be {_shown(hint)}, got {value!r}.")


def _places(hint: Any, length: int) -> tuple[Any, ...]:
    """The types of a tuple's members: tuple[int, ...] has one for all."""
    members = get_args(hint)
    return (members[0],) * length if members[-1] is Ellipsis else members


def _names(kind: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(kind) if field.init]


def _required(kind: Any) -> list[str]:
    unset = dataclasses.MISSING
    return [one.name for one in dataclasses.fields(kind) if one.default is unset and one.default_factory is unset]


def _shown(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " or ".join(repr(choice) for choice in get_args(hint))
    names = {int: "an integer", float: "a number", bool: "true or false", str: "text", Path: "a path"}
    if get_origin(hint) is tuple:
        inner = get_args(hint)
        return "a list" if inner[-1] is Ellipsis else f"a list of {len(inner)}"
    return names.get(hint) or f"a {getattr(hint, '__name__', hint)}"
