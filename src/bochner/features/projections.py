"""Projections x -> W^T x on frequencies of a spectral kernel: dense, sparse, circulant, Hadamard and Fastfood."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import embedding_bag
from torch.quasirandom import SobolEngine

from bochner import checks
from bochner.kernels import Kernel, SparseGaussian, Spectral
from bochner.kernels.stationary import open_uniforms
from bochner.ops import TILE_ELEMENTS, hadamard_transform, row_tiles
from bochner.storage import Storable


class Projection(Storable, abstract=True):
    """A linear map from d inputs to P outputs, W [d, P], whose columns are frequencies of a spectral kernel.

    `prepared` means that inputs must have gone through `kernel.prepare`; otherwise W includes scale and metric.
    """

    num_inputs: int
    num_outputs: int
    prepared = True
    structured = False  # whether W is a product of diagonals and fast transforms
    adaptable: tuple[str, ...] = ()  # the parameters that adapting a map to data changes
    tile_elements = 2**20  # outputs computed at once, 4 MiB: in cache from one pass of a transform to the next

    def forward(self, X: Tensor) -> Tensor:
        """X W, as [N, P]; differentiable."""
        raise TypeError(f"{type(self).__name__} must define forward(X).")

    def write(self, X: Tensor, out: Tensor) -> None:
        """X W into `out` [N, P], for one tile and without gradients."""
        out.copy_(self(X))

    def take(self, columns: Tensor) -> Projection | None:
        """Some of the outputs, stored in the same form; None where that is not possible."""
        return None

    def join(self, other: Projection) -> Projection | None:
        """Both projections side by side, stored in the same form; None where that is not possible."""
        return None

    def matrix(self) -> Tensor:
        """W itself, [d, P]: for analysis and tests."""
        like = next(p for p in self.parameters() if p.is_floating_point())
        return self(torch.eye(self.num_inputs, dtype=like.dtype, device=like.device))


def frozen(values: Tensor) -> nn.Parameter:
    """A parameter that requires no gradient."""
    return nn.Parameter(values, requires_grad=False)


def sample_radii(kernel: Spectral, num_inputs: int, count: int, *, generator: Generator, dtype: torch.dtype) -> Tensor:
    """Lengths of `count` frequencies of the kernel in `num_inputs` dimensions, [count]."""
    radii = torch.empty(count, dtype=dtype, device=generator.device)
    for tile in row_tiles(count, row_elements=num_inputs, tile_elements=TILE_ELEMENTS):
        W = kernel.sample_frequencies(num_inputs, tile.stop - tile.start, generator=generator, dtype=dtype)
        # in float64: the squares of tiny or huge frequencies leave the range of float32
        radii[tile] = torch.linalg.vector_norm(W, dim=0, dtype=torch.float64).to(dtype)
    return radii


def random_signs(shape: tuple[int, ...], *, generator: Generator, dtype: torch.dtype) -> Tensor:
    bits = torch.randint(0, 2, shape, generator=generator, device=generator.device)
    return (2 * bits - 1).to(dtype)


def pad_inputs(X: Tensor, width: int) -> Tensor:
    return X if X.shape[1] == width else nn.functional.pad(X, (0, width - X.shape[1]))


def next_power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length()


class DenseProjection(Projection):
    """W [d, P] stored as a dense matrix: O(NPd) time, O(Pd) memory. The kernel's scale or metric is folded into W."""

    prepared = False
    adaptable = ("frequencies",)
    tile_elements = 2**23  # matrix products are faster on tall tiles

    def __init__(self, frequencies: Tensor) -> None:
        super().__init__()
        if frequencies.ndim != 2 or 0 in frequencies.shape:
            raise ValueError(f"frequencies must be [d, P], got shape {tuple(frequencies.shape)}.")
        self.frequencies = frozen(frequencies)
        self.num_inputs, self.num_outputs = frequencies.shape

    def forward(self, X: Tensor) -> Tensor:
        return X @ self.frequencies

    def write(self, X: Tensor, out: Tensor) -> None:
        torch.mm(X, self.frequencies, out=out)

    def take(self, columns: Tensor) -> DenseProjection:
        return DenseProjection(self.frequencies[:, columns])

    def join(self, other: Projection) -> DenseProjection | None:
        if not isinstance(other, DenseProjection):
            return None
        return DenseProjection(torch.cat([self.frequencies, other.frequencies], dim=1))


def draw_iid(
    kernel: Spectral, num_inputs: int, count: int, *, generator: Generator, dtype: torch.dtype
) -> DenseProjection:
    """Independent frequencies. Source: Rahimi & Recht 2007."""
    W = kernel.sample_frequencies(num_inputs, count, generator=generator, dtype=dtype)
    return DenseProjection(kernel.fold(W).contiguous())


def draw_orthogonal(
    kernel: Spectral, num_inputs: int, count: int, *, generator: Generator, dtype: torch.dtype
) -> DenseProjection:
    """Frequencies orthogonal to each other within blocks of d: uniform unit vectors times the kernel's own lengths.

    Each frequency keeps its distribution, so the map is unbiased; orthogonality lowers the variance.
    Source: Yu et al. 2016.
    """
    blocks = -(-count // num_inputs)
    shape = (blocks, num_inputs, num_inputs)
    normals = torch.randn(shape, generator=generator, device=generator.device, dtype=dtype)
    Q, R = torch.linalg.qr(normals)
    # QR leaves signs open; with the diagonal of R made positive, Q is uniform over orthogonal matrices.
    Q = Q * R.diagonal(dim1=1, dim2=2).sign()[:, None, :]
    unit = Q.transpose(0, 1).reshape(num_inputs, -1)[:, :count]
    radii = sample_radii(kernel, num_inputs, count, generator=generator, dtype=dtype)
    return DenseProjection(kernel.fold(unit * radii).contiguous())


def draw_quasi(
    kernel: Spectral, num_inputs: int, count: int, *, generator: Generator, dtype: torch.dtype
) -> DenseProjection:
    """Quasi-Monte Carlo: the kernel's frequencies at the points of a scrambled Sobol sequence.

    Source: Avron et al. 2016.
    """
    dimension = kernel.num_uniforms(num_inputs)
    if dimension > SobolEngine.MAXDIM:
        raise ValueError(
            f"projection='sobol' takes at most {SobolEngine.MAXDIM} dimensions, this kernel needs {dimension}; "
            "use 'orthogonal' or 'iid'."
        )
    seed = torch.randint(2**31, (1,), generator=generator, device=generator.device)
    points = SobolEngine(dimension, scramble=True, seed=int(seed)).draw(count, dtype=torch.float64)
    points = points.clamp_(2.0**-33, 1 - 2.0**-33)  # Sobol points are multiples of 2^-30, 0 included
    W = kernel.frequencies(points.to(generator.device), num_inputs).to(dtype)
    return DenseProjection(kernel.fold(W).contiguous())


# Outputs of a sparse projection computed at once: their sums are transposed to [N, P] while still in cache.
SPARSE_OUTPUTS = 4096


class SparseProjection(Projection):
    """W with k non-zero entries per column: places [P, k] and values [P, k]; O(NPk) time, O(Pk) memory.

    An output is a weighted sum of k rows of X^T, which is what an embedding bag computes.
    """

    tile_elements = 2**21  # 8 MiB of outputs besides X^T
    adaptable = ("values",)

    def __init__(self, num_inputs: int, places: Tensor, values: Tensor) -> None:
        super().__init__()
        if places.shape != values.shape or places.ndim != 2 or 0 in places.shape:
            raise ValueError(
                f"places and values must both be [P, k], got {tuple(places.shape)} and {tuple(values.shape)}."
            )
        if int(places.min()) < 0 or int(places.max()) >= num_inputs:
            raise ValueError(f"places must lie in 0..{num_inputs - 1}, the inputs.")
        self.register_buffer("places", places.to(torch.int32))
        self.places: Tensor
        self.values = frozen(values)
        self.num_inputs = num_inputs
        self.num_outputs = len(places)

    def forward(self, X: Tensor) -> Tensor:
        return embedding_bag(self.places, X.T.contiguous(), mode="sum", per_sample_weights=self.values).T

    def write(self, X: Tensor, out: Tensor) -> None:
        columns_of_X = X.T.contiguous()
        for tile in row_tiles(self.num_outputs, row_elements=1, tile_elements=SPARSE_OUTPUTS):
            sums = embedding_bag(self.places[tile], columns_of_X, mode="sum", per_sample_weights=self.values[tile])
            out[:, tile] = sums.T.contiguous()

    def take(self, columns: Tensor) -> SparseProjection:
        return SparseProjection(self.num_inputs, self.places[columns], self.values[columns])

    def join(self, other: Projection) -> SparseProjection | None:
        if not isinstance(other, SparseProjection):
            return None
        places, values = torch.cat([self.places, other.places]), torch.cat([self.values, other.values])
        return SparseProjection(self.num_inputs, places, values)


def draw_sparse(
    kernel: Spectral, num_inputs: int, count: int, *, generator: Generator, dtype: torch.dtype
) -> SparseProjection:
    """Independent frequencies of the sparse Gaussian kernel. Source: May 2018, Section 5.2."""
    if not isinstance(kernel, SparseGaussian):
        raise ValueError(f"projection='sparse' needs a SparseGaussian kernel, got {kernel!r}.")
    shape = (count, kernel.num_uniforms(num_inputs))
    uniforms = open_uniforms(shape, generator=generator, dtype=dtype)
    places, values = kernel.sparse_frequencies(uniforms, num_inputs)
    return SparseProjection(num_inputs, places, values)


class CirculantProjection(Projection):
    """Blocks of rows of S circ(g) D: all shifts of one Gaussian vector g, random signs D, lengths S.

    Each row by itself is a Gaussian vector, so the map is unbiased; rows of a block depend on each other.
    normals, signs [blocks, d]; radii [P]. O(NP log d) time, O(P) memory, no padding. Source: Feng et al. 2015.
    """

    structured = True
    adaptable = ("normals", "signs")

    def __init__(self, normals: Tensor, signs: Tensor, radii: Tensor) -> None:
        super().__init__()
        if normals.ndim != 2 or normals.shape != signs.shape:
            raise ValueError(
                f"normals and signs must both be [blocks, d], got {tuple(normals.shape)} and {tuple(signs.shape)}."
            )
        if not 0 < len(radii) <= normals.numel():
            raise ValueError(f"radii must be [P] with P in 1..{normals.numel()}.")
        self.normals, self.signs, self.radii = frozen(normals), frozen(signs), frozen(radii)
        self.num_inputs, self.num_outputs = normals.shape[1], len(radii)

    def forward(self, X: Tensor) -> Tensor:
        d = self.num_inputs
        unit = self.normals / self.normals.norm(dim=1, keepdim=True)
        spectrum = torch.fft.rfft(X[:, None, :] * self.signs) * torch.fft.rfft(unit)
        Y = torch.fft.irfft(spectrum, n=d).reshape(len(X), -1)
        return Y[:, : self.num_outputs] * self.radii


def draw_circulant(
    kernel: Spectral, num_inputs: int, count: int, *, generator: Generator, dtype: torch.dtype
) -> CirculantProjection:
    shape = (math.ceil(count / num_inputs), num_inputs)
    normals = torch.randn(shape, generator=generator, device=generator.device, dtype=dtype)
    signs = random_signs(shape, generator=generator, dtype=dtype)
    radii = sample_radii(kernel, num_inputs, count, generator=generator, dtype=dtype)
    return CirculantProjection(normals, signs, radii)


class HadamardProjection(Projection):
    """Blocks of rows of S H D_i .. H D_1, with H the orthonormal Hadamard matrix of size p, the power of two >= d.

    diagonals [chain, blocks, p] holds the D's (random signs), radii [P] the S: the length of each frequency.
    Inputs are padded with zeros to p. Random signs only approximate a rotation, so the map is biased: a chain of one
    strongly where points differ in few inputs, a chain of three hardly from d = 16 on.
    O(NP log d) time, O(P) memory. Source: Yu et al. 2016; Alber et al. 2017.
    """

    structured = True
    adaptable = ("diagonals",)

    def __init__(self, num_inputs: int, diagonals: Tensor, radii: Tensor) -> None:
        super().__init__()
        size = next_power_of_two(num_inputs)
        if diagonals.ndim != 3 or 0 in diagonals.shape or diagonals.shape[2] != size:
            raise ValueError(f"diagonals must be [chain, blocks, {size}], got {tuple(diagonals.shape)}.")
        if not 0 < len(radii) <= diagonals[0].numel():
            raise ValueError(f"radii must be [P] with P in 1..{diagonals[0].numel()}.")
        self.diagonals, self.radii = frozen(diagonals), frozen(radii)
        self.num_inputs, self.num_outputs = num_inputs, len(radii)

    def forward(self, X: Tensor) -> Tensor:
        return self._chain(X, None)[:, : self.num_outputs] * self.radii

    def write(self, X: Tensor, out: Tensor) -> None:
        scratch = X.new_empty(len(X), *self.diagonals.shape[1:])
        rows = self._chain(X, scratch)[:, : self.num_outputs]
        torch.mul(rows, self.radii, out=out)

    def _chain(self, X: Tensor, scratch: Tensor | None) -> Tensor:
        Y = pad_inputs(X, self.diagonals.shape[2])[:, None, :] * self.diagonals[0]
        Z = hadamard_transform(Y, scratch=scratch)
        for diagonal in self.diagonals[1:]:
            if scratch is None:
                Z = hadamard_transform(Z * diagonal)
            else:
                other = scratch if Z.data_ptr() == Y.data_ptr() else Y
                Z = hadamard_transform(Z.mul_(diagonal), scratch=other)
        return Z.reshape(len(X), -1)


def draw_hadamard(
    kernel: Spectral,
    num_inputs: int,
    count: int,
    *,
    chain: int = 3,
    generator: Generator,
    dtype: torch.dtype,
) -> HadamardProjection:
    """Random signs and lengths of the kernel's frequencies; a longer chain is closer to a uniform rotation."""
    checks.positive_int("chain", chain)
    size = next_power_of_two(num_inputs)
    signs = random_signs((chain, math.ceil(count / size), size), generator=generator, dtype=dtype)
    radii = sample_radii(kernel, size, count, generator=generator, dtype=dtype)
    return HadamardProjection(num_inputs, signs, radii)


class FastfoodProjection(Projection):
    """Blocks of rows of S H G P H B: signs B, permutation P, Gaussian diagonal G, lengths S, Hadamard H of size p >= d.

    Each row by itself is a Gaussian vector, so the map is unbiased; rows of a block depend on each other.
    signs, normals, permutations [blocks, p]; radii [P]. O(NP log d) time, O(P) memory. Source: Le et al. 2013.
    """

    structured = True
    adaptable = ("signs", "normals")

    def __init__(self, num_inputs: int, signs: Tensor, permutations: Tensor, normals: Tensor, radii: Tensor) -> None:
        super().__init__()
        size = next_power_of_two(num_inputs)
        if signs.ndim != 2 or signs.shape[1] != size or not 0 < len(radii) <= signs.numel():
            raise ValueError(
                f"signs must be [blocks, {size}] and radii [P] with P <= blocks * {size}, "
                f"got {tuple(signs.shape)} and {tuple(radii.shape)}."
            )
        if permutations.shape != signs.shape or normals.shape != signs.shape:
            raise ValueError("permutations and normals must have the shape of signs.")
        if not torch.equal(
            permutations.sort(dim=1).values.long(),
            torch.arange(size, device=signs.device).expand_as(signs),
        ):
            raise ValueError(f"permutations must hold each of 0..{size - 1} once in every row.")
        self.register_buffer("permutations", permutations.to(torch.int32))
        self.permutations: Tensor
        self.signs, self.normals, self.radii = frozen(signs), frozen(normals), frozen(radii)
        self.num_inputs, self.num_outputs = num_inputs, len(radii)

    def forward(self, X: Tensor) -> Tensor:
        size = self.signs.shape[1]
        Y = hadamard_transform(pad_inputs(X, size)[:, None, :] * self.signs)
        Y = Y.gather(2, self.permutations.long().expand(len(X), -1, -1)) * self.normals
        # A row of H G has length ||G|| / sqrt(p), which is divided out: S holds the lengths of frequencies.
        unit = math.sqrt(size) / self.normals.norm(dim=1, keepdim=True)
        Y = (hadamard_transform(Y) * unit).reshape(len(X), -1)
        return Y[:, : self.num_outputs] * self.radii


def draw_fastfood(
    kernel: Spectral, num_inputs: int, count: int, *, generator: Generator, dtype: torch.dtype
) -> FastfoodProjection:
    size = next_power_of_two(num_inputs)
    shape = (math.ceil(count / size), size)
    signs = random_signs(shape, generator=generator, dtype=dtype)
    device = generator.device
    permutations = torch.rand(shape, generator=generator, device=device).argsort(dim=1)
    normals = torch.randn(shape, generator=generator, device=device, dtype=dtype)
    radii = sample_radii(kernel, size, count, generator=generator, dtype=dtype)
    return FastfoodProjection(num_inputs, signs, permutations, normals, radii)


_DRAWS: dict[str, Callable[..., Projection]] = {
    "iid": draw_iid,
    "orthogonal": draw_orthogonal,
    "sobol": draw_quasi,
    "hadamard1": partial(draw_hadamard, chain=1),
    "hadamard2": partial(draw_hadamard, chain=2),
    "hadamard3": partial(draw_hadamard, chain=3),
    "fastfood": draw_fastfood,
    "circulant": draw_circulant,
    "sparse": draw_sparse,
}
_NEEDS_ISOTROPY = {"orthogonal", "hadamard1", "hadamard2", "hadamard3", "fastfood", "circulant"}

PROJECTION_NAMES = ["auto", *_DRAWS]


def draw_projection(
    name: str,
    kernel: Kernel,
    num_inputs: int,
    count: int,
    *,
    generator: Generator,
    dtype: torch.dtype = torch.float32,
) -> Projection:
    """A projection on `count` random frequencies of the kernel, by name.

    "auto" is "sparse" for the sparse Gaussian kernel, "orthogonal" for isotropic kernels, else "iid".
    """
    checks.one_of("projection", name, PROJECTION_NAMES)
    if not isinstance(kernel, Spectral) or not kernel.spectral:
        raise ValueError(
            f"kernel must have a spectral sampler, {kernel!r} has none; use a Nystrom map, which takes any kernel."
        )
    if name == "auto":
        name = "sparse" if isinstance(kernel, SparseGaussian) else "orthogonal" if kernel.isotropic else "iid"
    if name in _NEEDS_ISOTROPY and not kernel.isotropic:
        raise ValueError(
            f"projection={name!r} needs an isotropic kernel (Gaussian, Matern, PowerExponential with norm=2), "
            f"got {kernel!r}; use 'iid' or 'sobol'."
        )
    return _DRAWS[name](kernel, num_inputs, count, generator=generator, dtype=dtype)
