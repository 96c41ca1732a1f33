"""Networks by their formulas: float64, one row at a time, gradients by hand, nothing shared with the package."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass
class NaiveNetwork:
    """Layers of (W [out, in], b [out]), the last one linear; every layer but that has the activation."""

    layers: list[tuple[Array, Array]]
    activation: str

    def logits(self, X: Array) -> Array:
        return np.stack([self._states(x)[-1] for x in X])

    def gradients(self, X: Array, y: Array, loss: str) -> list[tuple[Array, Array]]:
        """Of the mean loss over the rows, for each layer."""
        total = [(np.zeros_like(W), np.zeros_like(b)) for W, b in self.layers]
        for x, target in zip(X, y, strict=True):
            states = self._states(x)
            error = _error(states[-1], target, loss)
            for i in reversed(range(len(self.layers))):
                total[i][0][:] += np.outer(error, states[i]) / len(X)
                total[i][1][:] += error / len(X)
                error = (self.layers[i][0].T @ error) * self._slope(states[i])
        return total

    def step(self, X: Array, y: Array, *, rate: float, l2: float = 0.0, loss: str = "softmax") -> None:
        moved = zip(self.layers, self.gradients(X, y, loss), strict=True)
        self.layers = [(W - rate * (dW + l2 * W), b - rate * db) for (W, b), (dW, db) in moved]

    def _states(self, x: Array) -> list[Array]:
        states = [x]
        for i, (W, b) in enumerate(self.layers):
            a = W @ states[-1] + b
            last = i == len(self.layers) - 1
            states.append(a if last else np.tanh(a) if self.activation == "tanh" else np.maximum(a, 0))
        return states

    def _slope(self, z: Array) -> Array:
        """The activation's derivative, from its value."""
        return 1 - z**2 if self.activation == "tanh" else (z > 0).astype(float)


def _error(logits: Array, target: Array, loss: str) -> Array:
    """d loss / d logits of one row."""
    match loss:
        case "softmax":
            p = np.exp(logits - logits.max())
            p /= p.sum()
            p[int(target)] -= 1
            return p
        case "logistic":
            return 1 / (1 + np.exp(-logits)) - target
        case _:
            return logits - target
