"""Between scikit-learn's arrays and random states and torch's tensors and generators."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, validate_data
from torch import Generator, Tensor

from bochner import checks
from bochner.data.blocks import Block
from bochner.ops import row_tiles


def checked_inputs(estimator: BaseEstimator, X: Any, *, reset: bool) -> Tensor:
    """X as a finite float32 or float64 tensor [rows, inputs]; `reset` records width and names, else checks them."""
    if isinstance(X, Tensor):
        return checked_tensor(estimator, X, reset=reset)
    return as_tensor(validate_data(estimator, X, reset=reset, dtype=[np.float64, np.float32]))


def checked_tensor(estimator: BaseEstimator, X: Tensor, *, reset: bool) -> Tensor:
    """What scikit-learn's `validate_data` checks of arrays, for a tensor."""
    checks.finite("X", checks.inputs("X", X, width=None if reset else estimator.n_features_in_))
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


Inputs = Any  # np.ndarray, scipy.sparse matrix or Tensor, [N, d]


class ArrayRows:
    """The rows `order` [n] of X [N, d], y and weight, as `dtype`, in shards: a shard is gathered when it is read.

    Arrays that a user sorted by class would give one-sided batches if shards were slices.
    """

    def __init__(
        self,
        X: Inputs,
        y: Tensor,
        weight: Tensor | None,
        *,
        order: Tensor,
        shard_rows: int,
        dtype: torch.dtype,
    ) -> None:
        self._X, self._y, self._weight, self._order, self._dtype = X, y, weight, order, dtype
        self.num_inputs: int = X.shape[1]
        self._tiles = list(row_tiles(len(order), row_elements=1, tile_elements=shard_rows))
        self.shard_sizes = [tile.stop - tile.start for tile in self._tiles]

    def read(self, shard: int) -> Block:
        rows = self._order[self._tiles[shard]]
        weight = None if self._weight is None else self._weight[rows].to(self._dtype)
        return Block(dense_rows(self._X, rows, self._dtype), self._y[rows], weight)

    def read_targets(self, shard: int) -> Tensor:
        return self._y[self._order[self._tiles[shard]]]


def dense_rows(X: Inputs, rows: Tensor | slice, dtype: torch.dtype) -> Tensor:
    """Those rows of X as a dense tensor."""
    if isinstance(X, Tensor):
        return X[rows.to(X.device) if isinstance(rows, Tensor) else rows].to(dtype)
    part = X[rows.numpy() if isinstance(rows, Tensor) else rows]
    kind = np.float64 if dtype == torch.float64 else np.float32
    return as_tensor(np.asarray(part.toarray() if issparse(part) else part, dtype=kind))


def checked_weights(sample_weight: Any, num_rows: int) -> tuple[Tensor | None, Tensor]:
    """Weights of mean 1 over the rows that have one, and those rows: a weight of 0 leaves a row out."""
    if sample_weight is None:
        return None, torch.arange(num_rows)
    checked = _check_sample_weight(sample_weight, np.empty((num_rows, 1)), dtype=np.float64, ensure_non_negative=True)
    weight = as_tensor(checked)
    chosen = weight.nonzero()[:, 0]
    if len(chosen) == 0:
        raise ValueError("sample_weight must be positive for some row, got only zeros.")
    return weight / weight[chosen].mean(), chosen
