"""Random Fourier features."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.features.map import FeatureMap
from bochner.features.projections import DenseProjection, Projection, draw_projection, frozen
from bochner.kernels import Kernel, Spectral
from bochner.ops import write_cosines


class FourierMap(FeatureMap):
    """With frequencies w_j, the columns of the projection, and a = k(x, x):

        cosine (phases [P] given): z_j(x) = sqrt(2 a / D) cos(w_j . x + b_j),            D = P;
        paired (phases None):      z(x)   = sqrt(2 a / D) [cos(w_j . x), sin(w_j . x)],  D = 2 P, cosines first.

    Bochner's theorem makes both unbiased. The paired form has ||z(x)||^2 = a exactly, half the projections, and for
    Gaussian, Laplacian and Matern kernels the lower variance. For independent frequencies and a = 1,
    P[|z(x) . z(y) - k(x, y)| >= eps] <= 2 exp(-D eps^2 / 8), paired 2 exp(-D eps^2 / 4).
    Cost: the projection's plus O(ND). Sources: Rahimi & Recht 2007; May 2018, Section 2.3.

    >>> from bochner.kernels import Gaussian
    >>> z = FourierMap.draw(
    ...     Gaussian(bandwidth=2.0), num_inputs=3, num_features=512, generator=Generator().manual_seed(0)
    ... )
    >>> x = torch.ones(1, 3)
    >>> z(x).square().sum().round(decimals=3)
    tensor(1.)
    """

    kernel: Spectral

    def __init__(self, kernel: Spectral, projection: Projection, phases: Tensor | None = None) -> None:
        super().__init__()
        if not isinstance(kernel, Spectral) or not kernel.spectral or not isinstance(projection, Projection):
            raise TypeError(f"FourierMap needs a spectral kernel and a projection, got {kernel!r} and {projection!r}.")
        self.kernel, self.projection, self.num_inputs = kernel, projection, projection.num_inputs
        if phases is None:
            self.register_parameter("phases", None)
        else:
            if phases.shape != (projection.num_outputs,):
                raise ValueError(f"phases must have shape ({projection.num_outputs},), got {tuple(phases.shape)}.")
            self.phases = frozen(phases)
        per_output = 2 if phases is None else 1
        self.num_features = projection.num_outputs * per_output
        self.amplitude = math.sqrt(2 * kernel.amplitude / self.num_features)  # the factor of the cosines
        self.tile_elements = projection.tile_elements * per_output

    @classmethod
    def draw(
        cls,
        kernel: Kernel,
        *,
        num_inputs: int,
        num_features: int,
        generator: Generator,
        projection: str = "auto",
        form: str = "paired",
        dtype: torch.dtype = torch.float32,
    ) -> FourierMap:
        """A random map for `kernel`, a function of the generator's state; see `draw_projection` for the names."""
        checks.positive_int("num_inputs", num_inputs)
        checks.positive_int("num_features", num_features)
        checks.one_of("form", form, ["paired", "cosine"])
        if form == "paired" and num_features % 2:
            raise ValueError(
                f"num_features must be even when form='paired', got {num_features}; "
                f"use {num_features + 1} or form='cosine'."
            )
        count = num_features // 2 if form == "paired" else num_features
        drawn = draw_projection(projection, kernel, num_inputs, count, generator=generator, dtype=dtype)
        if form == "paired":
            return cls(kernel, drawn)  # type: ignore[arg-type]
        phases = torch.rand(count, generator=generator, device=generator.device, dtype=dtype)
        return cls(kernel, drawn, phases * (2 * math.pi))  # type: ignore[arg-type]

    @property
    def num_frequencies(self) -> int:
        return self.projection.num_outputs

    def take(self, frequencies: Tensor) -> FourierMap:
        """The map of the frequencies with these indices, with the amplitude for their number.

        Dense and sparse projections keep their form; structured ones, whose frequencies come in blocks, become dense.
        """
        kept = self.projection.take(frequencies) or self._dense().take(frequencies)
        return FourierMap(self.kernel, kept, None if self.phases is None else self.phases[frequencies])

    def join(self, other: FourierMap) -> FourierMap:
        """The map with the frequencies of both maps, this one's first."""
        if (self.phases is None) != (other.phases is None):
            raise ValueError(f"maps must have the same form, got {self.form!r} and {other.form!r}.")
        joined = self.projection.join(other.projection) or self._dense().join(other._dense())
        assert joined is not None
        if self.phases is None or other.phases is None:
            return FourierMap(self.kernel, joined)
        return FourierMap(self.kernel, joined, torch.cat([self.phases, other.phases]))

    def frequencies(self) -> Tensor:
        """W [d, P] for raw inputs: scale and metric are included."""
        W = self.projection.matrix()
        return self.kernel.fold(W) if self.projection.prepared else W

    def adaptable(self) -> list[str]:
        names = [f"projection.{name}" for name in self.projection.adaptable]
        return names if self.phases is None else [*names, "phases"]

    @property
    def form(self) -> str:
        return "paired" if self.phases is None else "cosine"

    def _features(self, X: Tensor) -> Tensor:
        angles = self.projection(self.kernel.prepare(X) if self.projection.prepared else X)
        if self.phases is not None:
            return self.amplitude * torch.cos(angles + self.phases)
        return self.amplitude * torch.cat([angles.cos(), angles.sin()], dim=1)

    def _write_tile(self, X: Tensor, out: Tensor) -> None:
        P = self.projection.num_outputs
        angles, sines = out[:, :P], None if self.phases is not None else out[:, P:]
        self.projection.write(self.kernel.prepare(X) if self.projection.prepared else X, angles)
        if self.phases is not None:
            angles.add_(self.phases)
        write_cosines(angles, self.amplitude, sines=sines)

    def _dense(self) -> DenseProjection:
        if isinstance(self.projection, DenseProjection):
            return self.projection
        return DenseProjection(self.frequencies())
