"""Linear heads and bottlenecks on features, models x -> head(z(x)), and averages of their logits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor, nn

from bochner import checks
from bochner.features import FeatureMap
from bochner.storage import Storable


class LinearHead(Storable):
    """logits = Z Theta + bias, for Z [N, D]; weights [C, D] = Theta^T and bias [C] start at 0.

    The layout is that of `torch.nn.Linear`: with few classes a step on a CPU takes a third of the time of [D, C].
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
    def zeros(
        cls, *, num_features: int, num_outputs: int, bias: Tensor | None = None, dtype: torch.dtype = torch.float32
    ) -> LinearHead:
        """Weights 0, and a copy of `bias` [C] or 0: the offset of the loss there starts at the best constant scores.

        >>> from bochner.models.losses import LOSSES
        >>> y = torch.tensor([[2.0], [4.0]])
        >>> head = LinearHead.zeros(num_features=5, num_outputs=1, bias=LOSSES["squared"].offset(y.mean(dim=0)))
        >>> head.bias.tolist()  # the mean: labels centred
        [3.0]
        """
        bias = _start(bias, num_outputs, dtype)
        return cls(bias.new_zeros(num_outputs, num_features), bias)

    def forward(self, Z: Tensor) -> Tensor:
        return nn.functional.linear(Z, self.weights, self.bias)

    def row_norms(self) -> Tensor:
        """The l2 norm of each feature's weights, [D]."""
        return self.weights.detach().norm(dim=0)


class BottleneckHead(Storable):
    """logits = (Z first^T) second^T + bias: Theta^T = second first has rank at most r; first [r, D], second [C, r].

    The layout is that of `torch.nn.Linear`: at rank 5 to 10 a step on a CPU takes a quarter to a half of the time of
    [D, r] and [r, C], at rank 100 about the same. O(N (D + C) r). Source: Sainath et al. 2013; May 2018, Section 4.1.

    >>> G = Generator().manual_seed(0)
    >>> BottleneckHead.glorot(num_features=8, num_outputs=5, rank=2, generator=G)(torch.ones(3, 8)).shape
    torch.Size([3, 5])
    """

    def __init__(self, first: Tensor, second: Tensor, bias: Tensor) -> None:
        super().__init__()
        if first.ndim != 2 or second.ndim != 2 or second.shape[1] != len(first) or bias.shape != second.shape[:1]:
            raise ValueError(
                f"first must be [r, D], second [C, r] and bias [C], "
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
        bias: Tensor | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> BottleneckHead:
        """Both factors uniform in +-sqrt(6 / (rows + columns)) (Glorot & Bengio 2010); a copy of `bias` [C], or 0."""
        checks.positive_int("rank", rank)
        if rank > min(num_features, num_outputs):
            raise ValueError(
                f"rank must be at most min(num_features, num_outputs), {min(num_features, num_outputs)}, got {rank}."
            )
        first = glorot_uniform(rank, num_features, generator=generator, dtype=dtype)
        second = glorot_uniform(num_outputs, rank, generator=generator, dtype=dtype)
        return cls(first, second, _start(bias, num_outputs, dtype).to(generator.device))

    @property
    def rank(self) -> int:
        return len(self.first)

    def forward(self, Z: Tensor) -> Tensor:
        return nn.functional.linear(nn.functional.linear(Z, self.first), self.second, self.bias)

    def row_norms(self) -> Tensor:
        """The l2 norm of each feature's weights, [D], from the small Gram matrix: the product is never formed."""
        first, second = self.first.detach(), self.second.detach()
        return ((second.T @ second @ first) * first).sum(dim=0).clamp_min(0).sqrt()


Head = LinearHead | BottleneckHead


def svd_bottleneck(head: LinearHead, *, rank: int) -> BottleneckHead:
    """The bottleneck head nearest to a trained one: the `rank` largest singular values of its weights.

    O(D C^2). Source: Xue et al. 2013.
    """
    checks.positive_int("rank", rank)
    U, S, Vh = torch.linalg.svd(head.weights.detach(), full_matrices=False)
    if rank > len(S):
        raise ValueError(f"rank must be at most {len(S)}, the rank of the weights, got {rank}.")
    root = S[:rank].sqrt()
    return BottleneckHead(root[:, None] * Vh[:rank], U[:, :rank] * root, head.bias.detach().clone())


def glorot_uniform(rows: int, columns: int, *, generator: Generator, dtype: torch.dtype = torch.float32) -> Tensor:
    bound = math.sqrt(6 / (rows + columns))
    uniform = torch.rand(rows, columns, generator=generator, device=generator.device, dtype=dtype)
    return (2 * uniform - 1) * bound


def _start(bias: Tensor | None, num_outputs: int, dtype: torch.dtype) -> Tensor:
    checks.positive_int("num_outputs", num_outputs)
    if bias is None:
        return torch.zeros(num_outputs, dtype=dtype)
    if bias.shape != (num_outputs,):
        raise ValueError(f"bias must have shape ({num_outputs},), one number per output, got {tuple(bias.shape)}.")
    return checks.finite("bias", bias).detach().to(dtype, copy=True)  # training must not change the caller's


class FeatureModel(Storable):
    """logits(x) = head(z(x)), with z computed on the fly and never stored for all rows.

    >>> import torch
    >>> from bochner.features import FourierMap
    >>> from bochner.kernels import Gaussian
    >>> from bochner.models.heads import LinearHead
    >>> z = FourierMap.draw(Gaussian(), num_inputs=3, num_features=64, generator=torch.Generator().manual_seed(0))
    >>> FeatureModel(z, LinearHead.zeros(num_features=64, num_outputs=5))(torch.ones(2, 3)).shape
    torch.Size([2, 5])
    """

    def __init__(self, feature_map: FeatureMap, head: Head) -> None:
        super().__init__()
        self.feature_map = feature_map
        self.head = head

    def forward(self, X: Tensor) -> Tensor:
        return self.head(self.feature_map(X))


class LogitAverage(Storable):
    """f(x) = mean_b f_b(x): models X [n, d] -> logits [n, t], each fitted on its own features.

    The mean of logits is the geometric mean of probabilities. Training B blocks of D / B features costs as much as
    training D at once, but in parallel and with 1 / B of the memory. Source: Lu et al. 2016.

    >>> import torch
    >>> LogitAverage([nn.Identity(), nn.Linear(2, 2, bias=False)])(torch.ones(1, 2)).shape
    torch.Size([1, 2])
    """

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__()
        if len(models) == 0:
            raise ValueError("models must hold at least one model, got none.")
        self.models = nn.ModuleList(models)

    def forward(self, X: Tensor) -> Tensor:
        """Mean logits; models are evaluated in turn, with the memory of one."""
        total = self.models[0](X)
        for model in self.models[1:]:
            logits = model(X)
            if logits.shape != total.shape:
                raise ValueError(f"models must agree in outputs, got {tuple(total.shape)} and {tuple(logits.shape)}.")
            total = total + logits
        return total / len(self.models)


def draw_blocks(
    draw: Callable[..., FeatureMap], *, num_features: int, num_blocks: int, generator: Generator
) -> list[FeatureMap]:
    """`num_blocks` independent maps with `num_features` together, each by draw(num_features=.., generator=..).

    >>> from functools import partial
    >>> from bochner.features import FourierMap; from bochner.kernels import Gaussian
    >>> draw = partial(FourierMap.draw, Gaussian(), num_inputs=3)
    >>> maps = draw_blocks(draw, num_features=64, num_blocks=4, generator=Generator().manual_seed(0))
    >>> [z.num_features for z in maps]
    [16, 16, 16, 16]
    """
    checks.positive_int("num_features", num_features)
    if num_features % checks.positive_int("num_blocks", num_blocks):
        raise ValueError(f"num_features must be a multiple of num_blocks, {num_blocks}, got {num_features}.")
    return [draw(num_features=num_features // num_blocks, generator=generator) for _ in range(num_blocks)]
