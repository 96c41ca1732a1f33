"""One process's part of a model's features, whose scores are summed with those of the other parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from bochner.features import FourierMap
from bochner.models.heads import BottleneckHead, FeatureModel, Head, LinearHead
from bochner.solvers.optimizers import trainable
from bochner.solvers.preconditioner import Preconditioner

if TYPE_CHECKING:
    from bochner.solvers.parallel.workers import Workers


def is_by_feature(name: str, tensor: Tensor) -> bool:
    """Whether a tensor of a `FeatureModel` in training has one column per feature: Theta^T, the first factor of a
    bottleneck, and the optimizer's state for them, its first parameter.

    >>> import torch
    >>> is_by_feature("now.model.head.weights", torch.ones(3, 8)), is_by_feature("now.model.head.bias", torch.ones(3))
    (True, False)
    """
    first = ".optimizer.0." in f".{name}"
    return tensor.ndim == 2 and (first or name.endswith(("head.weights", "head.first")))


def forms_of(model: nn.Module) -> int:
    """Features per frequency: 1, its cosine, or 2, cosine and sine."""
    return 2 if isinstance(model, FeatureModel) and getattr(model.feature_map, "form", "cosine") == "paired" else 1


def columns_of(tensor: Tensor, forms: int, number: int, count: int) -> Tensor:
    """The columns of part `number` of `count` of a tensor [lead, forms P], with cosines before sines.

    >>> import torch
    >>> columns_of(torch.arange(8).reshape(1, 8), 2, 1, 2)
    tensor([[2, 3, 6, 7]])
    """
    parts = tensor.reshape(len(tensor), forms, count, -1)
    return parts[:, :, number].flatten(1).contiguous()


class PartOfLinear(LinearHead, abstract=True):
    """logits = sum over parts of Z_c Theta_c, + bias."""

    group: Workers

    def forward(self, Z: Tensor) -> Tensor:
        partial = nn.functional.linear(Z, self.weights)
        return self.group.sum_over_features(partial.to(self.bias.dtype)) + self.bias


class PartOfBottleneck(BottleneckHead, abstract=True):
    """logits = (sum over parts of Z_c first_c^T) second^T + bias: r numbers per row are summed, not C."""

    group: Workers

    def forward(self, Z: Tensor) -> Tensor:
        partial = nn.functional.linear(Z, self.first)
        return nn.functional.linear(self.group.sum_over_features(partial.to(self.bias.dtype)), self.second, self.bias)


def is_part(model: nn.Module) -> bool:
    return isinstance(model, FeatureModel) and isinstance(model.head, PartOfLinear | PartOfBottleneck)


def split_model(model: nn.Module, group: Workers) -> FeatureModel:
    """This process's part of `model`, which stays in main memory until the parts are gathered."""
    z, head = _on_frequencies(model, group.num_parts)
    part = FeatureModel(_part_of_map(z, group), _part_of_head(head, forms_of(model), group))
    model.cpu()
    return part


def split_preconditioner(whole: Preconditioner, part: FeatureModel, group: Workers) -> Preconditioner:
    """The preconditioner of a part: projections onto the eigenvectors are summed over the parts."""
    V = columns_of(whole.vectors[:, :-1], forms_of(part), group.part_number, group.num_parts)
    vectors = torch.cat([V, whole.vectors[:, -1:]], dim=1)
    return Preconditioner(part.head, vectors, whole.values, whole.floor, group=group)


def _part_of_map(z: FourierMap, group: Workers) -> FourierMap:
    size = z.num_frequencies // group.num_parts
    first = group.part_number * size
    part = z.take(torch.arange(first, first + size, device=next(z.parameters()).device))
    part.amplitude = z.amplitude  # that of all features, of which these are some
    return part


def _part_of_head(head: Head, forms: int, group: Workers) -> Head:
    def mine(tensor: Tensor) -> Tensor:
        return columns_of(tensor.detach(), forms, group.part_number, group.num_parts)

    part: PartOfLinear | PartOfBottleneck
    if isinstance(head, BottleneckHead):
        part = PartOfBottleneck(mine(head.first), head.second.detach().clone(), head.bias.detach().clone())
    else:
        part = PartOfLinear(mine(head.weights), head.bias.detach().clone())
    part.group = group
    return part


def _on_frequencies(model: nn.Module, count: int) -> tuple[FourierMap, Head]:
    if not isinstance(model, FeatureModel) or not isinstance(model.feature_map, FourierMap):
        kind = type(getattr(model, "feature_map", model)).__name__
        raise ValueError(
            f"only a FourierMap with a head can be divided by features, got {kind}; divide the rows alone: "
            f"feature_parallel=1, not {count}."
        )
    z = model.feature_map
    if trainable(z):
        raise ValueError(f"feature_parallel must be 1 for a map that is trained itself, got {count}.")
    if z.num_frequencies % count:
        per = z.num_features // z.num_frequencies
        fitting = -(-z.num_frequencies // count) * count * per
        raise ValueError(
            f"num_features must give each of {count} processes as many frequencies, got {z.num_features}; "
            f"use {fitting}."
        )
    return z, model.head
