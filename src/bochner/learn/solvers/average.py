"""Blocks of features trained apart and averaged in the logits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Generator, Tensor, nn

from bochner import checks
from bochner.features import FeatureMap
from bochner.storage import Storable


class LogitAverage(Storable):
    """f(x) = mean_b f_b(x): models X [n, d] -> logits [n, t], each fitted on features of its own.

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
        """Logits one model after the other: the memory of one."""
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
