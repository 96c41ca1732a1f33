"""Tensor sketch: polynomial kernels by count sketches and the fast Fourier transform."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

from bochner import checks
from bochner.features.map import FeatureMap
from bochner.features.projections import random_signs
from bochner.kernels import Polynomial


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
