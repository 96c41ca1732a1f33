"""Regressors: numbers from kernel models and networks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from types import NoneType
from typing import Any, ClassVar, Self

import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import get_scorer
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.utils.data import DataLoader

from bochner.data.blocks import Block, Source, read_targets
from bochner.estimators.base import (
    BaseModel,
    KernelModel,
    as_tensor,
    bias_of,
    make_generator,
    refuse_targets,
    rescale,
    resolves,
)
from bochner.estimators.inputs import read_test, read_training
from bochner.models.intervals import Uncertainty
from bochner.search.plan import KernelPlan


class RegressorBase(RegressorMixin, BaseModel):
    """Fitting to numbers, and predictions."""

    single_target_: bool
    uncertainty_: Uncertainty | None

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        target: str | int | None = None,
        validation_data: Any = None,
        group: Any = None,
    ) -> Self:
        """Fit the model to X [n, d] and numbers y [n] or [n, t], or to a source that holds both.

        The other arguments are those of `KernelClassifier.fit`. Targets are centred and scaled internally.
        """
        plan, seed = self.make_plan(), make_generator(self.random_state).initial_seed()
        self.__dict__.pop("target_name_", None)  # of an earlier fit
        if target is not None or isinstance(X, str | os.PathLike | DataLoader):
            X, y, sample_weight, name = read_training(X, y, sample_weight, target)
            if name is not None:
                self.target_name_ = name
        if isinstance(X, Source):
            refuse_targets(y, sample_weight)
        else:
            X, y = self._check_pair(X, y, sample_weight=sample_weight)
        rows = self._read_rows(X, y, sample_weight, validation_data, plan.params, seed=seed)
        scale = TargetScale.of(rows.all_rows)
        self.single_target_ = scale.is_single
        if isinstance(plan, KernelPlan) and plan.scoring is not None:
            plan = replace(plan, scoring=ScoreOfTargets(plan.scoring, scale))
        fitted = self._fit_rows(plan, rows.mapped(scale), num_classes=None, seed=seed, group=group)
        uncertainty = fitted.uncertainty
        if not resolves(scale.mean, scale.std):
            self.model_ = self.model_.double()
            uncertainty = None if uncertainty is None else uncertainty.double()
        rescale(self.model_, scale.mean, scale.std)
        for name in ("predictions", "targets"):
            values = self.validation_.get(name)
            if values is not None:
                self.validation_[name] = values * scale.std.to(values) + scale.mean.to(values)
        if isinstance(self, KernelModel):
            self.uncertainty_ = None if uncertainty is None else uncertainty.rescaled(scale.std)
        return self

    def predict(self, X: Any) -> Any:
        """f(X), [n] or [n, t] as y was."""
        return self._shaped(X, self._scores(X))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """R2; y may be left out if X holds the target of `fit`: a file, a frame, a source, a data loader."""
        if y is None:
            X, y, sample_weight, _ = read_test(self, X, sample_weight)
        return float(super().score(X, y, sample_weight))

    def _shaped(self, X: Any, values: Tensor) -> Any:
        """Values [n, t] in the shape of y and the type of X."""
        return self._like(X, values[:, 0] if self.single_target_ else values)

    def export_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write an ONNX graph from X [N, d] to `scores`, the predictions [N, t]; needs bochner[onnx].

        X is float32, or float64 if that does not resolve a column.
        """
        self._export(path)

    def _encode(self, y: Any) -> Tensor:
        return as_tensor(y).to(torch.float64)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class KernelRegressor(RegressorBase, KernelModel):
    """Kernel least squares on tables of any size: a searched model by default, or the solver of your choice.

    Parameters are those of `KernelClassifier`, except for `class_weight`; see there for what is searched. With
    preset=None the solver "auto" is "landmarks" with all rows as landmarks up to 2,048 rows, "ridge" beyond that up to
    8,192 features, and "sgd" above; `alpha` is chosen on validation rows. The criterion of "sgd" is "mse"; the solver
    "newton" and adapt="sab" are for classes only.

    Attributes
    ----------
    model_ : torch.nn.Module
        Returns predictions [n, t].
    kernel_, solver_, history_, choices_, search_results_, validation_, feature_importances_, encoder_
        As in `KernelClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-3, 3, 500)[:, None]
    >>> KernelRegressor(random_state=0).fit(X, np.sin(X[:, 0])).score(X, np.sin(X[:, 0])) > 0.999
    True
    """

    _fitted_state: ClassVar[Mapping[str, Any]] = {
        **KernelModel._fitted_state,
        "single_target_": bool,
        "uncertainty_": (Uncertainty, NoneType),
    }

    def predict(self, X: Any, *, return_std: bool = False) -> Any:
        """f(X), [n] or [n, t] as y was; with `return_std` also the standard deviations of targets around f(X).

        They follow from residuals of rows that were left out, grow away from the training rows, and vary with the noise
        where it does; see `bochner.models.intervals.Uncertainty`. The default search has them; other solvers do not.
        """
        if not return_std:
            return super().predict(X)
        uncertainty, encoded = self._checked_uncertainty(), self._encoded_inputs(X)
        std = torch.cat([uncertainty.std(block) for block in self._blocks(encoded)])
        return self._shaped(X, self._encoded_scores(encoded)), self._shaped(X, std.cpu())

    def predict_interval(self, X: Any, *, coverage: float = 0.9) -> tuple[Any, Any]:
        """Lower and upper ends of intervals that hold a share `coverage` of new targets, each [n] or [n, t] as y was.

        Conformal intervals from residuals of up to 2,000 rows that were left out: their coverage does not rest on a
        distribution of the noise. It is an average over rows X, and for several targets holds for each by itself. r
        rows with residuals serve coverages up to r / (r + 1); more is an error.
        """
        uncertainty, encoded = self._checked_uncertainty(), self._encoded_inputs(X)
        scores, ends, start = self._encoded_scores(encoded), [], 0
        for block in self._blocks(encoded):
            part = scores[start : start + len(block)].to(block.device)
            ends.append(torch.stack(uncertainty.interval(part, block, coverage)).cpu())
            start += len(block)
        lower, upper = torch.cat(ends, dim=1)
        return self._shaped(X, lower), self._shaped(X, upper)

    def _checked_uncertainty(self) -> Uncertainty:
        check_is_fitted(self)
        if self.uncertainty_ is None:
            raise ValueError(
                "standard deviations and intervals need a model that was searched and fitted to two rows or more by "
                f"exact least squares: preset 'fast', 'default' or 'best', and solver 'auto' or 'exact'; got "
                f"preset={self.preset!r} and solver_={self.solver_!r}."
            )
        return self.uncertainty_

    def _check_fitted_state(self) -> None:
        super()._check_fitted_state()
        if self.uncertainty_ is not None:
            row = bias_of(self.model_).new_zeros(1, self._num_inputs)
            if self.uncertainty_.std(row).shape != self.model_(row).shape:
                raise ValueError("uncertainty_ must have as many outputs as model_.")

    @available_if(KernelModel._can_step)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Take one pass of minibatch steps over these rows. The first rows determine the bandwidth and the features."""
        self.make_plan()
        first = not hasattr(self, "model_")
        X, y = self._check_pair(X, y, sample_weight=sample_weight, reset=first)
        targets = self._encode(y)
        if not first and targets[:1].numel() != len(bias_of(self.model_)):
            raise ValueError(f"y must have {len(bias_of(self.model_))} columns as before, got {targets[:1].numel()}.")
        self.single_target_, self.uncertainty_ = targets.ndim == 1, None
        self._step(X, targets, sample_weight, num_classes=None)
        return self


class TargetScale:
    """Blocks with targets (y - mean) / std [n, t]; one that never varies (std 0) is only centred."""

    def __init__(self, mean: Tensor, std: Tensor, *, is_single: bool) -> None:
        self.mean, self.std, self.is_single = mean, std, is_single

    @classmethod
    def of(cls, source: Source) -> TargetScale:
        """From one pass over the targets, in float64."""
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
        if not squares.isfinite().all():
            raise ValueError("y must vary by less than 1e150; divide it by a constant.")
        std = (squares / count - (total / count).square()).clamp_min(0).sqrt()
        return cls(shift + total / count, std, is_single=is_single)

    def __call__(self, block: Block) -> Block:
        scale = torch.where(self.std > 0, self.std, 1.0)
        y = (block.y.reshape(len(block.y), -1).to(self.mean) - self.mean) / scale
        return block._replace(y=y.to(block.X))


class ScoreOfTargets:
    """The scorer `scoring`, for predictions and targets that were scaled by `scale`: a score such as a percentage error
    refers to the targets that the user gave."""

    def __init__(self, scoring: Any, scale: TargetScale) -> None:
        self.name, self.scorer = scoring, get_scorer(scoring) if isinstance(scoring, str) else scoring
        self.mean, self.std = (part[0].item() if scale.is_single else part.numpy() for part in (scale.mean, scale.std))

    def __call__(self, estimator: Any, X: Any, y: Any) -> Any:
        predictions = estimator.predict(X) * self.std + self.mean
        try:
            return self.scorer(_Known(predictions), X, y * self.std + self.mean)
        except ValueError as error:
            raise ValueError(f"scoring={self.name!r} cannot score these targets and predictions: {error}") from error

    def __repr__(self) -> str:
        return repr(self.name)


class _Known(RegressorMixin, BaseEstimator):
    """An estimator with known predictions."""

    def __init__(self, predictions: Any) -> None:
        self.predictions = predictions

    def fit(self, X: Any, y: Any) -> Self:
        return self

    def predict(self, X: Any) -> Any:
        return self.predictions

    def __sklearn_is_fitted__(self) -> bool:
        return True
