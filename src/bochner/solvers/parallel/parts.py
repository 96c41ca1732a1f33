"""A part of a model's features, whose scores are summed with those of the other parts."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from bochner.features import FourierMap
from bochner.models.heads import BottleneckHead, FeatureModel, Head, LinearHead
from bochner.solvers.checkpoint import trainable
from bochner.solvers.preconditioner import Preconditioner


def is_by_feature(name: str, tensor: Tensor) -> bool:
    """Whether a tensor of a run on a `FeatureModel` has a column a feature: Theta^T, a bottleneck's first factor, and
    what an optimizer keeps for them, which are its first parameter.

    >>> import torch
    >>> is_by_feature("now.model.head.weights", torch.ones(3, 8)), is_by_feature("now.model.head.bias", torch.ones(3))
    (True, False)
    """
    first = ".optimizer.0." in f".{name}"
    return tensor.ndim == 2 and (first or name.endswith(("head.weights", "head.first")))


def forms_of(model: nn.Module) -> int:
    """Features that a frequency gives: its cosine, or its cosine and its sine."""
    return 2 if isinstance(model, FeatureModel) and getattr(model.feature_map, "form", "cosine") == "paired" else 1


def columns_of(tensor: Tensor, forms: int, number: int, count: int) -> Tensor:
    """Columns of part `number` of `count`: those of its frequencies, of [lead, forms P], cosines before sines.

    >>> import torch
    >>> columns_of(torch.arange(8).reshape(1, 8), 2, 1, 2)
    tensor([[2, 3, 6, 7]])
    """
    parts = tensor.reshape(len(tensor), forms, count, -1)
    return parts[:, :, number].flatten(1).contiguous()


class PartOfMap(FourierMap, abstract=True):
    """Some frequencies of a map, with the amplitude that they have in the whole."""

    whole_features: int

    @property
    def amplitude(self) -> float:
        return math.sqrt(2 * self.kernel.amplitude / self.whole_features)


class PartOfLinear(LinearHead, abstract=True):
    """logits = sum over parts of Z_c Theta_c, + bias."""

    mesh: Any

    def forward(self, Z: Tensor) -> Tensor:
        partial = nn.functional.linear(Z, self.weights)
        return self.mesh.sum_over_features(partial.to(self.bias.dtype)) + self.bias


class PartOfBottleneck(BottleneckHead, abstract=True):
    """logits = (sum over parts of Z_c first_c^T) second^T + bias: r numbers a row are summed, not C."""

    mesh: Any

    def forward(self, Z: Tensor) -> Tensor:
        partial = nn.functional.linear(Z, self.first)
        return nn.functional.linear(self.mesh.sum_over_features(partial.to(self.bias.dtype)), self.second, self.bias)


class PartOfPreconditioner(Preconditioner):
    """P for a part of the features: what is projected onto the directions is summed over the parts."""

    mesh: Any

    def _summed(self, projected: Tensor) -> Tensor:
        total: Tensor = self.mesh.sum_over_features(projected)
        return total

    def on(self, head: Head) -> PartOfPreconditioner:
        made = PartOfPreconditioner(head, self.vectors, self.values, self.floor)
        made.mesh = self.mesh
        return made


def is_part(model: nn.Module) -> bool:
    return isinstance(model, FeatureModel) and isinstance(model.feature_map, PartOfMap)


def split_model(model: nn.Module, mesh: Any) -> FeatureModel:
    """This process's part of `model`, which is left in main memory until the parts are gathered."""
    z, head = _on_frequencies(model, mesh.num_parts)
    part = FeatureModel(_part_of_map(z, mesh), _part_of_head(head, forms_of(model), mesh))
    model.cpu()
    return part


def split_preconditioner(whole: Preconditioner, part: FeatureModel, mesh: Any) -> PartOfPreconditioner:
    V = columns_of(whole.vectors[:, :-1], forms_of(part), mesh.part_number, mesh.num_parts)
    vectors = torch.cat([V, whole.vectors[:, -1:]], dim=1)
    made = PartOfPreconditioner(part.head, vectors, whole.values, whole.floor)
    made.mesh = mesh
    return made


def _part_of_map(z: FourierMap, mesh: Any) -> PartOfMap:
    size = z.num_frequencies // mesh.num_parts
    first = mesh.part_number * size
    taken = z.take(torch.arange(first, first + size, device=next(z.parameters()).device))
    part = PartOfMap(taken.kernel, taken.projection, taken.phases)
    part.whole_features = z.num_features
    return part


def _part_of_head(head: Head, forms: int, mesh: Any) -> Head:
    def mine(tensor: Tensor) -> Tensor:
        return columns_of(tensor.detach(), forms, mesh.part_number, mesh.num_parts)

    part: PartOfLinear | PartOfBottleneck
    if isinstance(head, BottleneckHead):
        part = PartOfBottleneck(mine(head.first), head.second.detach().clone(), head.bias.detach().clone())
    else:
        part = PartOfLinear(mine(head.weights), head.bias.detach().clone())
    part.mesh = mesh
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
