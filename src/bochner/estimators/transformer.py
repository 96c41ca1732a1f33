"""What the transformers share: fit a map, then apply it to arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from torch import Generator, Tensor

from bochner import checks
from bochner.estimators.arrays import as_tensor, checked_inputs, make_generator, resolve_device
from bochner.features import FeatureMap
from bochner.ops import row_tiles


class MapTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A scikit-learn transformer around one feature map.

    NumPy arrays and data frames give arrays (or what `set_output` asks for), tensors give tensors; float32 and float64
    are kept. A subclass declares its parameters and implements `_draw`.
    """

    map_: FeatureMap
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "device": [str, torch.device],
        "random_state": ["random_state"],
    }

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the map for data like X [n, d]. `y` is ignored."""
        self._validate_params()
        X = checked_inputs(self, X, reset=True)
        device = resolve_device(self.device)
        self.map_ = self._draw(X, make_generator(self.random_state)).to(device)
        return self

    def transform(self, X: Any) -> Any:
        """z(X), [n, num_features]."""
        check_is_fitted(self)
        is_tensor = isinstance(X, Tensor)
        X = checked_inputs(self, X, reset=False).to(self._dtype)
        if is_tensor:
            return self.map_(X.to(self._device)).to(X.device)
        # NumPy asks the system for large pages, torch does not: that alone saves a fifth of the time
        features = np.empty((len(X), self.map_.num_features), dtype=X.numpy().dtype)
        self._write(X, as_tensor(features))
        return features

    def stream(self, X: Any, *, rows: int = 4096) -> Iterator[Any]:
        """z(X) in blocks of `rows`: the whole of it never exists. Each block is an array (or a tensor) of its own."""
        for tile in row_tiles(len(X), row_elements=1, tile_elements=checks.positive_int("rows", rows)):
            yield self.transform(X.iloc[tile] if hasattr(X, "iloc") else X[tile])

    @property
    def _n_features_out(self) -> int:
        return self.map_.num_features

    @property
    def _dtype(self) -> torch.dtype:
        return self.map_.dtype

    @property
    def _device(self) -> torch.device:
        return next(iter(self.map_.state_dict().values())).device

    def _write(self, X: Tensor, out: Tensor) -> None:
        if self._device.type == "cpu":
            self.map_.write(X, out)
            return
        for tile in row_tiles(len(X), row_elements=self.map_.num_features, tile_elements=2**26):
            out[tile] = self.map_(X[tile].to(self._device)).cpu()

    def _draw(self, X: Tensor, generator: Generator) -> FeatureMap:
        raise TypeError(f"{type(self).__name__} must define _draw(X, generator).")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
