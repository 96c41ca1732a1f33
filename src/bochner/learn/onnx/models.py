"""Models: what they take and give, and their scores."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce, singledispatch
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bochner.learn.heads import BottleneckHead, Head, LinearHead
from bochner.learn.model import FeatureModel
from bochner.learn.network import Network
from bochner.learn.onnx.graph import Value
from bochner.learn.onnx.kernels import kernel_values
from bochner.learn.onnx.maps import features
from bochner.learn.solvers import LandmarkModel, LogitAverage


class Signature(NamedTuple):
    """X [N, num_inputs] -> scores [N, num_outputs], computed in `dtype`."""

    num_inputs: int
    num_outputs: int
    dtype: torch.dtype


@singledispatch
def signature(model: nn.Module) -> Signature:
    raise TypeError(
        f"model must be a FeatureModel, LandmarkModel, LogitAverage or Network, got {type(model).__name__}."
    )


@singledispatch
def scores(model: nn.Module, X: Value) -> Value:
    """The model's output [N, num_outputs]."""
    raise TypeError(f"{type(model).__name__} has no ONNX form.")


@signature.register
def _(model: FeatureModel) -> Signature:
    return _signature(model.feature_map.num_inputs, model.head.bias)


@scores.register
def _(model: FeatureModel, X: Value) -> Value:
    return _on_head(model.head, *features(model.feature_map, X))


@signature.register
def _(model: Network) -> Signature:
    return _signature(model.num_inputs, model.head.bias)


@scores.register
def _(model: Network, X: Value) -> Value:
    for W, b in zip(model.weights, model.biases, strict=True):
        X = X.affine(W, b).apply({"tanh": "Tanh", "relu": "Relu"}[model.activation])
    return _on_head(model.head, X, lambda weights: weights)


@signature.register
def _(model: LandmarkModel) -> Signature:
    return _signature(model.landmarks.shape[1], model.bias)


@scores.register
def _(model: LandmarkModel, X: Value) -> Value:
    return kernel_values(model.kernel, X, model.landmarks).affine(model.coefficients.T, model.bias)


@signature.register
def _(model: LogitAverage) -> Signature:
    parts = [signature(part) for part in model.models]
    if len({part[:2] for part in parts}) != 1:
        raise ValueError(f"models must agree in inputs and outputs, got {[part[:2] for part in parts]}.")
    return parts[0]._replace(dtype=reduce(torch.promote_types, (part.dtype for part in parts)))


@scores.register
def _(model: LogitAverage, X: Value) -> Value:
    # not the node Mean, which ONNX Runtime has in float32 only
    return X.graph.add("Sum", *(scores(part, X) for part in model.models)) / float(len(model.models))


def _signature(num_inputs: int, bias: Tensor) -> Signature:
    """Half precision is computed in float32: it only stores."""
    return Signature(num_inputs, len(bias), torch.promote_types(bias.dtype, torch.float32))


def _on_head(head: Head, Z: Value, fold: Callable[[Tensor], Tensor]) -> Value:
    if isinstance(head, LinearHead):
        return Z.affine(fold(_exact(head.weights)), head.bias)
    assert isinstance(head, BottleneckHead)
    return (Z @ fold(_exact(head.first)).T).affine(head.second, head.bias)


def _exact(weights: Tensor) -> Tensor:
    return weights.detach().cpu().double()
