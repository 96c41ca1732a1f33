"""Which numbers belong to a feature, and where they lie."""

from __future__ import annotations

from torch import Tensor, nn

from bochner.learn.model import FeatureModel


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
