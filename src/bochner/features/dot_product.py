"""Random features of dot-product kernels: random networks for arc-cosine, tensor sketches for polynomial kernels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Generator, Tensor, nn

from bochner import checks
from bochner.features.map import FeatureMap
from bochner.features.projections import frozen, random_signs
from bochner.kernels import ArcCosine, Polynomial


class ArcCosineMap(FeatureMap):
    """One layer: z(x) = sqrt(2 / D) step(W^T x) (W^T x)^n with Normal(0, 1) weights W [d, D], n the kernel's order.

    A kernel of depth L stacks L layers, z_{l+1}(x) = z(z_l(x)), each with its own weights. n = 1 is the ReLU layer.
    The factor is sqrt(2 / D): Alber et al. 2017 print sqrt(1 / D), which gives half the kernel.
    One layer is unbiased; deeper maps of order 2 overestimate at small widths (order 2, two layers: about 20 % at 64).
    O(N (dD + (L - 1) D^2)) for layers of equal width. Source: Cho & Saul 2009.

    >>> from bochner.kernels import ArcCosine
    >>> z = ArcCosineMap.draw(
    ...     ArcCosine(order=1, depth=2), num_inputs=3, num_features=8, generator=Generator().manual_seed(0)
    ... )
    >>> z(torch.ones(2, 3)).shape
    torch.Size([2, 8])
    """

    kernel: ArcCosine

    def __init__(self, kernel: ArcCosine, weights: Sequence[Tensor]) -> None:
        super().__init__()
        weights = list(weights)
        if len(weights) != kernel.depth:
            raise ValueError(f"weights must have one matrix per layer, {kernel.depth}, got {len(weights)}.")
        for above, below in zip(weights[1:], weights[:-1], strict=True):
            if above.shape[0] != below.shape[1]:
                raise ValueError(f"weights do not chain: {[tuple(W.shape) for W in weights]}.")
        self.kernel = kernel
        self.weights = nn.ParameterList([frozen(W) for W in weights])
        self.num_inputs, self.num_features = weights[0].shape[0], weights[-1].shape[1]

    @classmethod
    def draw(
        cls,
        kernel: ArcCosine,
        *,
        num_inputs: int,
        num_features: int,
        generator: Generator,
        dtype: torch.dtype = torch.float32,
    ) -> ArcCosineMap:
        """A random map with `num_features` in every layer; Alber et al. count all layers, depth * num_features."""
        checks.positive_int("num_inputs", num_inputs)
        checks.positive_int("num_features", num_features)
        if not isinstance(kernel, ArcCosine):
            raise ValueError(f"kernel must be an ArcCosine kernel, got {kernel!r}.")
        widths = [num_inputs] + [num_features] * kernel.depth
        weights = [
            torch.randn(shape, generator=generator, device=generator.device, dtype=dtype)
            for shape in itertools.pairwise(widths)
        ]
        return cls(kernel, [kernel.fold(weights[0]), *weights[1:]])

    def adaptable(self) -> list[str]:
        if self.kernel.order == 0:  # a step function has derivative 0
            return []
        return [f"weights.{layer}" for layer in range(len(self.weights))]

    def _features(self, X: Tensor) -> Tensor:
        for W in self.weights:
            Z = X @ W
            active = (Z > 0).to(Z.dtype) if self.kernel.order == 0 else Z.relu() ** self.kernel.order
            X = math.sqrt(2 / W.shape[1]) * active
        return X


class TensorSketchMap(FeatureMap):
    """z(x) = the circular convolution of `degree` independent count sketches of [x, sqrt(offset)].

    A count sketch adds sign(i) x_i into place(i); the convolution, a product after the Fourier transform, is the count
    sketch of x (x) x (x) ..., whose inner products are (x . y + offset)^degree. Unbiased, variance O(1 / D).
    places, signs [degree, d + 1]. O(N degree (d + D log D)) time, O(degree d) memory. Source: Pham & Pagh 2013.

    >>> from bochner.kernels import Polynomial
    >>> z = TensorSketchMap.draw(
    ...     Polynomial(degree=3), num_inputs=5, num_features=64, generator=Generator().manual_seed(0)
    ... )
    >>> z(torch.ones(2, 5)).shape
    torch.Size([2, 64])
    """

    kernel: Polynomial
    tile_elements = 2**19  # transforms of 2 MiB stay in cache: on a CPU three times as fast as tiles of 2**22

    def __init__(self, kernel: Polynomial, places: Tensor, signs: Tensor, num_features: int) -> None:
        super().__init__()
        if places.shape != signs.shape or places.ndim != 2 or len(places) != kernel.degree:
            raise ValueError(
                f"places and signs must both be [{kernel.degree}, d + 1], "
                f"got {tuple(places.shape)} and {tuple(signs.shape)}."
            )
        self.num_features = checks.positive_int("num_features", num_features)
        if int(places.min()) < 0 or int(places.max()) >= num_features:
            raise ValueError(f"places must lie in 0..{num_features - 1}.")
        self.kernel = kernel
        self.num_inputs = places.shape[1] - 1
        self.register_buffer("places", places)
        self.register_buffer("signs", signs)
        self.places: Tensor
        self.signs: Tensor

    @classmethod
    def draw(
        cls,
        kernel: Polynomial,
        *,
        num_inputs: int,
        num_features: int,
        generator: Generator,
        dtype: torch.dtype = torch.float32,
    ) -> TensorSketchMap:
        checks.positive_int("num_inputs", num_inputs)
        checks.positive_int("num_features", num_features)
        if not isinstance(kernel, Polynomial):
            raise ValueError(f"kernel must be a Polynomial kernel, got {kernel!r}.")
        shape = (kernel.degree, num_inputs + 1)
        places = torch.randint(num_features, shape, generator=generator, device=generator.device)
        signs = random_signs(shape, generator=generator, dtype=dtype)
        return cls(kernel, places, signs, num_features)

    def _features(self, X: Tensor) -> Tensor:
        X = nn.functional.pad(self.kernel.prepare(X), (0, 1), value=self.kernel.offset**0.5)
        spectrum = None
        for places, signs in zip(self.places, self.signs, strict=True):
            # summed along rows of the transpose: whole rows move at once
            sketch = X.new_zeros(self.num_features, len(X)).index_add(0, places, (X * signs).T)
            factor = torch.fft.rfft(sketch.T)
            spectrum = factor if spectrum is None else spectrum * factor
        assert spectrum is not None
        return torch.fft.irfft(spectrum, n=self.num_features)
