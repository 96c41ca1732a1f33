"""Saving and loading of estimators: one mechanism behind `bochner.save`, `bochner.load`, pickle and skops.

An estimator inherits `SavableMixin` and declares the attributes that `fit` sets. A file holds the name of its class,
its constructor parameters and these attributes; only classes that inherit the mixin can be constructed from it.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from bochner import checks
from bochner.storage import Storable, pack, unpack

ESTIMATORS: dict[str, type[SavableMixin]] = {}  # by class name; filled as classes are defined
OPTIONAL_STATE: dict[str, type] = {  # saved if they are set
    "feature_names_in_": np.ndarray,
    "target_name_": str,
    "input_offset_": np.ndarray,
}
_PACKED = "bochner_tree"  # marks a pickled attribute that was a module or tensor


class StoredEstimator(Storable):
    """Class name, constructor parameters and fitted attributes of an estimator."""

    def __init__(self, estimator: str, params: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        super().__init__()
        checks.one_of("estimator", estimator, ESTIMATORS)
        self.estimator, self.params, self.state = estimator, dict(params), dict(state)

    def restored(self) -> SavableMixin:
        """The fitted estimator."""
        return ESTIMATORS[self.estimator]._from_stored(self.params, self.state)


class SavableMixin(BaseEstimator):
    """An estimator that `bochner.save` writes, `bochner.load` restores, and pickle and skops store as plain arrays.

    A subclass declares `_fitted_state`, the attributes that `fit` sets besides `n_features_in_` and
    `feature_names_in_`, each with the type that a loaded value must have, and overrides `_check_fitted_state` if these
    attributes must agree with one another. Values may be anything that `bochner.storage.pack` accepts.

    Parameters that describe the current process are not saved and take their defaults: those in `_unsaved_params`, a
    `random_state` that is not an integer and, with a warning, functions.

    >>> class Constant(SavableMixin):
    ...     _fitted_state = {"mean_": float}
    ...     def __init__(self, *, shift=0.0):
    ...         self.shift = shift
    ...     def fit(self, X, y):
    ...         self.n_features_in_, self.mean_ = X.shape[1], float(y.mean()) + self.shift
    ...         return self
    >>> stored = Constant(shift=1.0).fit(np.zeros((4, 2)), np.arange(4)).to_storable()
    >>> stored.params, stored.state
    ({'shift': 1.0}, {'mean_': 2.5, 'n_features_in_': 2})
    >>> stored.restored()
    Constant(shift=1.0)
    """

    n_features_in_: int
    _fitted_state: ClassVar[Mapping[str, Any]] = {}
    _unsaved_params: ClassVar[tuple[str, ...]] = ("device",)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        known = ESTIMATORS.setdefault(cls.__name__, cls)
        if known.__module__ == cls.__module__:  # defined again, as in a notebook
            ESTIMATORS[cls.__name__] = cls

    def to_storable(self) -> StoredEstimator:
        """The content of the file of `bochner.save`."""
        check_is_fitted(self)
        if ESTIMATORS[type(self).__name__] is not type(self):
            raise TypeError(
                f"{type(self).__module__}.{type(self).__name__} cannot be saved: another estimator has this name; "
                "rename the class."
            )
        params = {}
        for name, value in self._params_to_save().items():
            if self._is_saved(name, value):
                params[name] = value
        state = {name: getattr(self, name) for name in (*self._fitted_state, "n_features_in_")}
        state |= {name: value for name in OPTIONAL_STATE if (value := getattr(self, name, None)) is not None}
        return StoredEstimator(type(self).__name__, params, state)

    def _params_to_save(self) -> dict[str, Any]:
        """The constructor parameters; a subclass may leave out parts of them."""
        params: dict[str, Any] = self.get_params(deep=False)
        return params

    def _is_saved(self, name: str, value: Any) -> bool:
        if name in self._unsaved_params or (name == "random_state" and not isinstance(value, int | np.integer)):
            return False
        try:
            pack(value, name, {})
        except TypeError:
            warnings.warn(
                f"{name}={value!r} of {type(self).__name__} is not saved; the loaded estimator has its default.",
                stacklevel=5,  # the call of `bochner.save`
            )
            return False
        return True

    @classmethod
    def _from_stored(cls, params: Mapping[str, Any], state: Mapping[str, Any]) -> Self:
        """The fitted estimator; anything that `to_storable` would not have written is an error."""
        for name in params:
            checks.one_of(f"parameter of {cls.__name__}", name, cls._get_param_names())
        estimator = cls(**params)
        estimator._validate_params()
        types = {**cls._fitted_state, "n_features_in_": int}
        types |= {name: kind for name, kind in OPTIONAL_STATE.items() if name in state}
        if set(state) != set(types):
            raise ValueError(f"fitted attributes must be {sorted(types)}, got {sorted(state)}.")
        for name, expected in types.items():
            # True is an int to isinstance; an attribute that may be one says bool
            if not isinstance(state[name], expected) or (isinstance(state[name], bool) and expected is not bool):
                raise TypeError(f"{name} must be {getattr(expected, '__name__', expected)}, got {state[name]!r}.")
            setattr(estimator, name, state[name])
        estimator._check_inputs()
        estimator._check_fitted_state()
        return estimator

    def _check_inputs(self) -> None:
        checks.positive_int("n_features_in_", self.n_features_in_)
        names = getattr(self, "feature_names_in_", None)
        if names is not None and (
            names.shape != (self.n_features_in_,) or not all(isinstance(name, str) for name in names)
        ):
            raise ValueError(f"feature_names_in_ must be {self.n_features_in_} column names, got {names!r}.")

    def _check_fitted_state(self) -> None:
        """Raise an error if the fitted attributes are inconsistent."""

    def __sklearn_is_fitted__(self) -> bool:
        """True after a complete `fit`; scikit-learn's own rule is met by `n_features_in_` alone."""
        return all(hasattr(self, name) for name in (*self._fitted_state, "n_features_in_"))

    # -- pickle and skops ------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """Attributes with modules and tensors as JSON and arrays: skops cannot store torch's types."""
        return {name: _to_arrays(value) for name, value in super().__getstate__().items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({name: _from_arrays(value) for name, value in state.items()})


def _to_arrays(value: Any) -> Any:
    holds_tensors = isinstance(value, dict) and any(isinstance(part, Tensor) for part in value.values())
    if not (holds_tensors or isinstance(value, Storable | Tensor)):
        return value
    tensors: dict[str, Tensor] = {}
    tree = json.dumps(pack(value, "", tensors))
    device = str(next((tensor.device for tensor in tensors.values()), "cpu"))
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
    return {_PACKED: tree, "device": device, "arrays": arrays}


def _from_arrays(value: Any) -> Any:
    if not isinstance(value, dict) or _PACKED not in value:
        return value
    try:
        device = torch.empty(0, device=value["device"]).device
    except (RuntimeError, AssertionError):  # pickled on a machine with a GPU
        device = torch.device("cpu")
    return unpack(
        json.loads(value[_PACKED]), {name: torch.tensor(part, device=device) for name, part in value["arrays"].items()}
    )
