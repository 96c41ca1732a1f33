"""A fitted low-rank estimator as something that can be written to a file without pickle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from bochner import checks
from bochner.estimators.stored import plain
from bochner.models import LandmarkModel
from bochner.models.heads import FeatureModel
from bochner.storage import Storable

KINDS: dict[str, Any] = {}  # filled by the classes that inherit StoresItself
MODELS = FeatureModel | LandmarkModel


class StoredLowRank(Storable):
    """Parameters and fitted state of a low-rank estimator: plain values and a model.

    `settings` are (name, value) pairs of constructor arguments, `numbers` those of fitted attributes that are numbers
    or lists of them.
    """

    def __init__(
        self,
        kind: str,
        settings: Sequence[Sequence[Any]],
        model: MODELS,
        numbers: Sequence[Sequence[Any]],
        num_inputs: int,
        column_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        checks.one_of("kind", kind, KINDS)
        if not isinstance(model, MODELS):
            raise TypeError(f"model must be a FeatureModel or a LandmarkModel, got {model!r}.")
        _check_numbers(numbers, KINDS[kind]._numbers)
        self.kind, self.settings = kind, [list(pair) for pair in settings]
        self.model, self.numbers = model, [list(pair) for pair in numbers]
        self.num_inputs = checks.positive_int("num_inputs", num_inputs)
        self.column_names = None if column_names is None else list(column_names)

    def restored(self) -> Any:
        """The fitted estimator."""
        estimator = KINDS[self.kind](**dict(self.settings))
        estimator._validate_params()
        estimator.model_, estimator.n_features_in_ = self.model, self.num_inputs
        for name, value in self.numbers:
            setattr(estimator, name, np.array(value, dtype=np.float64) if isinstance(value, list) else value)
        if self.column_names is not None:
            estimator.feature_names_in_ = np.array(self.column_names, dtype=object)
        return estimator


def _check_numbers(numbers: Sequence[Sequence[Any]], names: Sequence[str]) -> None:
    """The attributes of that class, all of them and no others, each a number, a truth value or a list of numbers."""
    checks.one_of("names of numbers", sorted(name for name, _ in numbers), [sorted(names)])
    for name, value in numbers:
        parts = value if isinstance(value, list) else [value]
        if not all(isinstance(part, bool | int | float) for part in parts):
            raise TypeError(f"{name} must be a number, a truth value or a list of numbers, got {value!r}.")


class StoresItself(BaseEstimator):
    """An estimator that `bochner.save` writes and `bochner.load` brings back, without its random state and without a
    `method` that is a function: the model needs neither."""

    model_: MODELS
    _numbers: tuple[str, ...] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        KINDS[cls.__name__] = cls

    def to_storable(self) -> StoredLowRank:
        check_is_fitted(self)
        settings = {name: plain(value) for name, value in self.get_params(deep=False).items()}
        if not isinstance(settings["method"], str):
            del settings["method"]
        numbers = [[name, np.asarray(getattr(self, name)).tolist()] for name in self._numbers]
        names = getattr(self, "feature_names_in_", None)
        return StoredLowRank(
            type(self).__name__,
            list(settings.items()),
            self.model_,
            numbers,
            self.n_features_in_,
            None if names is None else names.tolist(),
        )
