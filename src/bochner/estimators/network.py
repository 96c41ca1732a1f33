"""Fully connected networks as classifiers and regressors: the baseline of the papers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from bochner.estimators.base import BaseModel
from bochner.estimators.classifier import ClassifierBase
from bochner.estimators.regressor import RegressorBase
from bochner.models.network import ACTIVATIONS
from bochner.search.plan import NETWORK_PARAMS, NetworkPlan, SolverParams, as_params


@dataclass(kw_only=True, eq=False, repr=False)
class NetworkModel(BaseModel):
    """The parameters of networks, which are documented in `NetworkClassifier`."""

    hidden: tuple[int, ...] = (256, 256)
    activation: str = "relu"
    batch_norm: bool = True
    dropout: float = 0.1
    residual: bool = False
    pretrain: bool = False
    standardize: bool = True
    alpha: float | None = None
    solver_params: dict[str, Any] | SolverParams | None = None
    validation_fraction: float = 0.1
    verbose: bool | None = None
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseModel._parameter_constraints,
        "hidden": ["array-like"],
        "activation": [StrOptions(set(ACTIVATIONS))],
        "batch_norm": ["boolean"],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "residual": ["boolean"],
        "pretrain": ["boolean"],
        "standardize": ["boolean"],
    }

    def make_plan(self) -> NetworkPlan:
        self._validate_params()
        activation: Any = self.activation
        return NetworkPlan(
            hidden=tuple(self.hidden),
            activation=activation,
            batch_norm=self.batch_norm,
            dropout=self.dropout,
            residual=self.residual,
            pretrain=self.pretrain,
            standardize=self.standardize,
            alpha=self.alpha,
            params=as_params(SolverParams, self.solver_params, name="solver_params", defaults=NETWORK_PARAMS),
        )


@dataclass(kw_only=True, eq=False, repr=False)
class NetworkClassifier(ClassifierBase, NetworkModel):
    """A fully connected network with batch normalisation and dropout, trained by AdamW over one cycle of the rate.

    Networks are the baseline of the papers; acoustic models and `bochner train --model network` use them too. Those of
    the papers have `activation="tanh"`, `batch_norm=False`, `dropout=0`, `pretrain=True`, `alpha=0`
    and `solver_params={"optimizer": "sgd", "schedule": "halving", "learning_rate": "auto", "improvement": 0.01,
    "max_halvings": 10}`.

    Parameters
    ----------
    hidden : tuple of int, default=(256, 256)
        Units of each hidden layer.
    activation : {"relu", "gelu", "tanh"}, default="relu"
        "tanh" in the papers.
    batch_norm : bool, default=True
        Batch normalisation of every hidden layer, see `bochner.models.network.Network`.
    dropout : float, default=0.1
        The share of units that each training step drops.
    residual : bool, default=False
        Each hidden layer from the second on is added to its input, if both have the same width.
    pretrain : bool, default=False
        Layer-wise discriminative pre-training, one epoch per layer, as in the papers.
    standardize : bool, default=True
        Centre and scale the inputs; the transformation becomes part of the first layer.
    alpha : float or None, default=None
        Weight decay of "adamw", None is 0.01: each step multiplies the weights by 1 - rate alpha. With another
        optimizer the penalty alpha/2 ||weights||^2 is added to the mean loss, and None is 0.
    solver_params : dict, SolverParams or None, default=None
        Options of the training loop, see `bochner.search.SolverParams`. Unless given, the optimizer is "adamw" with a
        rate of 0.002 and the schedule "one-cycle" of 30 epochs in batches of at most 128. `rank` is that of a linear
        bottleneck before the outputs.
    validation_fraction : float, default=0.1
        Fraction of the rows on which every epoch is scored, and by which the schedule "halving" stops early.
    class_weight : dict, "balanced" or None, default=None
        Weights by class; "balanced" weights classes inversely to their frequency.
    verbose : bool or None, default=None
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_, model_, history_, choices_
        As in `KernelClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> network = NetworkClassifier(random_state=0).fit(X[:1000], y[:1000])
    >>> network.score(X[1000:], y[1000:]) > 0.8
    True
    """

    class_weight: dict[Any, float] | str | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **NetworkModel._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }
    _fitted_state: ClassVar[Mapping[str, Any]] = {
        **NetworkModel._fitted_state,
        "classes_": np.ndarray,
        "multilabel_": bool,
    }


class NetworkRegressor(RegressorBase, NetworkModel):
    """A fully connected network for numbers; parameters are those of `NetworkClassifier` except for `class_weight`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-3, 3, 500)[:, None]
    >>> network = NetworkRegressor(random_state=0)
    >>> network.fit(X, np.sin(X[:, 0])).score(X, np.sin(X[:, 0])) > 0.95
    True
    """

    _fitted_state: ClassVar[Mapping[str, Any]] = {**NetworkModel._fitted_state, "single_target_": bool}
