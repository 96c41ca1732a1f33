"""The parameters that the classifier and the regressor share."""

from __future__ import annotations

import os
from numbers import Integral, Real
from typing import Any, ClassVar

import torch
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions

from bochner.features import PROJECTION_NAMES
from bochner.kernels import Kernel
from bochner.search.fit import SOLVERS
from bochner.search.kernel import KERNEL_CONSTRAINTS
from bochner.solvers.settings import OPTIMIZERS, PRECISIONS

_COUNT = Interval(Integral, 1, None, closed="left")
_POSITIVE = Interval(Real, 0, None, closed="neither")


class MachineParameters(BaseEstimator):
    """Stored as they are given; what they mean is told at `KernelClassifier`."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KERNEL_CONSTRAINTS,
        "num_features": [_COUNT],
        "projection": [StrOptions(set(PROJECTION_NAMES))],
        "standardize": ["boolean"],
        "solver": [StrOptions(set(SOLVERS))],
        "ridge": [None, Interval(Real, 0, None, closed="left")],
        "rank": [None, _COUNT],
        "num_blocks": [_COUNT],
        "optimizer": [StrOptions(set(OPTIMIZERS))],
        "learning_rate": [StrOptions({"auto"}), _POSITIVE],
        "batch_size": [_COUNT],
        "preconditioner_rank": [StrOptions({"auto"}), Interval(Integral, 0, None, closed="left")],
        "average": ["boolean"],
        "adapt": [None, StrOptions({"agop"})],
        "adapt_rounds": [_COUNT],
        "criterion": [None, str],
        "max_epochs": [_COUNT],
        "improvement": [Interval(Real, 0, None, closed="left")],
        "max_halvings": [_COUNT],
        "heldout_fraction": [Interval(Real, 0, 1, closed="neither")],
        "precision": [StrOptions({"float64", *PRECISIONS})],
        "memory_budget": [None, str, _COUNT],
        "folder": [None, str, os.PathLike],
        "device": [str, torch.device],
        "verbose": [None, "boolean"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        kernel: str | Kernel = "gaussian",
        bandwidth: float | str | None = None,
        num_features: int = 4096,
        projection: str = "auto",
        standardize: bool = False,
        solver: str = "auto",
        ridge: float | None = None,
        rank: int | None = None,
        num_blocks: int = 1,
        optimizer: str = "sgd",
        learning_rate: float | str = "auto",
        batch_size: int = 1024,
        preconditioner_rank: int | str = "auto",
        average: bool = True,
        adapt: str | None = None,
        adapt_rounds: int = 4,
        criterion: str | None = None,
        max_epochs: int = 100,
        improvement: float = 0.003,
        max_halvings: int = 3,
        heldout_fraction: float = 0.1,
        precision: str = "float32",
        memory_budget: int | str | None = None,
        folder: str | os.PathLike[str] | None = None,
        device: str | torch.device = "auto",
        verbose: bool | None = None,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.num_features = num_features
        self.projection = projection
        self.standardize = standardize
        self.solver = solver
        self.ridge = ridge
        self.rank = rank
        self.num_blocks = num_blocks
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.preconditioner_rank = preconditioner_rank
        self.average = average
        self.adapt = adapt
        self.adapt_rounds = adapt_rounds
        self.criterion = criterion
        self.max_epochs = max_epochs
        self.improvement = improvement
        self.max_halvings = max_halvings
        self.heldout_fraction = heldout_fraction
        self.precision = precision
        self.memory_budget = memory_budget
        self.folder = folder
        self.device = device
        self.verbose = verbose
        self.random_state = random_state
