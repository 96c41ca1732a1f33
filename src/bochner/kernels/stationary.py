"""Stationary kernels, functions of x - y: Gaussian, Laplacian, power-exponential, Cauchy, Matern and sparse Gaussian.

Bochner's theorem writes each as an expectation over random frequencies, which these classes can draw.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Self

import torch
from torch import Generator, Tensor
from torch.nn.functional import pdist

from bochner import checks
from bochner.kernels.kernel import Kernel, Scale
from bochner.kernels.neighbors import neighbor_distance
from bochner.ops import Radial, accurate_squared_distances, power_sums, squared_distances

BANDWIDTH_RULES = ["median", "mean", "neighbor"]
# Points that a bandwidth rule uses: half a million pairs, whose statistic is within 2 % of that of all pairs.
RULE_POINTS = 1000
# Subsets of the inputs over which the rule of the sparse Gaussian kernel averages.
RULE_SUBSETS = 16
LOG2_E = math.log2(math.e)
# Larger frequencies are cut off at this one. Stable laws draw numbers that float32 cannot hold, and from about 1e8 on
# the phase of a float32 cosine is arbitrary in any case; this limit leaves room for w . x.
MAX_FREQUENCY = 1e18
# Bandwidths whose squares and inverse squares stay within the range of floats.
MIN_BANDWIDTH, MAX_BANDWIDTH = 1e-140, 1e140
# The error of squared distances that smooth kernels allow, in squared bandwidths: about 1e-3 in their values, as
# rounding adds up. In float32, rows more than 45 bandwidths from the mean are computed from differences.
SQUARE_ERROR = 2.5e-4


class Spectral(Kernel, abstract=True):
    """A kernel k(x, y) = amplitude * E cos(w . (x - y)) with frequencies w that can be drawn.

    Frequencies are columns: W [d, D], for inputs as `prepare` returns them. `isotropic` means that their direction is
    uniform and independent of their length, which orthogonal and structured maps need. `amplitude` is k(x, x).
    """

    spectral = True
    isotropic = False
    amplitude = 1.0

    def diagonal(self, X: Tensor) -> Tensor:
        return X.new_full((len(X),), self.amplitude)

    def num_uniforms(self, num_inputs: int) -> int:
        """The number of uniform numbers per frequency."""
        return num_inputs

    def frequencies(self, uniforms: Tensor, num_inputs: int) -> Tensor:
        """Frequencies [d, D] from uniform numbers [D, num_uniforms(d)] strictly between 0 and 1.

        One formula for all samplers: independent uniforms give Monte Carlo, low-discrepancy ones quasi-Monte Carlo.
        """
        raise TypeError(f"{type(self).__name__} must define frequencies(uniforms, num_inputs).")

    def sample_frequencies(
        self, num_inputs: int, num_frequencies: int, *, generator: Generator, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Independent frequencies [d, D], on the generator's device."""
        shape = (num_frequencies, self.num_uniforms(num_inputs))
        return self.frequencies(open_uniforms(shape, generator=generator, dtype=dtype), num_inputs)


class Stationary(Spectral, abstract=True):
    """A spectral kernel with one bandwidth.

    The rules "median" and "mean" take that statistic t of `_rule_distances` over pairs of points and set
    bandwidth = (t / rule_divisor) ** rule_power. The rule "neighbor" takes distances in the norm `rule_norm` over
    `_rule_subsets` of the inputs.
    """

    bandwidth: float
    rule_divisor, rule_power, rule_norm = 2.0, 0.5, 2.0

    def __init__(self, *, bandwidth: float = 1.0, scale: Scale = None, metric: Tensor | None = None) -> None:
        super().__init__(scale=scale, metric=metric)
        self.bandwidth = checks.positive_float("bandwidth", bandwidth)
        if not MIN_BANDWIDTH <= self.bandwidth <= MAX_BANDWIDTH:
            raise ValueError(
                f"bandwidth must lie between {MIN_BANDWIDTH:g} and {MAX_BANDWIDTH:g}, got {bandwidth!r}; scale the "
                "inputs."
            )

    def with_bandwidth(
        self,
        rule: str | float,
        X: Tensor,
        *,
        generator: Generator | None = None,
        rows: Iterable[Tensor] | None = None,
    ) -> Self:
        """The same kernel with a given bandwidth, or one that suits the data X [n, d].

        "median" and "mean" take that statistic over the pairs of at most 1,000 points, drawn by `generator`:
        2 bandwidth^2 = squared l2 distance (Gaussian, sparse Gaussian over its subsets, Matern),
        bandwidth^2 = squared l2 distance (Cauchy), bandwidth = l1 distance (Laplacian), bandwidth = distance in its own
        norm (power-exponential).
        "neighbor" sets bandwidth = the mean distance of these points, l2, l1 (Laplacian) or in its own norm, to their
        50th nearest neighbour among all rows: those of X, or of blocks `rows` [., d] if X is a sample of them.

        >>> import torch; from bochner.kernels import Gaussian
        >>> X = torch.tensor([[0.0], [2.0]])
        >>> Gaussian().with_bandwidth("median", X)
        Gaussian(bandwidth=1.4142135623730951)
        """
        if not isinstance(rule, str):
            return self.replace(bandwidth=rule)
        checks.one_of("bandwidth", rule, BANDWIDTH_RULES)
        checks.finite("X", checks.inputs("X", X))
        if len(X) < 2:
            raise ValueError(f"bandwidth={rule!r} needs at least two points, got n_samples = {len(X)}; give a number.")
        generator = generator or Generator().manual_seed(0)
        chosen = torch.randperm(len(X), generator=generator, device=generator.device)[:RULE_POINTS]
        points = self.prepare(X[chosen.to(X.device)]).double()
        if rule == "neighbor":
            blocks = (self.prepare(block) for block in ([X] if rows is None else rows))
            subsets = self._rule_subsets(points.shape[1], generator)
            bandwidth = neighbor_distance(points, blocks, norm=self.rule_norm, subsets=subsets.to(points.device))
            if bandwidth == 0:
                raise ValueError("bandwidth='neighbor' finds 50 copies of every point of X; give it as a number.")
            return self.replace(bandwidth=bandwidth)
        distances = self._rule_distances(points, generator)
        typical = float(distances.median() if rule == "median" else distances.mean())
        if typical == 0 and (distances > 0).any():  # more than half of the pairs coincide: use the others
            typical = float(distances[distances > 0].median())
        if typical == 0:
            raise ValueError(f"bandwidth={rule!r} finds all points of X equal; give the bandwidth as a number.")
        return self.replace(bandwidth=float((typical / self.rule_divisor) ** self.rule_power))

    def _rule_distances(self, points: Tensor, generator: Generator) -> Tensor:
        """Distances between pairs of points [n, d] in the sense of this kernel; by default squared l2 distances."""
        return pdist(points).square()

    def _rule_subsets(self, num_inputs: int, generator: Generator) -> Tensor:
        """Subsets [s, k] of the inputs, over which distances are averaged; by default one, of all inputs."""
        return torch.arange(num_inputs)[None]


class Gaussian(Stationary):
    """k(x, y) = exp(-||x - y||^2 / 2 sigma^2), sigma = bandwidth; frequencies Normal(0, sigma^-2 I).

    X [n, d], Y [m, d]: O(nmd). Source: May 2018, Table 2.2.

    >>> Gaussian(bandwidth=1.0)(torch.zeros(1, 2), torch.ones(1, 2))
    tensor([[0.3679]])
    """

    isotropic = True

    def _evaluate(self, U: Tensor, V: Tensor) -> Tensor:
        squares = squared_distances(U, V, error=SQUARE_ERROR * self.bandwidth**2)
        return squares.mul_(-0.5 / self.bandwidth**2).exp_()

    @property
    def radial(self) -> Radial:
        return Radial(2.0, 1.0, 0.5 / self.bandwidth**2, error=SQUARE_ERROR * self.bandwidth**2)

    def frequencies(self, uniforms: Tensor, num_inputs: int) -> Tensor:
        return torch.special.ndtri(uniforms).T / self.bandwidth

    def sample_frequencies(
        self, num_inputs: int, num_frequencies: int, *, generator: Generator, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        # Normal numbers drawn directly cost less than the inverse distribution function of uniform ones.
        shape = (num_frequencies, num_inputs)
        return torch.randn(shape, generator=generator, device=generator.device, dtype=dtype).T / self.bandwidth


class Laplacian(Stationary):
    """k(x, y) = exp(-||x - y||_1 / bandwidth); frequencies Cauchy(0, 1 / bandwidth) per input.

    The papers write lambda = 1 / bandwidth. X [n, d], Y [m, d]: O(nmd). Source: May 2018, Table 2.2.

    >>> Laplacian(bandwidth=2.0)(torch.zeros(1, 2), torch.ones(1, 2))
    tensor([[0.3679]])
    """

    rule_divisor, rule_power, rule_norm = 1.0, 1.0, 1.0

    def _evaluate(self, U: Tensor, V: Tensor) -> Tensor:
        return torch.cdist(U, V, p=1).mul(-1 / self.bandwidth).exp_()

    @property
    def radial(self) -> Radial:
        return Radial(1.0, 1.0, 1 / self.bandwidth)

    def frequencies(self, uniforms: Tensor, num_inputs: int) -> Tensor:
        return _cauchy_numbers(uniforms).T / self.bandwidth

    def _rule_distances(self, points: Tensor, generator: Generator) -> Tensor:
        return pdist(points, p=1)


class PowerExponential(Stationary):
    """k(x, y) = exp(-(||x - y||_q / s)^p) with p = exponent, q = norm, s = bandwidth and 0 < p <= q <= 2.

    A smaller p gives rougher functions; k has a kink at x = y for p <= 1, and its derivative there is taken as 0, as is
    that of |x_i - y_i|^q where x_i = y_i. Special cases:

        q = 2           isotropic; p = 2: Gaussian(bandwidth=s / sqrt(2)), p = 1: Matern(smoothness=0.5, bandwidth=s)
        q = p           the product over inputs of exp(-|x_i - y_i|^p / s^p); p = 1: Laplacian(bandwidth=s)

    Frequencies are w = S^{1/q} u / s: the entries of u are independent and q-stable, E exp(i t u_i) = exp(-|t|^q), and
    S > 0 is (p/q)-stable, E exp(-t S) = exp(-t^{p/q}), or 1 for p = q.
    X [n, d], Y [m, d]: O(nmd), one pass per input unless q is 1 or 2. Source: Schoenberg 1938 (positive definite);
    Chambers, Mallows & Stuck 1976 and Kanter 1975 (stable numbers).

    >>> PowerExponential(exponent=0.5, bandwidth=5.0)(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]))
    tensor([[0.3679]])
    """

    rule_divisor, rule_power = 1.0, 1.0

    def __init__(
        self,
        *,
        exponent: float = 1.0,
        norm: float = 2.0,
        bandwidth: float = 1.0,
        scale: Scale = None,
        metric: Tensor | None = None,
    ) -> None:
        super().__init__(bandwidth=bandwidth, scale=scale, metric=metric)
        self.exponent = checks.positive_float("exponent", exponent)
        self.norm = checks.positive_float("norm", norm)
        if self.norm > 2:
            raise ValueError(f"norm must be at most 2 for a positive definite kernel, got {norm!r}.")
        if self.exponent > self.norm:
            raise ValueError(
                f"exponent must be at most norm={self.norm!r} for a positive definite kernel, got {exponent!r}."
            )
        self.isotropic, self.rule_norm = self.norm == 2, self.norm

    def _evaluate(self, U: Tensor, V: Tensor) -> Tensor:
        differentiated = torch.is_grad_enabled() and (U.requires_grad or V.requires_grad)
        if self.exponent == 2:  # smooth in the squares, so that their rounding does no harm
            base, power = squared_distances(U, V, error=SQUARE_ERROR * self.bandwidth**2), 1.0
        else:
            base, power = power_sums(U, V, self.norm), self.exponent / self.norm
        # The bandwidth comes last: inputs divided by it would be rounded, and with them small differences.
        exponential = _smooth_exponential if differentiated else _write_exponential
        return exponential(base, power, self.bandwidth**-self.exponent)

    @property
    def radial(self) -> Radial:
        error = SQUARE_ERROR * self.bandwidth**2 if self.exponent == 2 else 0.0
        return Radial(self.norm, self.exponent / self.norm, self.bandwidth**-self.exponent, error=error)

    def _temporaries(self) -> int:
        return 2 if self.norm == 2 else 3

    def num_uniforms(self, num_inputs: int) -> int:
        """Two for S, unless it is 1, and then one or two per entry of u."""
        return self._num_entry_uniforms(num_inputs) + (2 if self.exponent < self.norm else 0)

    def _num_entry_uniforms(self, num_inputs: int) -> int:
        return num_inputs if self.norm in (1, 2) else 2 * num_inputs

    def frequencies(self, uniforms: Tensor, num_inputs: int) -> Tensor:
        own = uniforms[:, -self._num_entry_uniforms(num_inputs) :]
        # in float64: the tails leave the range of float32
        W = _stable_numbers(own.double(), self.norm) / self.bandwidth
        if self.exponent < self.norm:
            logs = _positive_stable_logs(uniforms[:, :2].double(), self.exponent / self.norm) / self.norm
            W *= logs.clamp_max(math.log(MAX_FREQUENCY)).exp()[:, None]
        return W.clamp_(-MAX_FREQUENCY, MAX_FREQUENCY).to(uniforms.dtype).T

    def _rule_distances(self, points: Tensor, generator: Generator) -> Tensor:
        return pdist(points, p=self.norm)


class Cauchy(Stationary):
    """k(x, y) = prod_i 1 / (1 + (x_i - y_i)^2 / bandwidth^2); frequencies Laplace(0, 1 / bandwidth) per input.

    X [n, d], Y [m, d]: O(nmd), one pass per input. Source: Rahimi & Recht 2007, Figure 1.

    >>> Cauchy(bandwidth=1.0)(torch.zeros(1, 2), torch.ones(1, 2))
    tensor([[0.2500]])
    """

    rule_divisor = 1.0

    def _evaluate(self, U: Tensor, V: Tensor) -> Tensor:
        # Logarithms are summed: a product over hundreds of inputs would leave float32's range on its way.
        logs = U.new_zeros(len(U), len(V))
        for u, v in zip(U.T / self.bandwidth, V.T / self.bandwidth, strict=True):
            logs = logs + torch.log1p((u[:, None] - v).square())
        return torch.exp(-logs)

    def _temporaries(self) -> int:
        return 3

    def frequencies(self, uniforms: Tensor, num_inputs: int) -> Tensor:
        centred = uniforms - 0.5
        tails = (1 - 2 * centred.abs()).clamp_min(torch.finfo(uniforms.dtype).tiny)
        return (-centred.sign() * torch.log(tails)).T / self.bandwidth


class Matern(Stationary):
    """With t = sqrt(2 nu) ||x - y||_2 / bandwidth, and smoothness nu:

        nu = 1/2: exp(-t);  nu = 3/2: (1 + t) exp(-t);  nu = 5/2: (1 + t + t^2 / 3) exp(-t).

    Frequencies are multivariate t with 2 nu degrees of freedom: Normal(0, I) sqrt(2 nu / chi^2_{2 nu}) / bandwidth.
    X [n, d], Y [m, d]: O(nmd). Source: Rasmussen & Williams 2006, Section 4.2.

    >>> Matern(smoothness=0.5)(torch.zeros(1, 1), torch.ones(1, 1))
    tensor([[0.3679]])
    """

    isotropic = True

    def __init__(
        self, *, smoothness: float = 1.5, bandwidth: float = 1.0, scale: Scale = None, metric: Tensor | None = None
    ) -> None:
        super().__init__(bandwidth=bandwidth, scale=scale, metric=metric)
        checks.one_of("smoothness", smoothness, [0.5, 1.5, 2.5])
        self.smoothness = float(smoothness)
        self._freedom = round(2 * self.smoothness)

    def _evaluate(self, U: Tensor, V: Tensor) -> Tensor:
        # exp(-t) is not smooth in t^2, so rounding errors between near points would be visible.
        if self.smoothness == 0.5:
            squares = accurate_squared_distances(U, V)
        else:
            squares = squared_distances(U, V, error=SQUARE_ERROR * self.bandwidth**2)
        squares = squares * (2 * self.smoothness / self.bandwidth**2)
        # The root has no derivative at 0, where the kernel's own derivative needs none.
        t = squares.clamp_min(torch.finfo(squares.dtype).tiny).sqrt()
        decay = torch.exp(-t)
        if self.smoothness == 0.5:
            return decay
        return (1 + t if self.smoothness == 1.5 else 1 + t + squares / 3) * decay

    @property
    def radial(self) -> Radial:
        error = 0.0 if self.smoothness == 0.5 else SQUARE_ERROR * self.bandwidth**2
        return Radial(2.0, 0.5, math.sqrt(self._freedom) / self.bandwidth, self._freedom // 2, error)

    def _temporaries(self) -> int:
        return 6

    def num_uniforms(self, num_inputs: int) -> int:
        return num_inputs + self._freedom

    def frequencies(self, uniforms: Tensor, num_inputs: int) -> Tensor:
        return self._from_normals(torch.special.ndtri(uniforms).T)

    def sample_frequencies(
        self, num_inputs: int, num_frequencies: int, *, generator: Generator, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        shape = (num_frequencies, self.num_uniforms(num_inputs))
        return self._from_normals(torch.randn(shape, generator=generator, device=generator.device, dtype=dtype).T)

    def _from_normals(self, normals: Tensor) -> Tensor:
        """Frequencies from Normal(0, 1) numbers [2 nu + d, D]: the first 2 nu rows give chi, the others the normals."""
        chi = normals[: self._freedom].square().sum(dim=0).sqrt().clamp_min(torch.finfo(normals.dtype).tiny)
        return normals[self._freedom :] * (math.sqrt(self._freedom) / self.bandwidth / chi)


class SparseGaussian(Stationary):
    """k(x, y) = mean over all k-subsets F of the inputs of exp(-||x_F - y_F||^2 / 2 bandwidth^2).

    With v_i = exp(-(x_i - y_i)^2 / 2 bandwidth^2) this is e_k(v_1 .. v_d) / binom(d, k), the k-th elementary symmetric
    polynomial, by the recursion e_j <- e_j + v_i e_{j-1}: O(dk) per pair instead of binom(d, k). A frequency has
    `subset_size` = k non-zero Normal(0, bandwidth^-2) entries at uniformly chosen inputs.
    X [n, d], Y [m, d]: O(nmdk). Source: May 2018, Section 5.2.

    >>> SparseGaussian(subset_size=1)(torch.zeros(1, 2), torch.tensor([[0.0, 9.0]]))
    tensor([[0.5000]])
    """

    def __init__(
        self, *, subset_size: int = 5, bandwidth: float = 1.0, scale: Scale = None, metric: Tensor | None = None
    ) -> None:
        super().__init__(bandwidth=bandwidth, scale=scale, metric=metric)
        self.subset_size = checks.positive_int("subset_size", subset_size)

    def _evaluate(self, U: Tensor, V: Tensor) -> Tensor:
        k = self._checked_size(U.shape[1])
        c = math.sqrt(0.5) / self.bandwidth
        # means[j] is e_j over the inputs so far, divided by binom(inputs so far, j): it stays within [0, 1] at every
        # step, where e_j itself would overflow.
        means = [U.new_ones(len(U), len(V))]
        for count, (u, v) in enumerate(zip(U.T * c, V.T * c, strict=True), start=1):
            value = torch.exp(-(u[:, None] - v).square())
            joined = [
                value * means[j - 1] if j == count else torch.lerp(means[j], value * means[j - 1], j / count)
                for j in range(1, min(k, count) + 1)
            ]
            means = means[:1] + joined
        return means[k]

    def _temporaries(self) -> int:
        return 2 * self.subset_size + 3

    def num_uniforms(self, num_inputs: int) -> int:
        return 2 * self._checked_size(num_inputs)

    def frequencies(self, uniforms: Tensor, num_inputs: int) -> Tensor:
        places, values = self.sparse_frequencies(uniforms, num_inputs)
        return values.new_zeros(len(values), num_inputs).scatter_(1, places, values).T

    def sparse_frequencies(self, uniforms: Tensor, num_inputs: int) -> tuple[Tensor, Tensor]:
        """Places [D, k] and values [D, k] of the non-zero entries, from uniforms [D, 2k]."""
        k = self._checked_size(num_inputs)
        places = _distinct_places(uniforms[:, :k], num_inputs)
        return places, torch.special.ndtri(uniforms[:, k:]) / self.bandwidth

    def _rule_distances(self, points: Tensor, generator: Generator) -> Tensor:
        subsets = self._rule_subsets(points.shape[1], generator).to(points.device)
        return torch.cat([pdist(points[:, F]).square() for F in subsets])

    def _rule_subsets(self, num_inputs: int, generator: Generator) -> Tensor:
        uniforms = open_uniforms((RULE_SUBSETS, self._checked_size(num_inputs)), generator=generator)
        return _distinct_places(uniforms, num_inputs)

    def _checked_size(self, num_inputs: int) -> int:
        if self.subset_size > num_inputs:
            raise ValueError(f"subset_size must be at most the number of inputs, {num_inputs}, got {self.subset_size}.")
        return self.subset_size


def open_uniforms(shape: tuple[int, int], *, generator: Generator, dtype: torch.dtype = torch.float32) -> Tensor:
    """Uniform numbers strictly between 0 and 1, so that inverse distribution functions stay finite."""
    U = torch.rand(shape, generator=generator, device=generator.device, dtype=dtype)
    # Half of rand's own step: a smaller end would turn 0 into an outlier that no sample of this size has.
    eps = torch.finfo(dtype).eps
    return U.clamp_(eps / 4, 1 - eps / 2)


def _write_exponential(base: Tensor, power: float, factor: float) -> Tensor:
    """exp(-factor base^power) for base >= 0, in place.

    Powers of two and their logarithms take half the time of torch.pow, and exp2 half that of exp.
    """
    if power == 0.25:
        base.sqrt_().sqrt_()
    elif power == 0.5:
        base.sqrt_()
    elif power != 1:
        base.log2_().mul_(power).exp2_()  # 0 stays 0: its logarithm is -inf
    return base.mul_(-LOG2_E * factor).exp2_()


def _smooth_exponential(base: Tensor, power: float, factor: float) -> Tensor:
    """exp(-factor base^power) for base >= 0, with derivative 0 at 0."""
    zero = base == 0
    base = base.masked_fill(zero, 1)
    raised = base.sqrt() if power == 0.5 else (base.log2() * power).exp2()
    return (raised.masked_fill(zero, 0) * (-LOG2_E * factor)).exp2()


def _cauchy_numbers(uniforms: Tensor) -> Tensor:
    """Cauchy(0, 1) numbers from uniform ones."""
    # tan(pi (u - 1/2)) = -1 / tan(pi u) = 1 / tan(pi (1 - u)): the smaller of u and 1 - u keeps the tails' digits
    lower = uniforms < 0.5
    return torch.where(lower, -1, 1) / torch.tan(math.pi * torch.where(lower, uniforms, 1 - uniforms))


def _stable_numbers(uniforms: Tensor, index: float) -> Tensor:
    """Symmetric stable numbers u [D, d] with E exp(i t u) = exp(-|t|^index), 0 < index <= 2.

    With T uniform on (-pi/2, pi/2), E exponential and a = index,
    u = sin(a T) / cos(T)^{1/a} (cos((1 - a) T) / E)^{(1 - a) / a} from two uniforms [D, 2 d]; sqrt(2) Normal(0, 1) for
    index 2 and Cauchy(0, 1) for index 1, from one [D, d]. Source: Chambers, Mallows & Stuck 1976.
    """
    if index == 2:
        return math.sqrt(2) * torch.special.ndtri(uniforms)
    if index == 1:
        return _cauchy_numbers(uniforms)
    first, second = uniforms.chunk(2, dim=1)
    angles, exponentials = math.pi * (first - 0.5), -second.log()
    logs = (index * angles).sin().abs().log() - angles.cos().log() / index
    logs += (1 - index) / index * (((1 - index) * angles).cos().log() - exponentials.log())
    return angles.sign() * logs.clamp_max(math.log(MAX_FREQUENCY)).exp()


def _positive_stable_logs(uniforms: Tensor, index: float) -> Tensor:
    """log S [D] for S > 0 with E exp(-t S) = exp(-t^index), 0 < index < 1, from uniforms [D, 2].

    With T uniform on (0, pi), E exponential and a = index,
    S = sin(a T) / sin(T)^{1/a} (sin((1 - a) T) / E)^{(1 - a) / a}. Source: Kanter 1975.
    """
    angles, exponentials = math.pi * uniforms[:, 0], -uniforms[:, 1].log()
    logs = (index * angles).sin().log() - angles.sin().log() / index
    return logs + (1 - index) / index * (((1 - index) * angles).sin().log() - exponentials.log())


def _distinct_places(uniforms: Tensor, num_inputs: int) -> Tensor:
    """Distinct places below `num_inputs`, uniform over subsets, k of them from uniforms [D, k] (Floyd's algorithm)."""
    count, k = uniforms.shape
    places = torch.empty(count, k, dtype=torch.long, device=uniforms.device)
    for column in range(k):
        last = num_inputs - k + column
        drawn = (uniforms[:, column] * (last + 1)).long().clamp_max_(last)
        is_drawn = (places[:, :column] == drawn[:, None]).any(dim=1)
        places[:, column] = torch.where(is_drawn, last, drawn)
    return places
