"""The feature maps as scikit-learn transformers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted
from torch import Generator, Tensor

from bochner import checks
from bochner.estimators.base import as_tensor, checked_inputs, make_generator
from bochner.estimators.store import SavableMixin
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
from bochner.ops import row_tiles
from bochner.search.kernel import KERNEL_CONSTRAINTS, resolve_kernel
from bochner.search.plan import resolve_device

_COUNT = Interval(Integral, 1, None, closed="left")
_POSITIVE = Interval(Real, 0, None, closed="neither")

DEFAULT_LANDMARKS = 1000
GPU_TILE_ELEMENTS = 2**26  # features computed on the GPU at once: 256 MiB in float32


class MapTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SavableMixin):
    """A scikit-learn transformer around one feature map.

    NumPy arrays and data frames give arrays (or the container of `set_output`), tensors give tensors; float32 and
    float64 are kept. A subclass declares its parameters and implements `_draw`.
    """

    map_: FeatureMap
    _fitted_state: ClassVar[Mapping[str, Any]] = {"map_": FeatureMap}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "device": [str, torch.device],
        "random_state": ["random_state"],
    }

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the map for data like X [n, d]. `y` is ignored."""
        self._validate_params()
        X = checked_inputs(self, X, reset=True)
        device = resolve_device(self.device)
        self.map_ = self._draw(X, make_generator(self.random_state)).to(device)
        return self

    def transform(self, X: Any) -> Any:
        """z(X) [n, n_components]."""
        check_is_fitted(self)
        is_tensor = isinstance(X, Tensor)
        X = checked_inputs(self, X, reset=False).to(self._dtype)
        if is_tensor:
            return self.map_(X.to(self._device)).to(X.device)
        # np.empty requests large pages from the system and torch.empty does not, which saves a fifth of the time
        features = np.empty((len(X), self.map_.num_features), dtype=X.numpy().dtype)
        self._write(X, as_tensor(features))
        return features

    def stream(self, X: Any, *, rows: int = 4096) -> Iterator[Any]:
        """z(X) in blocks of `rows` rows, each a new array (or tensor): the whole of z(X) is never in memory."""
        for tile in row_tiles(len(X), row_elements=1, tile_elements=checks.positive_int("rows", rows)):
            yield self.transform(X.iloc[tile] if hasattr(X, "iloc") else X[tile])

    @property
    def _n_features_out(self) -> int:
        return self.map_.num_features

    @property
    def _dtype(self) -> torch.dtype:
        return self.map_.dtype

    @property
    def _device(self) -> torch.device:
        return next(iter(self.map_.state_dict().values())).device

    def _write(self, X: Tensor, out: Tensor) -> None:
        if self._device.type != "cpu":
            for tile in row_tiles(len(X), row_elements=self.map_.num_features, tile_elements=GPU_TILE_ELEMENTS):
                out[tile] = self.map_(X[tile].to(self._device)).cpu()
        else:
            self.map_.write(X, out)

    def _check_fitted_state(self) -> None:
        if self.map_.num_inputs != self.n_features_in_:
            raise ValueError(f"map_ must have {self.n_features_in_} inputs, got {self.map_.num_inputs}.")

    def _draw(self, X: Tensor, generator: Generator) -> FeatureMap:
        raise TypeError(f"{type(self).__name__} must define _draw(X, generator).")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class FourierFeatures(MapTransformer):
    """Random Fourier features of a stationary kernel.

    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        "gaussian", "laplacian", "sparse-gaussian", "matern12", "matern32", "matern52", "cauchy",
        "power-exponential", or a kernel object (for other exponents, sums, products, scales and metrics).
    bandwidth : float, "median", "mean", "neighbor" or None, default=None
        A number or a rule of `bochner.kernels.Stationary.with_bandwidth`. None is the median rule for a kernel given
        by name and leaves a kernel object as it is.
    gamma : float or None, default=None
        scikit-learn's parameter instead of `bandwidth`: exp(-gamma ||x - y||^2) for the Gaussian kernel,
        exp(-gamma ||x - y||_1) for the Laplacian, (gamma x . y + offset)^degree for the polynomial kernel.
    n_components : int, default=1024
    projection : str, default="auto"
        How frequencies are drawn and stored: "iid", "orthogonal", "sobol", "hadamard1", "hadamard2", "hadamard3",
        "fastfood", "circulant", "sparse"; "auto" is "orthogonal" for isotropic kernels, "sparse" for the sparse
        Gaussian, else "iid".
    form : {"auto", "paired", "cosine"}, default="auto"
        [cos(w.x), sin(w.x)] pairs, or cos(w.x + b); "auto" is "paired" for an even `n_components`, else "cosine".
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
    >>> model = make_pipeline(FourierFeatures(n_components=2048, random_state=0), RidgeClassifier())
    >>> model.fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.95
    True
    """

    kernel: str | Kernel = "gaussian"
    bandwidth: float | str | None = None
    gamma: float | None = None
    n_components: int = 1024
    projection: str = "auto"
    form: str = "auto"
    device: str | torch.device = "auto"
    random_state: Any = None

    _fitted_state: ClassVar[Mapping[str, Any]] = {"map_": FourierMap}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MapTransformer._parameter_constraints,
        **KERNEL_CONSTRAINTS,
        "n_components": [_COUNT],
        "projection": [StrOptions(set(PROJECTION_NAMES))],
        "form": [StrOptions({"auto", "paired", "cosine"})],
    }

    def _draw(self, X: Tensor, generator: Generator) -> FeatureMap:
        is_odd = self.n_components % 2 == 1
        if self.form == "paired" and is_odd:
            raise ValueError(f"n_components must be even when form='paired', got {self.n_components}.")
        return FourierMap.draw(
            resolve_kernel(self.kernel, self.bandwidth, X, generator, gamma=self.gamma),
            num_inputs=X.shape[1],
            num_features=checks.positive_int("n_components", self.n_components),
            projection=self.projection,
            form=("cosine" if is_odd else "paired") if self.form == "auto" else self.form,
            generator=generator,
            dtype=X.dtype,
        )


@dataclass(kw_only=True, eq=False, repr=False)
class NystromFeatures(MapTransformer):
    """Nystrom features of any kernel, z(x) = (W^+)^{1/2} k(L, x) with W = k(L, L), on landmarks L chosen from the data.

    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        A name (see `FourierFeatures`) or any kernel object.
    bandwidth, gamma, device, random_state
        As in `FourierFeatures`.
    num_landmarks : int or None, default=None
        None is 1,000, or all points if there are fewer.
    n_components : int or None, default=None
        At most `num_landmarks`, and as many when None. Fewer keep the largest eigenvalues of W.
    landmarks : {"uniform", "kmeans", "leverage", "pivoted-cholesky"}, default="uniform"
    num_experts : int, default=1
        More than 1 is an ensemble: landmarks and features are split evenly among the experts.
    weighting : {"uniform", "fitted"}, default="uniform"
        Weights of the experts in an ensemble.

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

    kernel: str | Kernel = "gaussian"
    bandwidth: float | str | None = None
    gamma: float | None = None
    num_landmarks: int | None = None
    n_components: int | None = None
    landmarks: str = "uniform"
    num_experts: int = 1
    weighting: str = "uniform"
    device: str | torch.device = "auto"
    random_state: Any = None

    _fitted_state: ClassVar[Mapping[str, Any]] = {"map_": NystromMap | EnsembleNystromMap}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MapTransformer._parameter_constraints,
        **KERNEL_CONSTRAINTS,
        "num_landmarks": [None, _COUNT],
        "n_components": [None, _COUNT],
        "landmarks": [StrOptions(set(LANDMARK_RULES))],
        "num_experts": [_COUNT],
        "weighting": [StrOptions({"uniform", "fitted"})],
    }

    def _draw(self, X: Tensor, generator: Generator) -> FeatureMap:
        count = self.num_landmarks
        if count is None:  # a multiple of the number of experts
            count = min(DEFAULT_LANDMARKS, len(X)) // self.num_experts * self.num_experts
        if self.n_components is not None and self.n_components > count:
            raise ValueError(f"n_components must be at most num_landmarks, {count}, got {self.n_components}.")
        kernel = resolve_kernel(self.kernel, self.bandwidth, X, generator, gamma=self.gamma)
        shared: dict[str, Any] = {
            "num_landmarks": count,
            "num_features": self.n_components,
            "landmarks": self.landmarks,
            "generator": generator,
        }
        if self.num_experts == 1:
            return NystromMap.fit(kernel, X, **shared)
        return EnsembleNystromMap.fit(kernel, X, num_experts=self.num_experts, weighting=self.weighting, **shared)


@dataclass(kw_only=True, eq=False, repr=False)
class ArcCosineFeatures(MapTransformer):
    """Random features of an arc-cosine kernel: a network with random weights.

    Parameters
    ----------
    n_components : int, default=1024
        The width of each layer.
    order : int, default=1
        Of the activation: 0 is a step function, 1 the ReLU, 2 its square.
    depth : int, default=1
        The number of layers.
    device, random_state
        As in `FourierFeatures`.

    Attributes
    ----------
    map_ : ArcCosineMap

    Examples
    --------
    >>> import numpy as np
    >>> ArcCosineFeatures(n_components=64, depth=2, random_state=0).fit_transform(np.eye(3)).shape
    (3, 64)
    """

    n_components: int = 1024
    order: int = 1
    depth: int = 1
    device: str | torch.device = "auto"
    random_state: Any = None

    _fitted_state: ClassVar[Mapping[str, Any]] = {"map_": ArcCosineMap}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MapTransformer._parameter_constraints,
        "n_components": [_COUNT],
        "order": [Interval(Integral, 0, 2, closed="both")],
        "depth": [_COUNT],
    }

    def _draw(self, X: Tensor, generator: Generator) -> FeatureMap:
        return ArcCosineMap.draw(
            ArcCosine(order=self.order, depth=self.depth),
            num_inputs=X.shape[1],
            num_features=checks.positive_int("n_components", self.n_components),
            generator=generator,
            dtype=X.dtype,
        )


@dataclass(kw_only=True, eq=False, repr=False)
class TensorSketchFeatures(MapTransformer):
    """Tensor sketch of the polynomial kernel (scale^2 x . y + offset)^degree.

    Parameters
    ----------
    n_components : int, default=1024
    degree : int, default=2
    offset : float, default=1.0
    scale : float, default=1.0
    device, random_state
        As in `FourierFeatures`.

    Attributes
    ----------
    map_ : TensorSketchMap

    Examples
    --------
    >>> import numpy as np
    >>> TensorSketchFeatures(n_components=64, degree=3, random_state=0).fit_transform(np.eye(3)).shape
    (3, 64)
    """

    n_components: int = 1024
    degree: int = 2
    offset: float = 1.0
    scale: float = 1.0
    device: str | torch.device = "auto"
    random_state: Any = None

    _fitted_state: ClassVar[Mapping[str, Any]] = {"map_": TensorSketchMap}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MapTransformer._parameter_constraints,
        "n_components": [_COUNT],
        "degree": [_COUNT],
        "offset": [Interval(Real, 0, None, closed="left")],
        "scale": [_POSITIVE],
    }

    def _draw(self, X: Tensor, generator: Generator) -> FeatureMap:
        return TensorSketchMap.draw(
            Polynomial(degree=self.degree, offset=self.offset, scale=self.scale),
            num_inputs=X.shape[1],
            num_features=checks.positive_int("n_components", self.n_components),
            generator=generator,
            dtype=X.dtype,
        )
