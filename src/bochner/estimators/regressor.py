"""The kernel regressor."""

from __future__ import annotations

import os
from typing import Any, Self

import torch
from sklearn.base import RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from bochner.data import MappedSource
from bochner.data.blocks import Block, Source, read_targets
from bochner.estimators.arrays import as_tensor
from bochner.estimators.machine import KernelMachine, is_source, refuse_targets, resolves
from bochner.estimators.online import can_step, step_through
from bochner.models.onnx import export_onnx
from bochner.search.fit import bias_of, rescale


class KernelRegressor(RegressorMixin, KernelMachine):
    """Kernel least squares at scale: numbers from random features or landmarks, streamed.

    Parameters are those of `KernelClassifier`, but for `class_weight`. Targets are centred and scaled inside. The
    default solver is the exact "landmarks" up to 2,048 rows, "ridge" beyond up to 8,192 features, and "sgd" above; its
    ridge is chosen on heldout rows. `metric` is "mse"; "newton" is for classes only.

    Attributes
    ----------
    model_ : torch module
        Gives predictions [n, t].
    kernel_, solver_, history_
        As in `KernelClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-3, 3, 500)[:, None]
    >>> KernelRegressor(random_state=0).fit(X, np.sin(X[:, 0])).score(X, np.sin(X[:, 0])) > 0.999
    True
    """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, heldout: Any = None) -> Self:
        """Fit on X [n, d] and numbers y [n] or [n, t], or on a source that holds both.

        `heldout`, a pair (X, y) or a source, takes the place of the rows that would be set aside.
        """
        self._validate_params()
        seed = self._seed()
        if is_source(X):
            refuse_targets(y, sample_weight)
            self.n_features_in_ = X.num_inputs
        else:
            X, y = self._checked_pair(X, y)
        parts = self._parts(X, y, sample_weight, heldout, seed=seed)
        scale = TargetScale.of(parts[-1])
        self._is_single = scale.is_single
        rows, judged, everything = (MappedSource(part, scale) for part in parts)
        self._fit_rows(rows, judged, everything, num_classes=None, seed=seed)
        if not resolves(scale.mean, scale.std):
            self.model_ = self.model_.double()
        rescale(self.model_, scale.mean, scale.std)
        return self

    @available_if(can_step)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """One pass of minibatch steps over these rows. The first rows choose the bandwidth and the features."""
        self._validate_params()
        first = not hasattr(self, "model_")
        X, y = self._checked_pair(X, y, reset=first)
        targets = self._encode(y)
        if not first and targets[:1].numel() != len(bias_of(self.model_)):
            raise ValueError(f"y must have {len(bias_of(self.model_))} columns as before, got {targets[:1].numel()}.")
        self._is_single = targets.ndim == 1
        step_through(self, X, targets, sample_weight, num_classes=None)
        return self

    def predict(self, X: Any) -> Any:
        """f(X), [n] or [n, t] as y was."""
        scores = self._scores(X)
        return self._like(X, scores[:, 0] if self._is_single else scores)

    def export_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write an ONNX graph from X [N, d], float32, to `scores`, the predictions [N, t]; needs bochner[onnx]."""
        check_is_fitted(self)
        export_onnx(self.model_, path, dtype=torch.float32)

    def _encode(self, y: Any) -> Tensor:
        return as_tensor(y).to(torch.float64)

    def _encoded_source(self, source: Source) -> Source:
        return source

    def _checked_targets(self, y: Any) -> Any:
        return y

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class TargetScale:
    """Blocks with targets (y - mean) / std [n, t]."""

    def __init__(self, mean: Tensor, std: Tensor, *, is_single: bool) -> None:
        self.mean, self.std, self.is_single = mean, std, is_single

    @classmethod
    def of(cls, source: Source) -> TargetScale:
        """From one pass over the targets, in float64; a target that never varies keeps its size."""
        count, total, squares, is_single = 0, torch.zeros(1), torch.zeros(1), True
        shift: Tensor | None = None
        for shard, size in enumerate(source.shard_sizes):
            if not size:
                continue
            y = read_targets(source, shard).double().cpu()
            is_single = y.ndim == 1
            y = y.reshape(size, -1)
            shift = y.mean(dim=0) if shift is None else shift
            count, total, squares = count + size, total + (y - shift).sum(0), squares + (y - shift).square().sum(0)
        if shift is None:
            raise ValueError("source must hold at least one row, got none.")
        std = (squares / count - (total / count).square()).clamp_min(0).sqrt()
        return cls(shift + total / count, torch.where(std > 0, std, 1.0), is_single=is_single)

    def __call__(self, block: Block) -> Block:
        y = (block.y.reshape(len(block.y), -1).to(self.mean) - self.mean) / self.std
        return block._replace(y=y.to(block.X))
