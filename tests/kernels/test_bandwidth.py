"""Bandwidth rules, against all pairs of points."""

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from bochner.kernels import Cauchy, Gaussian, Laplacian, Matern, PowerExponential, SparseGaussian, Stationary
from tests.kernels.cases import METRIC, SCALE, points

KERNELS = [Gaussian(), Matern(), Cauchy(), Laplacian(), PowerExponential(), PowerExponential(norm=1.5)]
STATISTICS = {"mean": np.mean, "median": lambda values: np.quantile(values, 0.5, method="lower")}

every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)
every_rule = pytest.mark.parametrize("rule", list(STATISTICS))


def expected(kernel: Stationary, rule: str, X: np.ndarray) -> float:
    left, right = np.triu_indices(len(X), 1)
    differences = X[left] - X[right]
    if isinstance(kernel, Laplacian):
        return STATISTICS[rule](abs(differences).sum(axis=1))
    if isinstance(kernel, PowerExponential):
        return STATISTICS[rule]((abs(differences) ** kernel.norm).sum(axis=1) ** (1 / kernel.norm))
    typical = STATISTICS[rule]((differences**2).sum(axis=1))
    return np.sqrt(typical if isinstance(kernel, Cauchy) else typical / 2)


def fitted(kernel: Stationary, rule: str, X: Tensor, *, seed: int = 0) -> float:
    return kernel.with_bandwidth(rule, X, generator=Generator().manual_seed(seed)).bandwidth


@every_kernel
@every_rule
@pytest.mark.parametrize("count", [2, 3, 50, 300])
def test_equals_the_statistic_over_all_pairs(kernel: Stationary, rule: str, count: int) -> None:
    X = points(count)
    assert fitted(kernel, rule, X) == pytest.approx(expected(kernel, rule, X.numpy()), rel=1e-12)


@every_rule
def test_looks_at_every_one_of_1000_points(rule: str) -> None:
    X = points(1000)
    assert fitted(Gaussian(), rule, X) == pytest.approx(expected(Gaussian(), rule, X.numpy()), rel=1e-12)


@every_rule
def test_a_sample_of_many_points_is_close_to_all(rule: str) -> None:
    X = points(1500)
    assert fitted(Gaussian(), rule, X) == pytest.approx(expected(Gaussian(), rule, X.numpy()), rel=0.02)


@pytest.mark.parametrize("num_inputs", [2, 30, 400])
def test_mean_rule_gives_the_root_of_the_inputs_on_standardised_data(num_inputs: int) -> None:
    X = torch.tensor(np.random.default_rng(0).uniform(size=(900, num_inputs)))
    X = (X - X.mean(dim=0)) / X.std(dim=0)
    assert fitted(Gaussian(), "mean", X) == pytest.approx(num_inputs**0.5, rel=1e-10)


@every_rule
def test_sparse_gaussian_with_all_inputs_is_gaussian(rule: str) -> None:
    X = points(100)
    sparse = SparseGaussian(subset_size=X.shape[1])
    assert fitted(sparse, rule, X) == pytest.approx(fitted(Gaussian(), rule, X), rel=1e-12)


@pytest.mark.parametrize("subset_size", [1, 5, 20])
def test_sparse_gaussian_sees_its_share_of_the_distance(subset_size: int) -> None:
    X = torch.tensor(np.random.default_rng(0).standard_normal((500, 40)))
    share = (subset_size / 40) ** 0.5
    sparse = fitted(SparseGaussian(subset_size=subset_size), "mean", X)
    assert sparse == pytest.approx(share * fitted(Gaussian(), "mean", X), rel=0.03)


@every_kernel
def test_median_ignores_duplicates_when_they_are_the_majority(kernel: Stationary) -> None:
    # 4005 of 4950 pairs coincide; of the others most lie at distance 2 along one input
    X = torch.zeros(100, 3)
    X[90:, 0] = 2.0
    X[99, 0] = 7.0
    wanted = 2.0 if isinstance(kernel, Laplacian | Cauchy | PowerExponential) else 2.0**0.5
    assert fitted(kernel, "median", X) == pytest.approx(wanted, rel=1e-12)


@every_kernel
@every_rule
def test_equal_points_are_an_error(kernel: Stationary, rule: str) -> None:
    with pytest.raises(ValueError, match=f"bandwidth='{rule}' finds all points of X equal"):
        fitted(kernel, rule, torch.full((10, 3), 0.1))


@every_rule
@pytest.mark.parametrize("count", [0, 1])
def test_one_point_is_an_error_that_names_the_count(rule: str, count: int) -> None:
    with pytest.raises(ValueError, match=f"bandwidth='{rule}'.*n_samples = {count}"):
        fitted(Gaussian(), rule, torch.ones(count, 3))


@every_rule
def test_same_generator_same_bandwidth(rule: str) -> None:
    for kernel, X in ((Gaussian(), points(3000)), (SparseGaussian(subset_size=2), points(50))):
        assert fitted(kernel, rule, X) == fitted(kernel, rule, X)
        assert fitted(kernel, rule, X) != fitted(kernel, rule, X, seed=1)


@every_rule
def test_without_a_generator_it_is_the_same_every_time(rule: str) -> None:
    X = points(3000)
    assert Gaussian().with_bandwidth(rule, X).bandwidth == Gaussian().with_bandwidth(rule, X).bandwidth


@every_rule
@pytest.mark.parametrize(
    "change", [{"scale": 3.0}, {"scale": SCALE}, {"metric": METRIC}], ids=["number", "scale", "metric"]
)
def test_distances_are_those_of_the_transformed_inputs(rule: str, change: dict) -> None:
    X, kernel = points(60), Gaussian(**change)
    chosen = kernel.with_bandwidth(rule, X)
    assert chosen.bandwidth == pytest.approx(expected(kernel, rule, kernel.prepare(X).numpy()), rel=1e-12)
    assert torch.equal(chosen.prepare(X), kernel.prepare(X))


def test_keeps_the_other_arguments() -> None:
    kernel = Matern(smoothness=2.5, scale=2.0).with_bandwidth("median", points(20))
    assert (kernel.smoothness, kernel.scale) == (2.5, 2.0)


def test_a_number_is_taken_as_it_is() -> None:
    assert Gaussian().with_bandwidth(0.3, points(2)).bandwidth == 0.3


# -- the distance to the 50th neighbour ------------------------------------------------------------------------


def naive_neighbor(kernel: Stationary, X: np.ndarray) -> float:
    """The mean over all points of the distance to the 50th nearest of the others, one point after the other."""
    norm = 1.0 if isinstance(kernel, Laplacian) else getattr(kernel, "norm", 2.0)
    distances = []
    for place, x in enumerate(X):
        others = np.delete(X, place, axis=0)
        distances.append(np.sort((abs(others - x) ** norm).sum(axis=1) ** (1 / norm))[min(50, len(others)) - 1])
    return float(np.mean(distances))


@every_kernel
@pytest.mark.parametrize("count", [2, 30, 51, 52, 300])
def test_neighbor_rule_equals_the_naive_one(kernel: Stationary, count: int) -> None:
    X = points(count)
    assert fitted(kernel, "neighbor", X) == pytest.approx(naive_neighbor(kernel, X.numpy()), rel=1e-7)


def test_neighbor_rule_sees_all_rows_in_blocks() -> None:
    """Neighbours of 1,000 of 6,000 points are searched among all of them, however these are divided."""
    X = points(6000)
    bandwidth = fitted(Gaussian(), "neighbor", X)
    assert bandwidth == pytest.approx(naive_neighbor(Gaussian(), X.numpy()), rel=0.02)
    chosen = torch.randperm(6000, generator=Generator().manual_seed(0))[:1000]
    blocks = (X[start : start + 700] for start in range(0, 6000, 700))
    streamed = Gaussian().with_bandwidth("neighbor", X[chosen], rows=blocks).bandwidth
    assert streamed == pytest.approx(bandwidth, rel=1e-9)
    assert fitted(Gaussian(), "neighbor", X[chosen]) > 1.3 * bandwidth  # neighbours among the sample are farther


def test_neighbor_rule_of_the_sparse_gaussian_averages_over_subsets() -> None:
    X = points(80)
    whole = SparseGaussian(subset_size=X.shape[1])
    assert fitted(whole, "neighbor", X) == pytest.approx(fitted(Gaussian(), "neighbor", X), rel=1e-12)
    single = SparseGaussian(subset_size=1)
    by_input = [naive_neighbor(Gaussian(), X[:, [i]].numpy()) for i in range(X.shape[1])]
    assert min(by_input) * (1 - 1e-6) <= fitted(single, "neighbor", X) <= max(by_input) * (1 + 1e-6)


def test_neighbor_rule_sees_the_metric_and_keeps_duplicates() -> None:
    X, kernel = points(60), Gaussian(metric=METRIC)
    prepared = kernel.prepare(X).numpy()
    assert fitted(kernel, "neighbor", X) == pytest.approx(naive_neighbor(kernel, prepared), rel=1e-7)
    doubled = torch.cat([X, X])
    assert fitted(Gaussian(), "neighbor", doubled) == pytest.approx(naive_neighbor(Gaussian(), doubled.numpy()))


def test_neighbor_rule_needs_points_that_differ() -> None:
    with pytest.raises(ValueError, match=r"bandwidth='neighbor' finds 50 copies of every point"):
        fitted(Laplacian(), "neighbor", torch.full((60, 3), 0.1))
    with pytest.raises(ValueError, match="n_samples = 1"):
        fitted(Gaussian(), "neighbor", torch.ones(1, 3))


def test_an_unknown_rule_is_an_error_that_lists_the_rules() -> None:
    with pytest.raises(ValueError, match=r"bandwidth must be one of \['median', 'mean', 'neighbor'\], got 'mode'"):
        fitted(Gaussian(), "mode", points(5))


@pytest.mark.parametrize("kernel", [Gaussian(), PowerExponential(exponent=2.0), Matern(smoothness=2.5)], ids=repr)
def test_clusters_far_apart_keep_their_digits(kernel: Stationary) -> None:
    """1,000 bandwidths apart, squared distances by a matrix product in float32 are off by tenths."""
    X = points(60).float()
    X = torch.cat([X, X + 1000.0])
    torch.testing.assert_close(kernel(X, X.clone()).double(), kernel(X.double()), rtol=0, atol=1e-3)
    torch.testing.assert_close(kernel(X[70:71], X).double(), kernel(X.double())[70:71], rtol=0, atol=1e-3)


@pytest.mark.parametrize("bandwidth", [1e-300, 1e300])
def test_a_bandwidth_whose_square_is_no_number_is_an_error(bandwidth: float) -> None:
    with pytest.raises(ValueError, match=r"bandwidth.*1e[+-]300"):
        Gaussian(bandwidth=bandwidth)
