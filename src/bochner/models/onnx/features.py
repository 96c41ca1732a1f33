"""Kernels and feature maps in ONNX; the linear part of a map is folded into the weights of the head.

A head depends only on x -> W z(x). If z(x) = A r(x) with a fixed matrix A, the graph computes r(x) and the file holds W
A: the normalisation of a Nystrom map, the inverse Fourier transform of a sketch and all amplitudes cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce, singledispatch
from operator import mul
from typing import NamedTuple

import torch
from torch import Tensor

from bochner.features import ArcCosineMap, EnsembleNystromMap, FeatureMap, FourierMap, NystromMap, TensorSketchMap
from bochner.kernels import (
    ArcCosine,
    Cauchy,
    Gaussian,
    Kernel,
    Laplacian,
    Matern,
    Polynomial,
    PowerExponential,
    Product,
    SparseGaussian,
    Sum,
)
from bochner.kernels.dot_product import UNIT_DIAGONAL
from bochner.models.onnx.graph import Step, Value, scan
from bochner.ops.distances import NEAR


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
    """X times a number, as a vector: ONNX Runtime would merge a scalar with an adjacent product, rounded to float32."""
    return X * torch.full((num_inputs,), factor, dtype=torch.float64)


@singledispatch
def _values(kernel: Kernel, U: Value, V: Tensor) -> Value:
    """Values on prepared inputs, [N, m]."""
    raise TypeError(f"model holds a kernel that has no ONNX form, {kernel!r}; use one of bochner.kernels.")


@_values.register
def _gaussian(kernel: Gaussian, U: Value, V: Tensor) -> Value:
    return (_squared_distances(U, V) * (-0.5 / kernel.bandwidth**2)).exp()


@_values.register
def _matern(kernel: Matern, U: Value, V: Tensor) -> Value:
    distances = _accurate_squared_distances if kernel.smoothness == 0.5 else _squared_distances
    squares = distances(U, V) * (2 * kernel.smoothness / kernel.bandwidth**2)
    t = squares.apply("Sqrt")
    decay = (t * -1.0).exp()
    if kernel.smoothness == 0.5:
        return decay
    return (t + 1.0 if kernel.smoothness == 1.5 else t + 1.0 + squares / 3.0) * decay


@_values.register
def _laplacian(kernel: Laplacian, U: Value, V: Tensor) -> Value:
    def step(total: Value, u: Value, v: Value) -> Value:
        return total + (u - v).apply("Abs")

    return (_over_inputs(step, U, V) * (-1 / kernel.bandwidth)).exp()


@_values.register
def _power_exponential(kernel: PowerExponential, U: Value, V: Tensor) -> Value:
    def step(total: Value, u: Value, v: Value) -> Value:
        return total + _power((u - v).apply("Abs"), kernel.norm)

    if kernel.norm == 2:
        base = _squared_distances(U, V) if kernel.exponent == 2 else _accurate_squared_distances(U, V)
    else:
        base = _over_inputs(step, U, V)
    return (_power(base, kernel.exponent / kernel.norm) * -(kernel.bandwidth**-kernel.exponent)).exp()


def _power(base: Value, power: float) -> Value:
    """base^power for base >= 0."""
    if power == 1:
        return base
    return base.apply("Sqrt") if power == 0.5 else base.apply("Pow", power)


@_values.register
def _cauchy(kernel: Cauchy, U: Value, V: Tensor) -> Value:
    def step(total: Value, u: Value, v: Value) -> Value:
        return total - ((u - v).square() + 1.0).apply("Log")

    c = 1 / kernel.bandwidth
    return _over_inputs(step, _scaled(U, c, V.shape[1]), V * c).exp()


@_values.register
def _sparse_gaussian(kernel: SparseGaussian, U: Value, V: Tensor) -> Value:
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
def _polynomial(kernel: Polynomial, U: Value, V: Tensor) -> Value:
    return (U @ V.T + kernel.offset).apply("Pow", float(kernel.degree))


@_values.register
def _arc_cosine_kernel(kernel: ArcCosine, U: Value, V: Tensor) -> Value:
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
def _sum(kernel: Sum, U: Value, V: Tensor) -> Value:
    parts = zip(kernel.weights, _parts(kernel), strict=True)
    return U.graph.add("Sum", *(kernel_values(part, U, V) * weight for weight, part in parts))


@_values.register
def _product(kernel: Product, U: Value, V: Tensor) -> Value:
    return reduce(mul, (kernel_values(part, U, V) for part in _parts(kernel)))


def _parts(kernel: Sum | Product) -> list[Kernel]:
    return list(kernel.kernels)  # type: ignore[arg-type]


def _squared_distances(U: Value, V: Tensor) -> Value:
    """||u_i - v_j||^2 [N, m] as `bochner.ops.squared_distances` has it: around the mean of V."""
    center = V.mean(dim=0)
    U, V = U - center, V - center
    products = U.apply("Gemm", V, V.square().sum(dim=1), alpha=-2.0, transB=1)
    return (products + U.squared_lengths()).apply("Relu")


def _accurate_squared_distances(U: Value, V: Tensor) -> Value:
    """||u_i - v_j||^2 [N, m] as `bochner.ops.accurate_squared_distances` has it: near pairs from their differences."""
    center = V.mean(dim=0)
    U, V = U - center, V - center
    points, lengths = U.graph.constant(V), U.squared_lengths()
    products = U.apply("Gemm", points, V.square().sum(dim=1), alpha=-2.0, transB=1)
    squares = (products + lengths).apply("Relu")
    places = squares.apply("Less", lengths * NEAR).apply("NonZero")
    rows, columns = (places.apply("Gather", torch.tensor(axis), axis=0) for axis in (0, 1))
    differences = U.apply("Gather", rows, axis=0) - points.apply("Gather", columns, axis=0)
    exact = differences.square().apply("ReduceSum", torch.tensor([1]), keepdims=0)
    return squares.apply("ScatterND", places.apply("Transpose", perm=[1, 0]), exact)


def _over_inputs(step: Step, U: Value, V: Tensor, *others: Tensor, start: Tensor | None = None) -> Value:
    """The state [.., N, m] after one step for each input, with columns u [N, 1] and v [1, m]; it starts at `start`."""
    num_rows = U.apply("Shape").apply("Gather", torch.tensor([0]), axis=0)
    shape = num_rows.apply("Concat", torch.tensor([len(V)]), axis=0)
    start = torch.zeros(1, 1) if start is None else start
    state = U.graph.constant(start).apply("Expand", shape)
    columns = U.apply("Transpose", perm=[1, 0]).apply("Unsqueeze", torch.tensor([2]))
    ranks = [start.ndim, 2, 2, *(other.ndim - 1 for other in others)]
    return scan(step, state, columns, V.T[:, None, :], *others, ranks=ranks)


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


class Features(NamedTuple):
    """r(X) [N, D'], and the function that turns weights W [C, D] into W A [C, D'], z = A r; both in float64."""

    values: Value
    fold: Callable[[Tensor], Tensor]


@singledispatch
def features(feature_map: FeatureMap, X: Value) -> Features:
    raise TypeError(f"model holds a map that has no ONNX form, {feature_map!r}; use one of bochner.features.")


@features.register
def _fourier_map(feature_map: FourierMap, X: Value) -> Features:
    """Structured and sparse frequencies are written out as a matrix [d, P]."""
    W = feature_map.frequencies()
    if feature_map.phases is not None:
        sinusoids = X.apply("Gemm", W, feature_map.phases).apply("Cos")
    else:
        angles = X @ W
        sinusoids = angles.apply("Cos").apply("Concat", angles.apply("Sin"), axis=1)
    return Features(sinusoids, lambda weights: feature_map.amplitude * weights)


@features.register
def _nystrom_map(feature_map: NystromMap, X: Value) -> Features:
    values = kernel_values(feature_map.kernel, X, feature_map.landmarks)
    return Features(values, lambda weights: weights @ feature_map.normalization.detach().to(weights).T)


@features.register
def _ensemble_nystrom_map(feature_map: EnsembleNystromMap, X: Value) -> Features:
    experts: list[NystromMap] = list(feature_map.experts)  # type: ignore[arg-type]
    parts = [features(expert, X) for expert in experts]
    sizes = [expert.num_features for expert in experts]
    roots = feature_map.weights.detach().double().cpu().sqrt()

    def fold(weights: Tensor) -> Tensor:
        folded = [root * part.fold(W) for root, part, W in zip(roots, parts, weights.split(sizes, dim=1), strict=True)]
        return torch.cat(folded, dim=1)

    return Features(X.graph.add("Concat", *(part.values for part in parts), axis=1), fold)


@features.register
def _arc_cosine_map(feature_map: ArcCosineMap, X: Value) -> Features:
    order, factor = feature_map.kernel.order, 1.0
    for W in feature_map.weights:
        X = _active(order, X @ (factor * W.detach().double()))
        factor = math.sqrt(2 / W.shape[1])
    return Features(X, lambda weights: factor * weights)


def _active(order: int, Z: Value) -> Value:
    if order == 0:
        return Z.apply("Greater", 0.0).to(Z.graph.dtype)
    Z = Z.apply("Relu")
    return Z if order == 1 else Z.square()


@features.register
def _tensor_sketch_map(feature_map: TensorSketchMap, X: Value) -> Features:
    """[Re, Im] of the spectrum of z: a product over the sketches, whose spectra are linear in x."""
    first, *others = _sketch_spectra(feature_map)
    real, imaginary = X.affine(*first.real), X.affine(*first.imaginary)
    for other in others:
        a, b = X.affine(*other.real), X.affine(*other.imaginary)
        real, imaginary = real * a - imaginary * b, real * b + imaginary * a
    return Features(real.apply("Concat", imaginary, axis=1), _to_spectrum)


class _Spectrum(NamedTuple):
    """x -> the half spectrum of a count sketch, as weights [K, d] and bias [K] of its two parts; K = D // 2 + 1."""

    real: tuple[Tensor, Tensor]
    imaginary: tuple[Tensor, Tensor]


def _sketch_spectra(feature_map: TensorSketchMap) -> list[_Spectrum]:
    kernel, spectra = feature_map.kernel, []
    for places, signs in zip(feature_map.places, feature_map.signs.double(), strict=True):
        sketch = signs.new_zeros(len(signs), feature_map.num_features).scatter(1, places[:, None], signs[:, None])
        F = torch.fft.rfft(sketch)
        parts = [(kernel.fold(part[:-1]).T, kernel.offset**0.5 * part[-1]) for part in (F.real, F.imag)]
        spectra.append(_Spectrum(*parts))
    return spectra


def _to_spectrum(weights: Tensor) -> Tensor:
    """Weights [C, 2 K] on [Re, Im] of the half spectrum of z for weights [C, D] on z, by Parseval's theorem.

    The half that is not stored mirrors the other, so that all but its ends count twice.
    """
    D = weights.shape[1]
    spectrum = torch.fft.rfft(weights)
    counts = torch.full((D // 2 + 1,), 2.0, dtype=weights.dtype)
    counts[0] = 1
    if D % 2 == 0:
        counts[-1] = 1
    return torch.cat([spectrum.real * counts, spectrum.imag * counts], dim=1) / D
