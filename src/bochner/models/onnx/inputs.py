"""Input transformations in ONNX: standardised, robust and normal scores, in float64 as in `InputTransform`."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from bochner.models.inputs import MAX_ROBUST, MAX_STANDARD, ROBUST_BOUND, InputTransform, knot_slopes
from bochner.models.onnx.graph import Value


def transformed(transform: InputTransform, X: Value, *, rounded: torch.dtype) -> Value:
    """z [N, num_outputs] in the graph's dtype for X [N, d] in any dtype; `rounded` is what z is rounded to before."""
    graph = X.graph
    # the same nodes, with constants in float64: differences of large numbers with little spread need it
    exact = Value(replace(graph, dtype=torch.float64), X.to(torch.float64).name)
    z = _outputs(transform, exact)
    if rounded != torch.float64:
        z = z.to(rounded)
    return Value(graph, (z if rounded == graph.dtype else z.to(graph.dtype)).name)


def _outputs(transform: InputTransform, X: Value) -> Value:
    t = (X - transform.center.double()) / transform.scale.double()
    bounded = _clip(t, -MAX_STANDARD, MAX_STANDARD)
    binary = transform.binary.cpu()
    numeric = (~binary).nonzero()[:, 0]
    if len(numeric) == 0 or transform.kind == "standard":
        return bounded
    if transform.kind == "robust":
        t = _clip(t, -MAX_ROBUST, MAX_ROBUST)
        robust = t / ((t / ROBUST_BOUND).square() + 1.0).apply("Sqrt")
        return X.graph.add("Where", binary, bounded, robust)
    scores = _normal_scores(transform, X.apply("Gather", numeric, axis=1))
    if transform.kind == "both":
        return bounded.apply("Concat", scores, axis=1)
    others = binary.nonzero()[:, 0]
    order = torch.cat([others, numeric]).argsort()
    return bounded.apply("Gather", others, axis=1).apply("Concat", scores, axis=1).apply("Gather", order, axis=1)


def _clip(x: Value, low: float | Tensor, high: float | Tensor) -> Value:
    """x within bounds; NaN stays NaN."""
    return x.apply("Max", low).apply("Min", high)


def _normal_scores(transform: InputTransform, x: Value) -> Value:
    """Interpolation between knots; the knot to the left is found by bisection, in log2 k steps for k knots."""
    assert transform.knots is not None
    assert transform.values is not None
    knots, values = (part[:, ~transform.binary].T.double().cpu() for part in (transform.knots, transform.values))
    x = _clip(x, knots[:, 0], knots[:, -1])
    steps = [2**power for power in reversed(range((knots.shape[1] - 1).bit_length()))]
    size = 2 * steps[0]
    tables = [
        _flat(part, size, fill) for part, fill in ((knots, torch.inf), (values, 0.0), (knot_slopes(knots, values), 0.0))
    ]
    stored_knots, stored_values, stored_slopes = (x.graph.constant(table) for table in tables)
    left = x.graph.constant(size * torch.arange(len(knots))[None])
    for step in steps:
        following = left + torch.tensor(step)
        is_left = stored_knots.apply("Gather", following).apply("LessOrEqual", x)
        left = is_left.apply("Where", following, left)
    distance = x - stored_knots.apply("Gather", left)
    return stored_values.apply("Gather", left) + stored_slopes.apply("Gather", left) * distance


def _flat(table: Tensor, size: int, fill: float) -> Tensor:
    """A table [columns, k], filled up to `size` entries per column, as a vector."""
    return torch.nn.functional.pad(table, (0, size - table.shape[1]), value=fill).reshape(-1)
