"""Rows into low-rank estimators, and out of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_X_y, validate_data
from torch import Tensor

from bochner.estimators.arrays import as_tensor, checked_inputs
from bochner.models import LandmarkModel
from bochner.models.heads import FeatureModel
from bochner.ops import row_tiles

TILE_ELEMENTS = 2**22


def checked_pair(estimator: BaseEstimator, X: Any, y: Any) -> tuple[Tensor, Tensor]:
    """X as a float tensor [n, d] and numbers y [n] or [n, t] in float64, on X's device."""
    numeric: dict[str, Any] = {"multi_output": True, "y_numeric": True}
    if isinstance(X, Tensor):
        X = checked_inputs(estimator, X, reset=True)
        y = y.cpu().numpy() if isinstance(y, Tensor) else y
        _, y = check_X_y(np.empty((len(X), 1)), y, **numeric)
    else:
        X, y = validate_data(estimator, X, y, reset=True, dtype=[np.float64, np.float32], **numeric)
        X = as_tensor(X)
    return X, as_tensor(y).to(X.device, torch.float64)


def outputs(model: FeatureModel | LandmarkModel, X: Tensor) -> Tensor:
    """model(X) [n, t] in float64, as the model is, a few rows at a time: no [n, r] is held."""
    width = model.feature_map.num_features if isinstance(model, FeatureModel) else len(model.landmarks)
    with torch.no_grad():
        tiles = row_tiles(len(X), row_elements=width, tile_elements=TILE_ELEMENTS)
        return torch.cat([model(X[tile].double()) for tile in tiles])


def returned_like(X: Any, values: Tensor) -> Any:
    """A tensor where X was one, else an array; in X's dtype where that is float32, else in float64."""
    if isinstance(X, Tensor):
        return values.to(X)
    return (values.float() if getattr(X, "dtype", None) == np.float32 else values).numpy()
