"""The eight sampling schemes: which entries, how many, with what weight."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from bochner.kernels import Gaussian, Polynomial
from bochner.lowrank.sampling import (
    SAMPLING_SCHEMES,
    Samples,
    _central_points,
    _column_norms,
    _estimated_norms,
    default_block_size,
    default_num_samples,
    default_scheme,
    sample_entries,
)
from tests.lowrank.dense import dense_weights, generator, points

UNIFORM = [scheme for scheme in SAMPLING_SCHEMES if scheme.startswith("uniform")]
KERNEL = Gaussian(bandwidth=1.5)


@pytest.mark.parametrize("scheme", SAMPLING_SCHEMES)
def test_the_sample_is_symmetric(scheme: str) -> None:
    X = points(71)
    W = dense_weights(
        samples := sample_entries(KERNEL, X, scheme=scheme, num_samples=1500, block_size=4, generator=generator())
    )
    torch.testing.assert_close(W, W.T)
    assert samples.num_entries == int((W != 0).sum())
    assert samples.mean_weight == pytest.approx(float(W.mean()))


@pytest.mark.parametrize(
    ("scheme", "block_size"),
    [("l1", 1), ("l2", 1), ("approximate-l2", 1), *((scheme, size) for scheme in UNIFORM for size in (1, 2))],
)
def test_weights_are_one_over_the_probability(scheme: str, block_size: int) -> None:
    """Then every weight is 1 on average, those of entries that were not drawn counted as 0."""
    X, seeds = points(9), 250
    draws = torch.stack(
        [
            dense_weights(
                sample_entries(
                    KERNEL, X, scheme=scheme, num_samples=36, block_size=block_size, generator=generator(seed)
                )
            )
            for seed in range(seeds)
        ]
    )
    spread = draws.std(dim=0).clamp_min(0.05) / seeds**0.5
    assert ((draws.mean(dim=0) - 1).abs() < 5 * spread).all()


@pytest.mark.parametrize("scheme", ["l1", "l2", "approximate-l2", *UNIFORM[:2]])
def test_as_many_entries_as_asked_for(scheme: str) -> None:
    X, m = points(400), 6000
    found = sample_entries(KERNEL, X, scheme=scheme, num_samples=m, generator=generator()).num_entries
    extra = len(X) if "diagonal" in scheme else 0
    assert found == pytest.approx(m + extra, rel=0.1)


@pytest.mark.parametrize("scheme", UNIFORM)
@pytest.mark.parametrize("power", [1.0, 0.5, 0.0])
def test_a_diagonal_that_is_asked_for_counts_once(scheme: str, power: float) -> None:
    samples = sample_entries(KERNEL, points(60), scheme=scheme, num_samples=1200, block_size=5, generator=generator())
    diagonal = dense_weights(samples.tempered(power)).diagonal()
    if "diagonal" in scheme:
        torch.testing.assert_close(diagonal, torch.ones(60, dtype=torch.float64))
    else:
        assert (diagonal == 0).any()


def test_tempering_takes_the_weights_to_a_power() -> None:
    samples = sample_entries(
        KERNEL, points(60), scheme="uniform+clustering", num_samples=1200, block_size=5, generator=generator()
    )
    W = dense_weights(samples)
    torch.testing.assert_close(dense_weights(samples.tempered(0.5)), W.sqrt())
    torch.testing.assert_close(dense_weights(samples.tempered(0.0)), (W > 0).double())


@pytest.mark.parametrize(("scheme", "rows"), [("clustering", 8), ("uniform+clustering", 4)])
def test_whole_rows_cost_their_share_of_the_sample(scheme: str, rows: int) -> None:
    X = points(200)
    samples = sample_entries(KERNEL, X, scheme=scheme, num_samples=8 * 200, generator=generator())
    assert rows - 1 <= len(samples.centers) <= rows  # two centres may have the same nearest point
    assert len(samples.centers.unique()) == len(samples.centers)


def centers_of(X: Tensor, rows: int, seed: int = 0) -> Tensor:
    options = {"scheme": "clustering", "num_samples": rows * len(X)}
    return sample_entries(KERNEL, X, **options, generator=generator(seed)).centers  # type: ignore[arg-type]


def test_centers_stand_in_different_clouds() -> None:
    clouds = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    X = clouds.repeat(40, 1) + 0.01 * points(120, 2)
    hits = [len((centers_of(X, 3, seed) % 3).unique()) for seed in range(10)]
    assert sum(hits) / len(hits) > 2.4  # three random points are in 2.1 clouds


def test_centers_do_not_depend_on_the_units() -> None:
    X = points(100)
    X[:, 1] = 7.0  # nothing to standardise by
    moved = X * torch.tensor([1024.0, 0.5, 1.0]) + 3
    assert torch.equal(centers_of(X, 6), centers_of(moved, 6))


def test_duplicated_points_are_one_center() -> None:
    centers = centers_of(points(5).repeat(4, 1), 8)
    assert len(centers) == len(centers.unique()) <= 5


def test_l1_prefers_large_entries() -> None:
    X, m, seeds = points(12), 40, 500
    K = KERNEL(X)
    there = sum(
        dense_weights(sample_entries(KERNEL, X, scheme="l1", num_samples=m, generator=generator(seed))) > 0
        for seed in range(seeds)
    )
    expected = (m * K / K.sum()).clamp_max(1)
    assert ((there / seeds - expected).abs() < 5 * (expected * (1 - expected) / seeds).sqrt() + 1e-9).all()


def test_l2_prefers_large_columns() -> None:
    X = torch.cat([points(10), points(10) + 50])
    X[10:] *= torch.arange(1, 11)[:, None]  # a cloud, and points on their own
    squares = KERNEL(X).square().sum(dim=1)
    seeds, m = 500, 20
    there = sum(
        (dense_weights(sample_entries(KERNEL, X, scheme="l2", num_samples=m, generator=generator(seed))) > 0).double()
        for seed in range(seeds)
    )
    expected = m * (squares[:, None] + squares) / (2 * 20 * squares.sum())
    off = ~torch.eye(20, dtype=torch.bool)
    # drawn m / 2 times with replacement: a little under the expected number of times
    assert ((there / seeds - expected)[off].abs() < 5 * (expected / seeds).sqrt()[off] + expected[off].square()).all()


def test_fourier_features_estimate_the_norms() -> None:
    X = points(300)
    exact, estimated = _column_norms(KERNEL, X), _estimated_norms(KERNEL, X, generator())
    torch.testing.assert_close(exact, KERNEL(X).square().sum(dim=1))
    assert ((estimated - exact) / exact).abs().median() < 0.15
    assert torch.corrcoef(torch.stack([exact, estimated]))[0, 1] > 0.98


def test_blocks_share_their_columns_and_rows_see_uniform_ones() -> None:
    def draw(seed: int) -> Samples:
        X = points(64)
        return sample_entries(KERNEL, X, scheme="uniform", num_samples=1024, block_size=8, generator=generator(seed))

    there = dense_weights(draw(0)) > 0
    for block in draw(0).blocks:
        assert (there[block] == there[block[0]]).all()
    seen = sum(dense_weights(draw(seed))[0] > 0 for seed in range(300))
    assert (seen[1:] / 300 - 0.25).abs().max() < 5 * (0.25 * 0.75 / 300) ** 0.5


@pytest.mark.parametrize("scheme", UNIFORM)
def test_all_entries(scheme: str) -> None:
    samples = sample_entries(KERNEL, points(23), scheme=scheme, num_samples=4 * 23**2, generator=generator())
    assert (dense_weights(samples) == 1).all()


def test_defaults() -> None:
    assert default_scheme(49) == "uniform"
    assert default_scheme(50) == "uniform+clustering+diagonal"
    assert default_num_samples(1000, 10) == 69078
    assert default_num_samples(10, 10) == 100
    assert [default_block_size(n) for n in (1, 640, 10**5)] == [1, 10, 64]


def test_bad_arguments() -> None:
    X = points(10)
    with pytest.raises(ValueError, match="scheme must be one of"):
        sample_entries(KERNEL, X, scheme="l3", num_samples=10, generator=generator())
    with pytest.raises(ValueError, match="num_samples must be an integer"):
        sample_entries(KERNEL, X, scheme="uniform", num_samples=0, generator=generator())
    with pytest.raises(ValueError, match=r"Fourier features.*use 'l2'"):
        sample_entries(Polynomial(), X, scheme="approximate-l2", num_samples=10, generator=generator())


def test_central_points_do_not_depend_on_an_offset() -> None:
    """k-means in float32 would not resolve points far from the origin."""
    X = points(200)
    near, far = (_central_points(X + offset, 10, generator(1)) for offset in (0.0, 2.0**20))
    assert near.tolist() == far.tolist()
