"""k(x, l_j) for given landmarks l_j, one function per kernel.

What depends on the landmarks alone is computed at export and stored. The formulas are those of `bochner.kernels`.
"""

from __future__ import annotations

import math
from functools import reduce, singledispatch
from operator import mul

import torch
from torch import Tensor

from bochner.kernels import (
    ArcCosine,
    Cauchy,
    Gaussian,
    Kernel,
    Laplacian,
    Matern,
    Polynomial,
    Product,
    SparseGaussian,
    Sum,
)
from bochner.kernels.arc_cosine import UNIT_DIAGONAL
from bochner.learn.onnx.graph import Step, Value, scan


def kernel_values(kernel: Kernel, X: Value, landmarks: Tensor) -> Value:
    """k(X, landmarks) [N, m] for X [N, d] and landmarks [m, d]: O(N m) memory for a batch of N rows."""
    points = landmarks.detach().to(X.graph.dtype)
    return _values(kernel, _prepare(kernel, X, points.shape[1]), kernel.prepare(points))


def _prepare(kernel: Kernel, X: Value, num_inputs: int) -> Value:
    """`kernel.prepare`, from the scale or the root of the metric."""
    if kernel.metric is not None:
        return X @ kernel.fold(torch.eye(num_inputs, dtype=torch.float64))
    if kernel.scale is None:
        return X
    return X * kernel.scale if isinstance(kernel.scale, Tensor) else _scaled(X, kernel.scale, num_inputs)


def _scaled(X: Value, factor: float, num_inputs: int) -> Value:
    """X times a number, as a vector: ONNX Runtime merges a bare number with a product beside it, rounded to float32."""
    return X * torch.full((num_inputs,), factor, dtype=torch.float64)


@singledispatch
def _values(kernel: Kernel, U: Value, V: Tensor) -> Value:
    """Values on prepared inputs, [N, m]."""
    raise TypeError(f"model holds a kernel that has no ONNX form, {kernel!r}; use one of bochner.kernels.")


@_values.register
def _(kernel: Gaussian, U: Value, V: Tensor) -> Value:
    return (_squared_distances(U, V) * (-0.5 / kernel.bandwidth**2)).exp()


@_values.register
def _(kernel: Matern, U: Value, V: Tensor) -> Value:
    squares = _squared_distances(U, V) * (2 * kernel.smoothness / kernel.bandwidth**2)
    t = squares.apply("Sqrt")
    decay = (t * -1.0).exp()
    if kernel.smoothness == 0.5:
        return decay
    return (t + 1.0 if kernel.smoothness == 1.5 else t + 1.0 + squares / 3.0) * decay


@_values.register
def _(kernel: Laplacian, U: Value, V: Tensor) -> Value:
    def step(total: Value, u: Value, v: Value) -> Value:
        return total + (u - v).apply("Abs")

    return (_over_inputs(step, U, V) * (-1 / kernel.bandwidth)).exp()


@_values.register
def _(kernel: Cauchy, U: Value, V: Tensor) -> Value:
    def step(total: Value, u: Value, v: Value) -> Value:
        return total - ((u - v).square() + 1.0).apply("Log")

    c = 1 / kernel.bandwidth
    return _over_inputs(step, _scaled(U, c, V.shape[1]), V * c).exp()


@_values.register
def _(kernel: SparseGaussian, U: Value, V: Tensor) -> Value:
    """The recursion of `SparseGaussian`, with means [k + 1, N, m] of all orders at once."""
    k, d = kernel.subset_size, V.shape[1]
    kept, shifted = torch.arange(1, k + 1), torch.arange(k)

    def step(means: Value, u: Value, v: Value, share: Value) -> Value:
        old = means.apply("Gather", kept, axis=0)
        new = ((u - v).square() * -1.0).exp() * means.apply("Gather", shifted, axis=0)
        return means.apply("Gather", torch.tensor([0]), axis=0).apply("Concat", old + (new - old) * share, axis=0)

    # order j has the share j / seen of the subsets, and none before j inputs are seen
    shares = torch.arange(1, k + 1) / torch.arange(1, d + 1, dtype=torch.float64)[:, None]
    shares = torch.where(shares <= 1, shares, 0)[:, :, None, None]
    c = math.sqrt(0.5) / kernel.bandwidth
    start = torch.eye(k + 1, 1, dtype=torch.float64)[:, :, None]
    means = _over_inputs(step, _scaled(U, c, d), V * c, shares, start=start)
    return means.apply("Gather", torch.tensor(k), axis=0)


@_values.register
def _(kernel: Polynomial, U: Value, V: Tensor) -> Value:
    return (U @ V.T + kernel.offset).apply("Pow", float(kernel.degree))


@_values.register
def _(kernel: ArcCosine, U: Value, V: Tensor) -> Value:
    u, v, K = U.squared_lengths(), V.square().sum(dim=1), U @ V.T
    unit = UNIT_DIAGONAL[kernel.order]
    for _ in range(kernel.depth):
        lengths = u.apply("Sqrt") * v.sqrt()
        # where a vector is zero, K is, and so the cosine
        cosine = (K / lengths.apply("Max", torch.finfo(V.dtype).tiny)).apply("Clip", -1.0, 1.0)
        K = _angular(kernel.order, cosine) / math.pi
        for _ in range(kernel.order):
            K = K * lengths
        u, v = u.apply("Pow", float(kernel.order)) * unit, unit * v**kernel.order
    return K


@_values.register
def _(kernel: Sum, U: Value, V: Tensor) -> Value:
    parts = zip(kernel.weights, _parts(kernel), strict=True)
    return U.graph.add("Sum", *(kernel_values(part, U, V) * weight for weight, part in parts))


@_values.register
def _(kernel: Product, U: Value, V: Tensor) -> Value:
    return reduce(mul, (kernel_values(part, U, V) for part in _parts(kernel)))


def _parts(kernel: Sum | Product) -> list[Kernel]:
    return list(kernel.kernels)  # type: ignore[arg-type]


def _squared_distances(U: Value, V: Tensor) -> Value:
    """||u_i - v_j||^2 [N, m] as `bochner.ops.squared_distances` has it: around the mean of V."""
    center = V.mean(dim=0)
    U, V = U - center, V - center
    products = U.apply("Gemm", V, V.square().sum(dim=1), alpha=-2.0, transB=1)
    return (products + U.squared_lengths()).apply("Relu")


def _over_inputs(step: Step, U: Value, V: Tensor, *others: Tensor, start: Tensor | None = None) -> Value:
    """The state [.., N, m] after one step for each input, with columns u [N, 1] and v [1, m]; it starts at `start`."""
    num_rows = U.apply("Shape").apply("Gather", torch.tensor([0]), axis=0)
    shape = num_rows.apply("Concat", torch.tensor([len(V)]), axis=0)
    state = U.graph.constant(torch.zeros(1, 1) if start is None else start).apply("Expand", shape)
    columns = U.apply("Transpose", perm=[1, 0]).apply("Unsqueeze", torch.tensor([2]))
    return scan(step, state, columns, V.T[:, None, :], *others)


def _angular(order: int, cosine: Value) -> Value:
    """J_n of `ArcCosine`."""
    sine = ((cosine * -1.0 + 1.0) * (cosine + 1.0)).apply("Sqrt")
    rest = _arc_cosine(cosine, sine) * -1.0 + math.pi
    if order == 0:
        return rest
    if order == 1:
        return sine + rest * cosine
    return sine * cosine * 3.0 + rest * (cosine.square() * 2.0 + 1.0)


def _arc_cosine(cosine: Value, sine: Value) -> Value:
    """The angle. ONNX Runtime has Acos in float32 only; in float64 that is the start, off by 4e-4 at most.

    angle - start = sin(angle - start) to 1e-11.
    """
    if cosine.graph.dtype == torch.float32:
        return cosine.apply("Acos")
    start = cosine.to(torch.float32).apply("Acos").to(torch.float64)
    return start + sine * start.apply("Cos") - cosine * start.apply("Sin")
