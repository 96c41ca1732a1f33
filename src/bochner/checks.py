"""Checks of arguments: an error names the argument, what it was, and what would be right."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real

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
    return _finite(name, value, low=0.0, strict=True)


def nonnegative_float(name: str, value: object) -> float:
    return _finite(name, value, low=0.0, strict=False)


def one_of(name: str, value: object, allowed: Iterable[object]) -> None:
    choices = list(allowed)
    if isinstance(value, bool | Tensor) or value not in choices:  # True == 1, and a tensor has no one answer
        raise ValueError(f"{name} must be one of {choices}, got {value!r}.")


def inputs(name: str, X: object, *, width: int | None = None) -> Tensor:
    """A float matrix [rows, inputs] with `width` columns; values are not read (that would cost a pass)."""
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


def _finite(name: str, value: object, *, low: float, strict: bool) -> float:
    bound = "positive" if strict else "non-negative"
    ok = isinstance(value, Real) and not isinstance(value, bool) and _fits(value)
    if not ok or (value <= low if strict else value < low):  # type: ignore[operator]
        raise ValueError(f"{name} must be a {bound} finite number, got {value!r}.")
    return float(value)  # type: ignore[arg-type]


def _fits(value: Real) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond every float
        return False
