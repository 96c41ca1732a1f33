"""Fully connected networks, the baseline of the papers' kernel models."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Generator, Tensor, nn

from bochner import checks
from bochner.models.heads import BottleneckHead, Head, LinearHead, glorot_uniform
from bochner.storage import Storable

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "relu": torch.relu}


class Network(Storable):
    """L hidden layers of tanh or ReLU units under a linear head, whole or through a bottleneck:

        z_0 = x,   z_l = activation(W_l z_{l-1} + b_l),   logits = head(z_L)

    X [N, d_0]; W_l [d_l, d_{l-1}] as in `torch.nn.Linear`, b_l [d_l]; weights[0] is W_1; the head takes d_L features.
    O(N sum_l d_l d_{l-1}) and the head's cost; training keeps O(B sum_l d_l) activations of a batch of B rows.
    Source: May 2018, Section 4.3 (4 layers of 1000, 2000 or 4000 tanh units were best); JMLR 2019, Section 6.

    >>> network = Network.draw(num_inputs=3, hidden=[8, 8], num_outputs=5, generator=Generator().manual_seed(0))
    >>> network(torch.ones(2, 3)).shape
    torch.Size([2, 5])
    """

    def __init__(self, weights: Sequence[Tensor], biases: Sequence[Tensor], activation: str, head: Head) -> None:
        super().__init__()
        checks.one_of("activation", activation, ACTIVATIONS)
        self.num_outputs = _check_shapes(list(weights), list(biases), head)
        self.weights, self.biases = nn.ParameterList(weights), nn.ParameterList(biases)
        self.activation = activation
        self.head = head

    @classmethod
    def draw(
        cls,
        *,
        num_inputs: int,
        hidden: Sequence[int],
        num_outputs: int,
        activation: str = "tanh",
        rank: int | None = None,
        generator: Generator,
        dtype: torch.dtype = torch.float32,
    ) -> Network:
        """A network at its random start, on the generator's device; `rank` puts a linear bottleneck before the output.

        Tanh layers and the head start uniform in +-sqrt(6 / (d_in + d_out)) (Glorot & Bengio 2010), as in the papers.
        ReLU layers start uniform in +-sqrt(6 / d_in) (He et al. 2015): a ReLU passes on half of the mean square it is
        given, so that Glorot's variance, right for tanh near 0, would halve the signal in every layer. Biases are 0.
        """
        checks.positive_int("num_inputs", num_inputs)
        checks.positive_int("num_outputs", num_outputs)
        checks.one_of("activation", activation, ACTIVATIONS)
        widths = [num_inputs, *_check_widths(hidden)]
        start = _he_uniform if activation == "relu" else glorot_uniform
        weights = [start(b, a, generator=generator, dtype=dtype) for a, b in pairwise(widths)]
        biases = [torch.zeros(len(W), dtype=dtype, device=W.device) for W in weights]
        return cls(weights, biases, activation, _draw_head(widths[-1], num_outputs, rank, generator, dtype))

    @property
    def num_inputs(self) -> int:
        return self.weights[0].shape[1]

    @property
    def widths(self) -> list[int]:
        """Units in each hidden layer."""
        return [len(W) for W in self.weights]

    def forward(self, X: Tensor) -> Tensor:
        Z = checks.inputs("X", X, width=self.num_inputs)
        for W, b in zip(self.weights, self.biases, strict=True):
            Z = ACTIVATIONS[self.activation](nn.functional.linear(Z, W, b))
        return self.head(Z)

    @torch.no_grad()
    def fold_inputs(self, mean: Tensor, std: Tensor) -> None:
        """Turn f((x - mean) / std) into f(x), in place: W_1 <- W_1 / std, b_1 <- b_1 - W_1 mean / std."""
        W, b = self.weights[0], self.biases[0]
        W.copy_(W / std.to(W))
        b.sub_(W @ mean.to(W))

    def lower(self, num_layers: int, *, generator: Generator) -> Network:
        """The first `num_layers` hidden layers under a fresh head of this one's kind.

        The layers are shared, not copied: what trains the lower network trains this one. A bottleneck keeps its rank
        where the layer below it is that wide.

        >>> deep = Network.draw(num_inputs=3, hidden=[8, 4], num_outputs=5, generator=Generator().manual_seed(0))
        >>> shallow = deep.lower(1, generator=Generator().manual_seed(1))
        >>> shallow.widths, shallow.weights[0] is deep.weights[0]
        ([8], True)
        """
        if checks.positive_int("num_layers", num_layers) > len(self.weights):
            raise ValueError(f"num_layers must be at most {len(self.weights)}, the hidden layers, got {num_layers}.")
        top = self.weights[num_layers - 1]
        rank = min(self.head.rank, len(top), self.num_outputs) if isinstance(self.head, BottleneckHead) else None
        head = _draw_head(len(top), self.num_outputs, rank, generator, top.dtype).to(top.device)
        return Network([*self.weights[:num_layers]], [*self.biases[:num_layers]], self.activation, head)


def _draw_head(num_features: int, num_outputs: int, rank: int | None, generator: Generator, dtype: torch.dtype) -> Head:
    if rank is not None:
        return BottleneckHead.glorot(
            num_features=num_features, num_outputs=num_outputs, rank=rank, generator=generator, dtype=dtype
        )
    weights = glorot_uniform(num_outputs, num_features, generator=generator, dtype=dtype)
    return LinearHead(weights, weights.new_zeros(num_outputs))


def _he_uniform(d_out: int, d_in: int, *, generator: Generator, dtype: torch.dtype) -> Tensor:
    uniform = torch.rand(d_out, d_in, generator=generator, device=generator.device, dtype=dtype)
    return (2 * uniform - 1) * math.sqrt(6 / d_in)


def _check_widths(hidden: Sequence[int]) -> list[int]:
    if len(hidden) == 0:
        raise ValueError("hidden must hold the width of at least one layer, got none.")
    return [checks.positive_int(f"hidden[{i}]", width) for i, width in enumerate(hidden)]


def _check_shapes(weights: list[Tensor], biases: list[Tensor], head: Head) -> int:
    """Whether each layer fits the next, and how many outputs come out of the last."""
    if len(weights) == 0 or len(weights) != len(biases):
        raise ValueError(
            f"weights and biases must hold one tensor per layer, at least one, got {len(weights)} and {len(biases)}."
        )
    for i, (W, b) in enumerate(zip(weights, biases, strict=True)):
        d_in = len(weights[i - 1]) if i else W.shape[-1]
        if W.ndim != 2 or W.shape[1] != d_in or b.shape != W.shape[:1]:
            raise ValueError(
                f"weights[{i}] must be [d_out, {d_in}] and biases[{i}] [d_out], "
                f"got {tuple(W.shape)} and {tuple(b.shape)}."
            )
    return _num_outputs(head, weights[-1])


def _num_outputs(head: Head, top: Tensor) -> int:
    if not isinstance(head, Head):
        raise TypeError(f"head must be a LinearHead or BottleneckHead, got {type(head).__name__}.")
    try:
        with torch.no_grad():
            return head(top.new_empty(0, len(top))).shape[1]  # no rows: costs nothing, knows no layout
    except RuntimeError as error:
        raise ValueError(f"head must take {len(top)} features, the width of the last layer: {error}") from error
