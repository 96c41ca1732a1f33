"""Linear heads on features: logits = z Theta + b, whole or through a bottleneck."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor, nn

from bochner import checks
from bochner.storage import Storable


class LinearHead(Storable):
    """logits = Z Theta + bias, for Z [N, D]; weights [C, D] = Theta^T and bias [C] start at 0.

    The weights lie as in `torch.nn.Linear`: with few classes a step on a CPU takes a third of the time of [D, C].
    O(NDC). Source: May 2018, Section 4.1.

    >>> LinearHead.zeros(num_features=4, num_outputs=3)(torch.ones(2, 4)).shape
    torch.Size([2, 3])
    """

    def __init__(self, weights: Tensor, bias: Tensor) -> None:
        super().__init__()
        if weights.ndim != 2 or bias.shape != weights.shape[:1]:
            raise ValueError(
                f"weights must be [C, D] and bias [C], got {tuple(weights.shape)} and {tuple(bias.shape)}."
            )
        self.weights, self.bias = nn.Parameter(weights), nn.Parameter(bias)

    @classmethod
    def zeros(cls, *, num_features: int, num_outputs: int, dtype: torch.dtype = torch.float32) -> LinearHead:
        checks.positive_int("num_outputs", num_outputs)
        return cls(torch.zeros(num_outputs, num_features, dtype=dtype), torch.zeros(num_outputs, dtype=dtype))

    def forward(self, Z: Tensor) -> Tensor:
        return nn.functional.linear(Z, self.weights, self.bias)

    def row_norms(self) -> Tensor:
        """The l2 norm of each feature's weights, [D]."""
        return self.weights.detach().norm(dim=0)


class BottleneckHead(Storable):
    """logits = (Z first) second + bias: Theta = first second has rank at most r; first [D, r], second [r, C].

    O(N (D + C) r). Source: Sainath et al. 2013; May 2018, Section 4.1.
    """

    def __init__(self, first: Tensor, second: Tensor, bias: Tensor) -> None:
        super().__init__()
        if first.ndim != 2 or second.ndim != 2 or first.shape[1] != len(second) or bias.shape != second.shape[1:]:
            raise ValueError(
                f"first must be [D, r], second [r, C] and bias [C], "
                f"got {tuple(first.shape)}, {tuple(second.shape)} and {tuple(bias.shape)}."
            )
        self.first, self.second, self.bias = nn.Parameter(first), nn.Parameter(second), nn.Parameter(bias)

    @classmethod
    def glorot(
        cls,
        *,
        num_features: int,
        num_outputs: int,
        rank: int,
        generator: Generator,
        dtype: torch.dtype = torch.float32,
    ) -> BottleneckHead:
        """Both factors uniform in +-sqrt(6 / (rows + columns)) (Glorot & Bengio 2010), bias 0."""
        checks.positive_int("rank", rank)
        if rank > min(num_features, num_outputs):
            raise ValueError(
                f"rank must be at most min(num_features, num_outputs), {min(num_features, num_outputs)}, got {rank}."
            )
        first = glorot_uniform(num_features, rank, generator=generator, dtype=dtype)
        second = glorot_uniform(rank, num_outputs, generator=generator, dtype=dtype)
        return cls(first, second, torch.zeros(num_outputs, dtype=dtype, device=generator.device))

    def forward(self, Z: Tensor) -> Tensor:
        return torch.addmm(self.bias, Z @ self.first, self.second)

    def row_norms(self) -> Tensor:
        """The l2 norm of each row of first second, [D], from the small Gram matrix: the product is never formed."""
        gram = self.second.detach() @ self.second.detach().T
        return ((self.first.detach() @ gram) * self.first.detach()).sum(dim=1).clamp_min(0).sqrt()


Head = LinearHead | BottleneckHead


def svd_bottleneck(head: LinearHead, *, rank: int) -> BottleneckHead:
    """The bottleneck head nearest to a trained one: the `rank` largest singular values of its weights.

    O(D C^2). Source: Xue et al. 2013.
    """
    checks.positive_int("rank", rank)
    U, S, Vh = torch.linalg.svd(head.weights.detach().T, full_matrices=False)
    if rank > len(S):
        raise ValueError(f"rank must be at most {len(S)}, the rank of the weights, got {rank}.")
    root = S[:rank].sqrt()
    return BottleneckHead(U[:, :rank] * root, root[:, None] * Vh[:rank], head.bias.detach().clone())


def glorot_uniform(rows: int, columns: int, *, generator: Generator, dtype: torch.dtype = torch.float32) -> Tensor:
    bound = math.sqrt(6 / (rows + columns))
    uniform = torch.rand(rows, columns, generator=generator, device=generator.device, dtype=dtype)
    return (2 * uniform - 1) * bound
