"""Export of models to ONNX: signatures, scores, probabilities and labels."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bochner import checks
from bochner.data.encoder import TableEncoder
from bochner.models import LandmarkModel, LogitAverage
from bochner.models.heads import BottleneckHead, FeatureModel, Head, LinearHead
from bochner.models.inputs import TransformedModel
from bochner.models.losses import SMALLEST_PROBABILITY
from bochner.models.network import WINDOW, Network
from bochner.models.onnx.features import features, kernel_values
from bochner.models.onnx.graph import Graph, Value, element_name, onnx
from bochner.models.onnx.inputs import transformed
from bochner.models.onnx.table import ML_DOMAIN, ML_OPSET, encode_table
from bochner.models.partition import PartitionedModel
from bochner.storage import write_atomically


class Signature(NamedTuple):
    """X [N, num_inputs] -> scores [N, num_outputs], computed in `dtype`."""

    num_inputs: int
    num_outputs: int
    dtype: torch.dtype


_MODELS = "a FeatureModel, LandmarkModel, LogitAverage, Network, PartitionedModel or TransformedModel"


def signature(model: nn.Module) -> Signature:
    bias: Tensor
    match model:
        case FeatureModel():
            num_inputs, bias = model.feature_map.num_inputs, model.head.bias
        case Network():
            num_inputs, bias = model.num_inputs, model.head.bias
        case LandmarkModel():
            num_inputs, bias = model.landmarks.shape[1], model.bias
        case LogitAverage() | PartitionedModel():
            parts = [signature(part) for part in model.models]
            if len({part[:2] for part in parts}) != 1:
                raise ValueError(f"models must agree in inputs and outputs, got {[part[:2] for part in parts]}.")
            return parts[0]._replace(dtype=reduce(torch.promote_types, (part.dtype for part in parts)))
        case TransformedModel():
            inner = signature(model.model)
            if inner.num_inputs != model.transform.num_outputs:
                outputs = model.transform.num_outputs
                raise ValueError(f"model must have the {outputs} outputs of transform as inputs, got {inner[0]}.")
            return inner._replace(num_inputs=len(model.transform.center))
        case _:
            kind = type(model).__name__
            raise TypeError(f"model must be {_MODELS}, got {kind}.")
    # models in half precision are computed in float32
    return Signature(num_inputs, len(bias), torch.promote_types(bias.dtype, torch.float32))


def scores(model: nn.Module, X: Value, *, raw: Value | None = None, dtype: torch.dtype | None = None) -> Value:
    """The model's output [N, num_outputs] for X in the graph's dtype; `raw` is X in `dtype`, as the file receives it.

    Transformations start from `raw`, whose digits the graph's dtype may not hold, and round to its `dtype`.
    """
    raw, dtype = raw or X, dtype or X.graph.dtype
    match model:
        case FeatureModel():
            return _on_head(model.head, *features(model.feature_map, X))
        case Network():
            return _on_head(model.head, _hidden_layers(model, X), lambda weights: weights)
        case LandmarkModel():
            return kernel_values(model.kernel, X, model.landmarks).affine(model.coefficients.T, model.bias)
        case LogitAverage():
            # not the node Mean, which ONNX Runtime implements in float32 only
            parts = [scores(part, X, raw=raw, dtype=dtype) for part in model.models]
            return X.graph.add("Sum", *parts) / float(len(parts))
        case TransformedModel():
            return scores(model.model, transformed(model.transform, raw, rounded=dtype))
        case PartitionedModel():
            return _partitioned(model, X)
    raise TypeError(f"{type(model).__name__} has no ONNX form.")


def _hidden_layers(network: Network, X: Value) -> Value:
    """z_L in evaluation mode; the frames of time-delay layers are [N, frames, d]."""
    if network.dilations:
        width = network.weights[0].shape[1] // WINDOW
        X = X.apply("Reshape", torch.tensor([-1, 1 + 2 * sum(network.dilations), width]))
    d_in = network.num_inputs
    for layer, (W, b) in enumerate(network.folded_layers()):
        below = X
        if layer < len(network.dilations):
            places = network.neighbours[layer]
            below = X.apply("Gather", places[:, WINDOW // 2], axis=1)
            X = X.apply("Gather", places.flatten(), axis=1)
            frames = [] if len(places) == 1 else [len(places)]
            X = X.apply("Reshape", torch.tensor([-1, *frames, W.shape[1]]))
            if not frames:
                below = below.apply("Squeeze", torch.tensor([1]))
            d_in = W.shape[1] // WINDOW
        X = _activated(X @ W.T + b, network.activation)
        if network.residual and layer and d_in == len(W):
            X = X + below
        d_in = len(W)
    return X


def _activated(A: Value, activation: str) -> Value:
    if activation == "gelu":
        scaled = (A * math.sqrt(0.5)).to(torch.float32)  # ONNX Runtime has Erf in float32 only
        return A * 0.5 * (scaled.apply("Erf").to(A.graph.dtype) + 1.0)
    return A.apply({"tanh": "Tanh", "relu": "Relu", "cosine": "Cos"}[activation])


def _partitioned(model: PartitionedModel, X: Value) -> Value:
    """Every leaf's model on the rows of that leaf only; results are written back to their rows.

    With P [nodes, leaves] of 1 or -1 where the path to a leaf turns right or left, and 0 elsewhere, a row with sides
    s = 1 or -1 at all nodes is in the leaf where s P is the length of the path, which it exceeds nowhere.
    """
    P = _paths(model.branches)
    sides = (X @ model.directions.T).apply("Greater", model.thresholds).to(X.graph.dtype) * 2.0 - 1.0
    leaves = (sides @ P - P.abs().sum(dim=0)).apply("ArgMax", axis=1, keepdims=0)
    places, parts = [], []
    for leaf, part in enumerate(model.models):
        rows = leaves.apply("Equal", torch.tensor(leaf)).apply("NonZero").apply("Squeeze", torch.tensor([0]))
        places.append(rows)
        parts.append(scores(part, X.apply("Gather", rows, axis=0)))
    # the places of sorted rows among all: the inverse of their permutation
    order = X.graph.add("Concat", *places, axis=0)
    values = X.graph.add("Concat", *parts, axis=0)
    index = order.apply("Unsqueeze", torch.tensor([1]))
    return X.graph.add("ScatterND", values, index, values)


def _paths(branches: Tensor) -> Tensor:
    """P [nodes, leaves] of `_partitioned`."""
    nodes = len(branches)
    P = torch.zeros(nodes, nodes + 1, dtype=torch.float64)
    paths: dict[int, list[tuple[int, float]]] = {0: []}
    for node, children in enumerate(branches.tolist()):  # parents come first
        for child, side in zip(children, (-1.0, 1.0), strict=True):
            paths[child] = [*paths[node], (node, side)]
    for leaf in range(nodes + 1):
        for node, side in paths[-1 - leaf]:
            P[node, leaf] = side
    return P


def _on_head(head: Head, Z: Value, fold: Callable[[Tensor], Tensor]) -> Value:
    if isinstance(head, LinearHead):
        return Z.affine(fold(_exact(head.weights)), head.bias)
    assert isinstance(head, BottleneckHead)
    return (Z @ fold(_exact(head.first)).T).affine(head.second, head.bias)


def _exact(weights: Tensor) -> Tensor:
    return weights.detach().cpu().double()


# ONNX 1.8 of 2020, read by every ONNX Runtime since 1.6; these graphs do not need later sets.
OPSET, IR_VERSION = 13, 7

Classes = list[int] | list[str]


def export_onnx(
    model: nn.Module,
    path: str | os.PathLike[str],
    *,
    output: str = "scores",
    classes: Sequence[int] | Sequence[str] | None = None,
    dtype: torch.dtype | None = None,
    encoder: TableEncoder | None = None,
    offset: Any = None,
) -> None:
    """Write a model to `path` as ONNX, atomically.

        X [N, d], any N  ->  label [N], probabilities [N, C], scores [N, t]

    scores are the model's own output. `output` defines their meaning, and all but "scores" add probabilities:
    "softmax" (t = C), "logistic" (t = 1, C = 2), or "clipped" (t = C), for least squares on one-hot labels, whose
    scores are clipped from below and scaled to sum to 1. `classes`, C integers or strings, adds label: the class of the
    largest score, or of a positive logistic score. "sigmoid" is for t labels of which a row may have several: their
    probabilities and label are [N, t], label is 1 where a score is positive, and `classes` is None. Names and order are
    those of skl2onnx without ZipMap.

    The graph computes in the model's dtype; `dtype`, float32 or float64, is that of X and of the outputs, the model's
    if None. `encoder` adds the encoding of a table: the inputs are then its columns, [N, 1] each, as `encode_table`
    describes. `offset` [d] is subtracted from the model's inputs in float64. Models are FeatureModel, LandmarkModel,
    Network, TransformedModel, PartitionedModel (a row costs what its leaf costs), and LogitAverage of these.
    Frequencies are written out as a matrix whatever the projection: 4 d P bytes for P of them in float32. A runtime
    holds k(X, landmarks) or z(X) for all N rows at once: choose N to fit. Opset 13.

    >>> import tempfile
    >>> from bochner.features import FourierMap
    >>> from bochner.kernels import Gaussian
    >>> from bochner.models import FeatureModel, LinearHead
    >>> z = FourierMap.draw(Gaussian(), num_inputs=3, num_features=64, generator=torch.Generator().manual_seed(0))
    >>> model = FeatureModel(z, LinearHead.zeros(num_features=64, num_outputs=2))
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     export_onnx(model, directory + "/model.onnx", output="softmax", classes=["no", "yes"])
    ...     [value.name for value in onnx().load(directory + "/model.onnx").graph.output]
    ['label', 'probabilities', 'scores']
    """
    known = signature(model)
    _check_output(output, known.num_outputs)
    if dtype is not None:
        checks.one_of("dtype", dtype, [torch.float32, torch.float64])
    names = None if classes is None else _checked_classes(classes, output, known.num_outputs)
    if encoder is not None and len(encoder.names) != known.num_inputs:
        raise ValueError(f"encoder must have the model's {known.num_inputs} inputs, got {len(encoder.names)}.")
    content = _file(model, known, output, names, dtype or known.dtype, encoder, offset).SerializeToString()
    onnx("checker").check_model(content, full_check=True)
    write_atomically(Path(path), content)


def _file(
    model: nn.Module,
    known: Signature,
    output: str,
    classes: Classes | None,
    dtype: torch.dtype,
    encoder: TableEncoder | None,
    offset: Any,
) -> Any:
    graph = Graph(known.dtype)
    floats = element_name(dtype)
    opsets = [onnx("helper").make_opsetid("", OPSET)]
    if encoder is None:
        X = Value(graph, "X")
        inputs = [X.info(["N", known.num_inputs], kind=floats)]
    else:  # in float64, as the encoder computes, and then rounded as rows are for a model
        inputs, encoded = encode_table(encoder, replace(graph, dtype=torch.float64), dtype=dtype)
        X = Value(graph, encoded.name if dtype == torch.float64 else encoded.to(dtype).name)
        opsets.append(onnx("helper").make_opsetid(ML_DOMAIN, ML_OPSET))
    if offset is None:
        S = scores(model, X if dtype == known.dtype else X.to(known.dtype), raw=X, dtype=dtype)
    else:
        exact = Value(replace(graph, dtype=torch.float64), X.to(torch.float64).name)
        S = scores(model, Value(graph, (exact - torch.as_tensor(offset)).to(known.dtype).name))
    outputs = []
    if classes is not None:
        kind = "INT64" if isinstance(classes[0], int) else "STRING"
        outputs.append(_named("label", _label(S, output, classes)).info(["N"], kind=kind))
    elif output == "sigmoid":
        label = S.apply("Greater", 0.0).to(torch.int64)
        outputs.append(_named("label", label).info(["N", known.num_outputs], kind="INT64"))
    if output != "scores":
        P, num_classes = _probabilities(S, output), known.num_outputs + (output == "logistic")
        outputs.append(_named("probabilities", P, dtype).info(["N", num_classes], kind=floats))
    outputs.append(_named("scores", S, dtype).info(["N", known.num_outputs], kind=floats))
    return onnx("helper").make_model(
        graph.proto("bochner", inputs, outputs),
        opset_imports=opsets,
        ir_version=IR_VERSION,
        producer_name="bochner",
        producer_version=_version(),
        doc_string=repr(model),
    )


def _probabilities(S: Value, output: str) -> Value:
    if output == "softmax":
        return S.apply("Softmax", axis=1)
    if output == "sigmoid":
        return S.apply("Sigmoid")
    if output == "clipped":
        positive = S.apply("Max", SMALLEST_PROBABILITY)
        return positive / positive.apply("ReduceSum", torch.tensor([1]), keepdims=1)
    return (S * -1.0).apply("Sigmoid").apply("Concat", S.apply("Sigmoid"), axis=1)


def _label(S: Value, output: str, classes: Classes) -> Value:
    index = _positive(S) if output == "logistic" else S.apply("ArgMax", axis=1, keepdims=0)
    stored = S.graph.strings(classes) if isinstance(classes[0], str) else S.graph.constant(torch.tensor(classes))
    return stored.apply("Gather", index, axis=0)


def _positive(S: Value) -> Value:
    """1 where the only score is positive, else 0: [N]."""
    return S.apply("Greater", 0.0).to(torch.int64).apply("Squeeze", torch.tensor([1]))


def _named(name: str, value: Value, dtype: torch.dtype | None = None) -> Value:
    """The same value under the given name, in the given dtype."""
    graph = value.graph
    last = value if dtype in (None, graph.dtype) else value.to(dtype)
    graph.nodes.append(onnx("helper").make_node("Identity", [last.name], [name]))
    return Value(graph, name)


def _check_output(output: str, num_outputs: int) -> None:
    checks.one_of("output", output, ["scores", "softmax", "logistic", "clipped", "sigmoid"])
    if output in ("softmax", "clipped") and num_outputs == 1:
        raise ValueError(f"output={output!r} needs a model with several scores per row, got 1; use 'logistic'.")
    if output == "logistic" and num_outputs > 1:
        raise ValueError(f"output='logistic' needs a model with one score per row, got {num_outputs}; use 'softmax'.")


def _checked_classes(classes: Sequence[Any], output: str, num_outputs: int) -> Classes:
    labels = [label.item() if hasattr(label, "item") else label for label in classes]
    if output == "sigmoid":
        raise ValueError(f"classes must be None for output='sigmoid', whose labels are 0 and 1, got {labels}.")
    if output == "scores" and num_outputs == 1:
        raise ValueError("classes need several scores per row, got 1; use output='logistic' if it is one.")
    if len(labels) != max(2, num_outputs) or len(set(labels)) != len(labels):
        raise ValueError(f"classes must be {max(2, num_outputs)} different ones, one per probability, got {labels}.")
    if not any(all(type(label) is kind for label in labels) for kind in (int, str)):
        raise ValueError(f"classes must be all integers or all strings, got {labels}; give their numbers or names.")
    return labels


def _version() -> str:
    try:
        return version("bochner")
    except PackageNotFoundError:  # run from a source tree
        return "source"
