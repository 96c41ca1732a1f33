"""Checks of arguments; errors name the argument, its value and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from importlib import import_module
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor


def positive_int(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}.")
    return int(value)


def nonnegative_int(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 0:
        raise ValueError(f"{name} must be an integer of at least 0, got {value!r}.")
    return int(value)


def positive_float(name: str, value: object) -> float:
    number = _number(value)
    if not (number > 0 and math.isfinite(number)):
        raise ValueError(f"{name} must be a positive finite number, got {value!r}.")
    return number


def nonnegative_float(name: str, value: object) -> float:
    number = _number(value)
    if not (number >= 0 and math.isfinite(number)):
        raise ValueError(f"{name} must be a non-negative finite number, got {value!r}.")
    return number


def one_of(name: str, value: object, allowed: Iterable[object]) -> None:
    choices = list(allowed)
    if isinstance(value, bool | Tensor) or value not in choices:  # True == 1, and comparing a tensor gives a tensor
        raise ValueError(f"{name} must be one of {choices}, got {value!r}.")


def inputs(name: str, X: object, *, width: int | None = None) -> Tensor:
    """Check that X is a float matrix [rows, inputs] with `width` columns, and return it; its values are not checked."""
    if not isinstance(X, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(X).__name__}; use torch.as_tensor({name}).")
    if not X.is_floating_point():
        raise TypeError(f"{name} must hold floats, got dtype {X.dtype}; use {name}.float().")
    if X.ndim != 2:
        raise ValueError(f"{name} must have shape [rows, inputs], got {tuple(X.shape)}.")
    if width is not None and X.shape[1] != width:
        raise ValueError(f"{name} must have {width} columns, got {X.shape[1]}.")
    return X


def finite(name: str, X: Tensor) -> Tensor:
    if not torch.isfinite(X).all():
        raise ValueError(f"{name} must be finite, but holds NaN or infinity.")
    return X


def _number(value: object) -> float:
    """A real number as a float; NaN for anything else, and for an integer beyond the range of floats."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def imported(package: str, *, extra: str) -> Any:
    """An optional package, or an error that names the extra that installs it.

    >>> imported("no_such_package", extra="speech")
    Traceback (most recent call last):
    ...
    ImportError: no_such_package is missing: pip install 'bochner[speech]'.
    """
    try:
        return import_module(package)
    except ImportError as error:
        raise ImportError(f"{package} is missing: pip install 'bochner[{extra}]'.") from error
