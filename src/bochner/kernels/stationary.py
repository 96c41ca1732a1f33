"""Kernels of the difference x - y, which Bochner's theorem turns into frequencies."""

from __future__ import annotations

from typing import Self

import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.kernels.kernel import Kernel

# Points that a bandwidth rule looks at: half a million pairs.
RULE_POINTS = 1000


class Spectral(Kernel, abstract=True):
    """A kernel k(x, y) = amplitude * E cos(w . (x - y)) with frequencies w that can be drawn.

    Frequencies are columns: W [d, D], for inputs as `prepare` leaves them. `isotropic` says that their direction is
    uniform and independent of their length, which orthogonal and structured maps need.
    """

    @property
    def spectral(self) -> bool:
        return True

    @property
    def isotropic(self) -> bool:
        return False

    @property
    def amplitude(self) -> float:
        """k(x, x)."""
        return 1.0

    def diagonal(self, X: Tensor) -> Tensor:
        return X.new_full((len(X),), self.amplitude)

    def num_uniforms(self, num_inputs: int) -> int:
        """How many uniform numbers make one frequency."""
        return num_inputs

    def frequencies(self, uniforms: Tensor, num_inputs: int) -> Tensor:
        """Frequencies [d, D] from uniform numbers [D, num_uniforms(d)] strictly between 0 and 1.

        One formula for all samplers: independent uniforms give Monte Carlo, low-discrepancy ones quasi-Monte Carlo.
        """
        raise TypeError(f"{type(self).__name__} must define frequencies(uniforms, num_inputs).")

    def sample_frequencies(
        self,
        num_inputs: int,
        num_frequencies: int,
        *,
        generator: Generator,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        """Independent frequencies [d, D], on the generator's device."""
        shape = (num_frequencies, self.num_uniforms(num_inputs))
        uniforms = open_uniforms(shape, generator=generator, dtype=dtype)
        return self.frequencies(uniforms, num_inputs)


class Stationary(Spectral, abstract=True):
    """A spectral kernel with one bandwidth."""

    bandwidth: float

    def __init__(
        self,
        *,
        bandwidth: float = 1.0,
        scale: float | Tensor | None = None,
        metric: Tensor | None = None,
    ) -> None:
        super().__init__(scale=scale, metric=metric)
        self.bandwidth = checks.positive_float("bandwidth", bandwidth)

    def with_bandwidth(self, rule: str | float, X: Tensor, *, generator: Generator | None = None) -> Self:
        """The same kernel with a given bandwidth, or one that suits the data X [n, d].

        "median" and "mean" take that statistic over the pairs of at most 1,000 points, drawn by `generator`:
        2 bandwidth^2 = squared l2 distance (Gaussian, sparse Gaussian over its subsets, Matern),
        bandwidth^2 = squared l2 distance (Cauchy), bandwidth = l1 distance (Laplacian).

        >>> import torch; from bochner.kernels import Gaussian
        >>> X = torch.tensor([[0.0], [2.0]])
        >>> Gaussian().with_bandwidth("median", X)
        Gaussian(bandwidth=1.4142135623730951)
        """
        if not isinstance(rule, str):
            return self.replace(bandwidth=rule)
        checks.one_of("bandwidth", rule, ["median", "mean"])
        checks.finite("X", checks.inputs("X", X))
        if len(X) < 2:
            raise ValueError(f"bandwidth={rule!r} needs at least two points, got n_samples = {len(X)}; give a number.")
        generator = generator or Generator().manual_seed(0)
        chosen = torch.randperm(len(X), generator=generator, device=generator.device)[:RULE_POINTS]
        points = self.prepare(X[chosen.to(X.device)]).double()
        distances = self._rule_distances(points, generator)
        typical = distances.median() if rule == "median" else distances.mean()
        if typical == 0:  # more than half the pairs coincide: look at the others
            typical = distances[distances > 0].median() if (distances > 0).any() else typical
        if typical == 0:
            raise ValueError(f"bandwidth={rule!r} finds all points of X equal; give the bandwidth as a number.")
        return self.replace(bandwidth=self._rule_bandwidth(float(typical)))

    def _rule_distances(self, points: Tensor, generator: Generator) -> Tensor:
        """The distances that a rule summarises, over pairs of points [n, d]; squared l2 unless said otherwise."""
        return torch.nn.functional.pdist(points).square()

    def _rule_bandwidth(self, typical: float) -> float:
        return float((typical / 2) ** 0.5)


def open_uniforms(shape: tuple[int, int], *, generator: Generator, dtype: torch.dtype = torch.float32) -> Tensor:
    """Uniform numbers strictly between 0 and 1, so that inverse distribution functions stay finite."""
    U = torch.rand(shape, generator=generator, device=generator.device, dtype=dtype)
    # half of rand's own step: a smaller end would turn 0 into an outlier that no sample of this size has
    eps = torch.finfo(dtype).eps
    return U.clamp_(eps / 4, 1 - eps / 2)


def standard_normals(num_inputs: int, num_frequencies: int, *, generator: Generator, dtype: torch.dtype) -> Tensor:
    """Independent Normal(0, 1) columns [d, D], drawn directly: quicker than through uniforms."""
    shape = (num_frequencies, num_inputs)
    return torch.randn(shape, generator=generator, device=generator.device, dtype=dtype).T
