"""A fitted classifier or regressor as something that can be written to a file without pickle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from bochner import checks
from bochner.kernels import Kernel
from bochner.search.fit import SOLVERS, bias_of
from bochner.storage import Storable

KINDS: dict[str, Any] = {}  # filled by the estimators' classes, "KernelClassifier" and "KernelRegressor"


class StoredMachine(Storable):
    """Parameters and fitted state of a `KernelMachine`: plain values, a kernel and a model.

    `settings` are (name, value) pairs of constructor arguments; `classes` of a classifier; `column_names` of inputs;
    `is_single` says that a regressor's targets were one number a row.
    """

    def __init__(
        self,
        kind: str,
        settings: Sequence[Sequence[Any]],
        model: nn.Module,
        kernel: Kernel,
        solver: str,
        num_inputs: int,
        classes: Sequence[Any] | None = None,
        column_names: Sequence[str] | None = None,
        is_single: bool = True,
    ) -> None:
        super().__init__()
        checks.one_of("kind", kind, KINDS)
        checks.one_of("solver", solver, SOLVERS)
        if not isinstance(kernel, Kernel) or not isinstance(model, nn.Module):
            raise TypeError(f"kernel and model must be a Kernel and a module, got {kernel!r} and {model!r}.")
        self.kind, self.settings = kind, [list(pair) for pair in settings]
        self.model, self.kernel, self.solver = model, kernel, solver
        self.num_inputs = checks.positive_int("num_inputs", num_inputs)
        self.classes = None if classes is None else list(classes)
        self.column_names = None if column_names is None else list(column_names)
        self.is_single = bool(is_single)

    def restored(self) -> Any:
        """The fitted estimator."""
        settings = {
            name: dict(value) if name == "class_weight" and isinstance(value, list) else value
            for name, value in self.settings
        }
        machine = KINDS[self.kind](**settings)
        machine._validate_params()
        self._check_outputs()
        machine.model_, machine.kernel_, machine.solver_ = self.model, self.kernel, self.solver
        machine.history_, machine.n_features_in_ = [], self.num_inputs
        if self.column_names is not None:
            machine.feature_names_in_ = np.array(self.column_names, dtype=object)
        if self.classes is not None:
            machine.classes_ = np.array(self.classes)
        machine._is_single = self.is_single
        return machine

    def _check_outputs(self) -> None:
        """The model takes rows of `num_inputs`, and gives a score for each class, or one for two."""
        with torch.no_grad():
            given = self.model(bias_of(self.model).new_zeros(1, self.num_inputs)).shape[1]
        if self.classes is not None and given != len(self.classes) and (given, len(self.classes)) != (1, 2):
            raise ValueError(f"model must give a score for each of {len(self.classes)} classes, got {given}.")


def plain(value: Any) -> Any:
    """A constructor argument as JSON knows it; what only this process knows (a folder, a random state) is left out."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return [[plain(key), plain(part)] for key, part in value.items()]
    if isinstance(value, torch.device):
        return str(value)
    return value if isinstance(value, Storable | bool | int | float | str) else None
