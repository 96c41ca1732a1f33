"""Between scikit-learn's world (arrays, frames, random states) and torch's (tensors, devices, generators)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data
from torch import Generator, Tensor

from bochner import checks


def checked_inputs(estimator: BaseEstimator, X: Any, *, reset: bool) -> Tensor:
    """X as a finite float32 or float64 tensor [rows, inputs]; `reset` learns the width and names, else checks them."""
    if not isinstance(X, Tensor):
        array = validate_data(estimator, X, reset=reset, dtype=[np.float64, np.float32])
        return as_tensor(array)
    width = None if reset else estimator.n_features_in_
    checks.finite("X", checks.inputs("X", X, width=width))
    if 0 in X.shape:
        raise ValueError(f"X must hold at least one row and one column, got shape {tuple(X.shape)}.")
    if reset:
        estimator.n_features_in_ = X.shape[1]
    return X


def as_tensor(array: np.ndarray[Any, Any]) -> Tensor:
    """The array's own memory as a tensor; bochner never writes to its inputs, so read-only memory is fine."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(np.ascontiguousarray(array))


def make_generator(random_state: Any) -> Generator:
    """A CPU generator seeded from scikit-learn's `random_state`: one seed gives one result on every device."""
    return Generator().manual_seed(int(check_random_state(random_state).randint(2**31 - 1)))


def resolve_device(device: str | torch.device) -> torch.device:
    """The torch device; "auto" is the GPU when there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device must be 'auto' or a device torch can use here, got {device!r}: {error}") from error
