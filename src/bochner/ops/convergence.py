"""The warning of an iterative solver that ends before it has converged."""

from __future__ import annotations

import warnings

from sklearn.exceptions import ConvergenceWarning


def warn_stopped(solver: str, *, limit: str, reached: str, tolerance: float, remedy: str) -> None:
    """A ConvergenceWarning that points at whoever called the function that calls this one."""
    message = f"{solver} stopped at {limit} with {reached}, tolerance {tolerance:g}: {remedy}."
    warnings.warn(message, ConvergenceWarning, stacklevel=3)
