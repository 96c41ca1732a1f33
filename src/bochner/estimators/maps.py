"""The feature maps as scikit-learn transformers."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Generator, Tensor

from bochner.estimators.transformer import MapTransformer
from bochner.features import (
    LANDMARK_RULES,
    PROJECTION_NAMES,
    ArcCosineMap,
    EnsembleNystromMap,
    FeatureMap,
    FourierMap,
    NystromMap,
    TensorSketchMap,
)
from bochner.kernels import ArcCosine, Kernel, Polynomial
from bochner.search.kernel import KERNEL_CONSTRAINTS, resolve_kernel

_COUNT = Interval(Integral, 1, None, closed="left")
_POSITIVE = Interval(Real, 0, None, closed="neither")

DEFAULT_LANDMARKS = 1000


class FourierFeatures(MapTransformer):
    """Random Fourier features of a stationary kernel.

    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        "gaussian", "laplacian", "sparse-gaussian", "matern12", "matern32", "matern52", "cauchy", or a kernel object
        (for sums, products, scales and metrics).
    bandwidth : float, "median", "mean" or None, default=None
        None takes the median rule for a kernel given by name and leaves a kernel object as it is.
    num_features : int, default=1024
    projection : str, default="auto"
        How frequencies are drawn and stored: "iid", "orthogonal", "sobol", "hadamard1", "hadamard2", "hadamard3",
        "fastfood", "circulant", "sparse"; "auto" is "orthogonal" for isotropic kernels, "sparse" for the sparse
        Gaussian, else "iid".
    form : {"paired", "cosine"}, default="paired"
        [cos(w.x), sin(w.x)] pairs, or cos(w.x + b).
    device : str, default="auto"
        Where to compute; "auto" is the GPU when there is one.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    map_ : FourierMap
        The map itself, a torch module: `.to(device)`, `bochner.save(map_, path)`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> X, y = load_digits(return_X_y=True)
    >>> model = make_pipeline(FourierFeatures(num_features=2048, random_state=0), RidgeClassifier())
    >>> model.fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.95
    True
    """

    map_: FourierMap
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MapTransformer._parameter_constraints,
        **KERNEL_CONSTRAINTS,
        "num_features": [_COUNT],
        "projection": [StrOptions(set(PROJECTION_NAMES))],
        "form": [StrOptions({"paired", "cosine"})],
    }

    def __init__(
        self,
        *,
        kernel: str | Kernel = "gaussian",
        bandwidth: float | str | None = None,
        num_features: int = 1024,
        projection: str = "auto",
        form: str = "paired",
        device: str | torch.device = "auto",
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.num_features = num_features
        self.projection = projection
        self.form = form
        self.device = device
        self.random_state = random_state

    def _draw(self, X: Tensor, generator: Generator) -> FeatureMap:
        return FourierMap.draw(
            resolve_kernel(self.kernel, self.bandwidth, X, generator),
            num_inputs=X.shape[1],
            num_features=self.num_features,
            projection=self.projection,
            form=self.form,
            generator=generator,
            dtype=X.dtype,
        )


class NystromFeatures(MapTransformer):
    """Nystrom features of any kernel: the kernel seen from landmarks in the data.

    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        A name (see `FourierFeatures`) or any kernel object.
    bandwidth : float, "median", "mean" or None, default=None
        None takes the median rule for a kernel given by name and leaves a kernel object as it is.
    num_landmarks : int or None, default=None
        None is 1,000, or all points if there are fewer.
    num_features : int or None, default=None
        At most `num_landmarks`; None is as many. Fewer keep the largest eigenvalues.
    landmarks : {"uniform", "kmeans", "leverage", "pivoted-cholesky"}, default="uniform"
    num_experts : int, default=1
        More than one makes an ensemble: landmarks and features are split evenly over the experts.
    weighting : {"uniform", "fitted"}, default="uniform"
        Weights of the experts in an ensemble.
    device : str, default="auto"
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    map_ : NystromMap or EnsembleNystromMap

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> NystromFeatures(num_landmarks=50, landmarks="kmeans", random_state=0).fit_transform(X).shape
    (1797, 50)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MapTransformer._parameter_constraints,
        **KERNEL_CONSTRAINTS,
        "num_landmarks": [None, _COUNT],
        "num_features": [None, _COUNT],
        "landmarks": [StrOptions(set(LANDMARK_RULES))],
        "num_experts": [_COUNT],
        "weighting": [StrOptions({"uniform", "fitted"})],
    }

    def __init__(
        self,
        *,
        kernel: str | Kernel = "gaussian",
        bandwidth: float | str | None = None,
        num_landmarks: int | None = None,
        num_features: int | None = None,
        landmarks: str = "uniform",
        num_experts: int = 1,
        weighting: str = "uniform",
        device: str | torch.device = "auto",
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.num_landmarks = num_landmarks
        self.num_features = num_features
        self.landmarks = landmarks
        self.num_experts = num_experts
        self.weighting = weighting
        self.device = device
        self.random_state = random_state

    def _draw(self, X: Tensor, generator: Generator) -> FeatureMap:
        count = self.num_landmarks
        if count is None:  # for an ensemble, a number that splits evenly
            count = min(DEFAULT_LANDMARKS, len(X)) // self.num_experts * self.num_experts
        kernel = resolve_kernel(self.kernel, self.bandwidth, X, generator)
        shared: dict[str, Any] = {
            "num_landmarks": count,
            "num_features": self.num_features,
            "landmarks": self.landmarks,
            "generator": generator,
        }
        if self.num_experts == 1:
            return NystromMap.fit(kernel, X, **shared)
        return EnsembleNystromMap.fit(kernel, X, num_experts=self.num_experts, weighting=self.weighting, **shared)


class ArcCosineFeatures(MapTransformer):
    """Random features of an arc-cosine kernel: a network of random weights.

    Parameters
    ----------
    num_features : int, default=1024
        The width of every layer.
    order : int, default=1
        0 is a step, 1 the ReLU, 2 its square.
    depth : int, default=1
        The number of layers.
    device : str, default="auto"
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    map_ : ArcCosineMap

    Examples
    --------
    >>> import numpy as np
    >>> ArcCosineFeatures(num_features=64, depth=2, random_state=0).fit_transform(np.eye(3)).shape
    (3, 64)
    """

    map_: ArcCosineMap
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MapTransformer._parameter_constraints,
        "num_features": [_COUNT],
        "order": [Interval(Integral, 0, 2, closed="both")],
        "depth": [_COUNT],
    }

    def __init__(
        self,
        *,
        num_features: int = 1024,
        order: int = 1,
        depth: int = 1,
        device: str | torch.device = "auto",
        random_state: Any = None,
    ) -> None:
        self.num_features = num_features
        self.order = order
        self.depth = depth
        self.device = device
        self.random_state = random_state

    def _draw(self, X: Tensor, generator: Generator) -> FeatureMap:
        return ArcCosineMap.draw(
            ArcCosine(order=self.order, depth=self.depth),
            num_inputs=X.shape[1],
            num_features=self.num_features,
            generator=generator,
            dtype=X.dtype,
        )


class TensorSketchFeatures(MapTransformer):
    """Tensor sketch of the polynomial kernel (scale^2 x . y + offset)^degree.

    Parameters
    ----------
    num_features : int, default=1024
    degree : int, default=2
    offset : float, default=1.0
    scale : float, default=1.0
    device : str, default="auto"
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    map_ : TensorSketchMap

    Examples
    --------
    >>> import numpy as np
    >>> TensorSketchFeatures(num_features=64, degree=3, random_state=0).fit_transform(np.eye(3)).shape
    (3, 64)
    """

    map_: TensorSketchMap
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MapTransformer._parameter_constraints,
        "num_features": [_COUNT],
        "degree": [_COUNT],
        "offset": [Interval(Real, 0, None, closed="left")],
        "scale": [_POSITIVE],
    }

    def __init__(
        self,
        *,
        num_features: int = 1024,
        degree: int = 2,
        offset: float = 1.0,
        scale: float = 1.0,
        device: str | torch.device = "auto",
        random_state: Any = None,
    ) -> None:
        self.num_features = num_features
        self.degree = degree
        self.offset = offset
        self.scale = scale
        self.device = device
        self.random_state = random_state

    def _draw(self, X: Tensor, generator: Generator) -> FeatureMap:
        return TensorSketchMap.draw(
            Polynomial(degree=self.degree, offset=self.offset, scale=self.scale),
            num_inputs=X.shape[1],
            num_features=self.num_features,
            generator=generator,
            dtype=X.dtype,
        )
