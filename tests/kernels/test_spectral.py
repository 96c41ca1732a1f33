"""Frequencies: their characteristic function is the kernel, and their distribution the stated one."""

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Generator, Tensor
from torch.quasirandom import SobolEngine

from bochner.kernels import (
    Cauchy,
    Gaussian,
    Laplacian,
    Matern,
    Polynomial,
    PowerExponential,
    SparseGaussian,
    Spectral,
    Sum,
)
from bochner.kernels.stationary import open_uniforms
from tests.kernels.cases import CASES, NUM_INPUTS, Case, every_spectral_kernel, points

LIKELY = 1e-3  # fixed seeds: a smaller p-value is a wrong distribution, not bad luck
PAIRS = (points(6, seed=11) - points(6, seed=12)) * torch.tensor([0.1, 0.3, 0.5, 0.7, 1.0, 1.5])[:, None]

isotropic_kernels = pytest.mark.parametrize(
    "kernel", [case.kernel for case in CASES if case.kernel.spectral and case.kernel.isotropic], ids=repr
)


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def draw(kernel: Spectral, count: int, *, num_inputs: int = NUM_INPUTS, seed: int = 0) -> Tensor:
    return kernel.sample_frequencies(num_inputs, count, generator=seeded(seed), dtype=torch.float64)


def sobol_frequencies(kernel: Spectral, count: int) -> Tensor:
    engine = SobolEngine(kernel.num_uniforms(NUM_INPUTS), scramble=True, seed=0)
    return kernel.frequencies(engine.draw(count, dtype=torch.float64).clamp(1e-10, 1 - 1e-10), NUM_INPUTS)


def wanted(case: Case) -> Tensor:
    origin = np.zeros(NUM_INPUTS)
    return torch.tensor([case.oracle(x, origin) / case.oracle(origin, origin) for x in PAIRS.numpy()])


# -- Bochner's theorem -----------------------------------------------------------------------------------------------


@every_spectral_kernel
def test_mean_cosine_is_the_kernel(case: Case) -> None:
    cosines = torch.cos(PAIRS @ case.kernel.fold(draw(case.kernel, 200_000)))
    standard_error = cosines.std(dim=1) / math.sqrt(cosines.shape[1])
    assert ((cosines.mean(dim=1) - wanted(case)).abs() < 5 * standard_error).all()


@every_spectral_kernel
def test_mean_cosine_at_low_discrepancy_uniforms_is_closer(case: Case) -> None:
    cosines = torch.cos(PAIRS @ case.kernel.fold(sobol_frequencies(case.kernel, 2**16)))
    standard_error = cosines.std(dim=1) / math.sqrt(cosines.shape[1])
    # independent frequencies would give 1; heavy tails gain the least, and those heavier than Cauchy's nothing
    limit = 0.7 if getattr(case.kernel, "exponent", 2) >= 1 else 2
    assert (cosines.mean(dim=1) - wanted(case)).norm() < limit * standard_error.norm()


@every_spectral_kernel
def test_amplitude_is_the_kernel_at_equal_points(case: Case) -> None:
    assert case.kernel.amplitude == pytest.approx(case.oracle(np.ones(NUM_INPUTS), np.ones(NUM_INPUTS)), rel=1e-14)


@every_spectral_kernel
def test_fold_moves_the_preparation_into_the_weights(case: Case) -> None:
    X, W = points(7), draw(case.kernel, 9)
    torch.testing.assert_close(X @ case.kernel.fold(W), case.kernel.prepare(X) @ W)


# -- generators ------------------------------------------------------------------------------------------------------


@every_spectral_kernel
def test_same_generator_same_frequencies(case: Case) -> None:
    W = draw(case.kernel, 10)
    assert W.shape == (NUM_INPUTS, 10)
    assert torch.equal(W, draw(case.kernel, 10))
    assert not torch.equal(W, draw(case.kernel, 10, seed=1))


@pytest.mark.parametrize("end", [0.0, 1.0])
@every_spectral_kernel
def test_float32_frequencies_are_finite_at_the_ends_of_the_uniforms(
    case: Case, end: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "rand", lambda shape, dtype, **_: torch.full(shape, end, dtype=dtype))
    uniforms = open_uniforms((3, case.kernel.num_uniforms(NUM_INPUTS)), generator=seeded())
    assert bool(((uniforms > 0) & (uniforms < 1)).all())
    assert case.kernel.frequencies(uniforms, NUM_INPUTS).isfinite().all()


@pytest.mark.parametrize("kernel", [Gaussian, Laplacian, Cauchy, Matern])
def test_no_float32_frequency_is_beyond_what_24_bits_can_draw(
    kernel: type[Spectral], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "rand", lambda shape, dtype, **_: torch.zeros(shape, dtype=dtype))
    narrow = kernel(bandwidth=0.01)
    W = narrow.frequencies(open_uniforms((1, narrow.num_uniforms(1)), generator=seeded()), 1)
    assert W.abs().max() < 2**25 / 0.01  # a larger one would overflow in w . x


@pytest.mark.parametrize("kernel", [Gaussian(), Laplacian(), Cauchy(), PowerExponential(norm=1)], ids=repr)
def test_float32_tails_are_symmetric(kernel: Spectral) -> None:
    u = torch.arange(1, 100)[:, None] * 2.0**-24
    torch.testing.assert_close(kernel.frequencies(1 - u, 1), -kernel.frequencies(u, 1), rtol=1e-5, atol=0)


def test_ten_million_float32_draws_are_finite() -> None:
    for kernel in (Gaussian(), Laplacian(), Cauchy(), Matern(smoothness=0.5), PowerExponential(exponent=0.1, norm=0.2)):
        W = kernel.sample_frequencies(100, 25_000, generator=seeded())
        assert W.isfinite().all()


# -- isotropy --------------------------------------------------------------------------------------------------------


@isotropic_kernels
def test_directions_are_uniform(kernel: Spectral) -> None:
    count, d = 100_000, NUM_INPUTS
    W = draw(kernel, count)
    directions = W / W.norm(dim=0)
    assert directions.mean(dim=1).abs().max() < 5 / math.sqrt(d * count)
    covariance = directions @ directions.T / count
    # E u_i^2 u_j^2 = 1 / d(d + 2), three times that for i = j: no entry varies more than the diagonal
    standard_error = math.sqrt(3 / (d * (d + 2)) / count)
    assert (covariance - torch.eye(d) / d).abs().max() < 5 * standard_error


@isotropic_kernels
def test_directions_do_not_depend_on_lengths(kernel: Spectral) -> None:
    W = draw(kernel, 20_000)
    lengths = W.norm(dim=0)
    for coordinate in W / lengths:
        assert stats.spearmanr(lengths, coordinate.square()).pvalue > LIKELY


@pytest.mark.parametrize(
    "kernel", [Laplacian(), Cauchy(), SparseGaussian(), PowerExponential(norm=1.5), Gaussian() * Laplacian()], ids=repr
)
def test_products_over_the_inputs_are_not_isotropic(kernel: Spectral) -> None:
    assert not kernel.isotropic


# -- distributions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("uniforms", [False, True], ids=["sampled", "from-uniforms"])
@pytest.mark.parametrize(
    ("kernel", "distribution"),
    [
        (Gaussian(bandwidth=2.5), stats.norm),
        (Laplacian(bandwidth=2.5), stats.cauchy),
        (Cauchy(bandwidth=2.5), stats.laplace),
        (PowerExponential(exponent=2, bandwidth=2.5), stats.norm(scale=math.sqrt(2))),
        (PowerExponential(bandwidth=2.5), stats.cauchy),
        (PowerExponential(norm=1, bandwidth=2.5), stats.cauchy),
        # S^{1/q} u of a q-stable u is p-stable, here Cauchy
        (PowerExponential(norm=1.5, bandwidth=2.5), stats.cauchy),
        (Matern(smoothness=0.5, bandwidth=2.5), stats.t(1)),
        (Matern(smoothness=1.5, bandwidth=2.5), stats.t(3)),
        (Matern(smoothness=2.5, bandwidth=2.5), stats.t(5)),
    ],
    ids=[
        "gaussian",
        "laplacian",
        "cauchy",
        "power2",
        "power1",
        "power1-l1",
        "power1-l1.5",
        "matern12",
        "matern32",
        "matern52",
    ],
)
def test_each_entry_has_the_stated_distribution(
    kernel: Spectral, distribution: stats.rv_continuous, uniforms: bool
) -> None:
    if uniforms:
        W = kernel.frequencies(open_uniforms((20_000, kernel.num_uniforms(3)), generator=seeded(5)).double(), 3)
    else:
        W = draw(kernel, 20_000, num_inputs=3)
    for entries in W:
        assert stats.kstest(2.5 * entries.numpy(), distribution.cdf).pvalue > LIKELY


def test_sparse_frequencies_have_a_uniform_subset_of_places() -> None:
    count, d, k = 100_000, 6, 3
    W = draw(SparseGaussian(subset_size=k, bandwidth=2.0), count, num_inputs=d)
    used = W != 0
    assert bool((used.sum(dim=0) == k).all())
    codes = used.T.long() @ (2 ** torch.arange(d))
    counts = [int((codes == sum(2**i for i in subset)).sum()) for subset in combinations(range(d), k)]
    assert sum(counts) == count
    assert stats.chisquare(counts).pvalue > LIKELY
    assert stats.kstest(2.0 * W[used].numpy(), stats.norm.cdf).pvalue > LIKELY


def test_sparse_frequencies_use_each_of_many_inputs_equally_often() -> None:
    W = draw(SparseGaussian(subset_size=5), 50_000, num_inputs=100)
    assert stats.chisquare((W != 0).sum(dim=1).numpy()).pvalue > LIKELY


@pytest.mark.parametrize(("subset_size", "num_inputs"), [(1, 1), (1, 7), (7, 7), (6, 7)])
def test_sparse_places_are_distinct(subset_size: int, num_inputs: int) -> None:
    kernel = SparseGaussian(subset_size=subset_size)
    uniforms = open_uniforms((1000, 2 * subset_size), generator=seeded())
    places, values = kernel.sparse_frequencies(uniforms, num_inputs)
    assert places.shape == values.shape == (1000, subset_size)
    assert all(len(set(row)) == subset_size and set(row) <= set(range(num_inputs)) for row in places.tolist())


def test_sum_draws_its_parts_in_proportion_to_weight_times_amplitude() -> None:
    small, large = Gaussian(bandwidth=1e-6), Gaussian(bandwidth=1e6)
    kernel = Sum([small, 2.0 * large, large], weights=[1.0, 3.0, 1.0])
    count = 100_000
    share = float((draw(kernel, count).norm(dim=0) > 1).double().mean())
    assert abs(share - 1 / 8) < 5 * math.sqrt(1 / 8 * 7 / 8 / count)


def test_a_sum_with_a_part_that_cannot_be_drawn_says_which() -> None:
    kernel = Gaussian() + Polynomial(degree=3)
    assert not kernel.spectral
    with pytest.raises(ValueError, match=r"Polynomial\(degree=3.*no spectral sampler"):
        kernel.sample_frequencies(3, 10, generator=seeded())
