"""Early stopping: the best epoch so far, and how long ago it was."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class Patience:
    """Stops after `epochs` epochs in which a heldout value that should fall did not, and remembers the best state.

    >>> patience = Patience(epochs=2)
    >>> weight = torch.zeros(1)
    >>> for value in (3.0, 1.0, 2.0, 1.0):
    ...     improved = patience.judge(value, {"weight": weight.fill_(value)})
    >>> patience.finished, patience.best
    (True, 1.0)
    >>> patience.restore({"weight": weight})
    >>> weight
    tensor([1.])
    """

    epochs: int
    best: float = math.inf
    waited: int = 0
    state: dict[str, Tensor] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        return self.waited >= self.epochs

    def judge(self, value: float, parameters: Mapping[str, Tensor]) -> bool:
        """Whether `value` is the best so far; then the parameters that made it are copied."""
        if value >= self.best:
            self.waited += 1
            return False
        self.best, self.waited = value, 0
        self.state = {name: p.detach().clone() for name, p in parameters.items()}
        return True

    def restore(self, parameters: Mapping[str, Tensor]) -> None:
        """Put the best state back, in place."""
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(self.state[name])
