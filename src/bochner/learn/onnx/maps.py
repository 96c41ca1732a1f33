"""Feature maps, each up to a linear part that goes into the weights of the head.

A head only ever sees x -> W z(x). Where z(x) = A r(x) with a fixed matrix A, the graph computes r(x) and the file holds
W A: the normalisation of a Nystrom map, the inverse Fourier transform of a sketch and all amplitudes cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import singledispatch
from typing import NamedTuple

import torch
from torch import Tensor

from bochner.features import ArcCosineMap, EnsembleNystromMap, FeatureMap, FourierMap, NystromMap, TensorSketchMap
from bochner.learn.onnx.graph import Value
from bochner.learn.onnx.kernels import kernel_values


class Features(NamedTuple):
    """r(X) [N, D'], and the function that turns weights W [C, D] into W A [C, D'], z = A r; both in float64."""

    values: Value
    fold: Callable[[Tensor], Tensor]


@singledispatch
def features(feature_map: FeatureMap, X: Value) -> Features:
    raise TypeError(f"model holds a map that has no ONNX form, {feature_map!r}; use one of bochner.features.")


@features.register
def _(feature_map: FourierMap, X: Value) -> Features:
    """Structured and sparse frequencies are written out as a matrix [d, P]."""
    W = feature_map.frequencies()
    if feature_map.phases is not None:
        waves = X.apply("Gemm", W, feature_map.phases).apply("Cos")
    else:
        angles = X @ W
        waves = angles.apply("Cos").apply("Concat", angles.apply("Sin"), axis=1)
    return Features(waves, lambda weights: feature_map.amplitude * weights)


@features.register
def _(feature_map: NystromMap, X: Value) -> Features:
    values = kernel_values(feature_map.kernel, X, feature_map.landmarks)
    return Features(values, lambda weights: weights @ feature_map.normalization.detach().to(weights).T)


@features.register
def _(feature_map: EnsembleNystromMap, X: Value) -> Features:
    experts: list[NystromMap] = list(feature_map.experts)  # type: ignore[arg-type]
    parts = [features(expert, X) for expert in experts]
    sizes = [expert.num_features for expert in experts]
    roots = feature_map.weights.detach().double().cpu().sqrt()

    def fold(weights: Tensor) -> Tensor:
        folded = [root * part.fold(W) for root, part, W in zip(roots, parts, weights.split(sizes, dim=1), strict=True)]
        return torch.cat(folded, dim=1)

    return Features(X.graph.add("Concat", *(part.values for part in parts), axis=1), fold)


@features.register
def _(feature_map: ArcCosineMap, X: Value) -> Features:
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
def _(feature_map: TensorSketchMap, X: Value) -> Features:
    """[Re, Im] of the spectrum of z: a product over the sketches, whose own spectra are linear in x."""
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
