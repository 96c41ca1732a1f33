"""Wrong arguments: the error names the argument and what it was."""

import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator, Tensor

from bochner.kernels import (
    KERNEL_NAMES,
    ArcCosine,
    Cauchy,
    Gaussian,
    Kernel,
    Laplacian,
    Matern,
    Polynomial,
    PowerExponential,
    Product,
    SparseGaussian,
    Sum,
    kernel_named,
)

STATIONARY = [Gaussian, Laplacian, Cauchy, Matern, PowerExponential, SparseGaussian]
EVERY = [*STATIONARY, Polynomial, ArcCosine]

HUGE = 10**400  # an integer beyond every float

not_numbers = st.one_of(st.sampled_from([np.nan, np.inf, [1.0], 1j, {}]), st.text(max_size=5), st.booleans())
not_positive = st.one_of(st.floats(max_value=0), st.integers(max_value=0), st.just(HUGE), not_numbers)
not_counts = st.one_of(st.integers(max_value=0), st.floats(), st.none(), not_numbers)


def assert_refuses(call: Callable[[], object], *words: object) -> None:
    """A ValueError or TypeError whose message holds all of the words."""
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    for word in words:
        assert str(word) in str(caught.value)


# -- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", STATIONARY)
@given(value=st.one_of(not_positive, st.none()))
def test_bandwidth_must_be_a_positive_number(kernel: type[Kernel], value: object) -> None:
    assert_refuses(lambda: kernel(bandwidth=value), "bandwidth", repr(value))


@pytest.mark.parametrize("kernel", EVERY)
@given(value=not_positive)
def test_scale_must_be_a_positive_number(kernel: type[Kernel], value: object) -> None:
    assert_refuses(lambda: kernel(scale=value), "scale", repr(value))


@given(value=st.one_of(not_positive, st.none()))
def test_exponent_and_norm_must_be_positive_numbers(value: object) -> None:
    assert_refuses(lambda: PowerExponential(exponent=value), "exponent", repr(value))
    assert_refuses(lambda: PowerExponential(norm=value), "norm", repr(value))


def test_exponent_must_be_at_most_the_norm_and_the_norm_at_most_2() -> None:
    assert_refuses(lambda: PowerExponential(exponent=2.5), "exponent", "norm=2.0", 2.5)
    assert_refuses(lambda: PowerExponential(exponent=1.5, norm=1), "exponent", "norm=1.0", 1.5)
    assert_refuses(lambda: PowerExponential(norm=3), "norm", "at most 2", 3)


@given(value=not_counts)
def test_subset_size_degree_and_depth_must_be_counts(value: object) -> None:
    assert_refuses(lambda: SparseGaussian(subset_size=value), "subset_size", repr(value))
    assert_refuses(lambda: Polynomial(degree=value), "degree", repr(value))
    assert_refuses(lambda: ArcCosine(depth=value), "depth", repr(value))


@given(value=st.one_of(st.floats(max_value=0, exclude_max=True), st.just(HUGE), not_numbers))
def test_offset_must_not_be_negative(value: object) -> None:
    assert_refuses(lambda: Polynomial(offset=value), "offset", repr(value))


@pytest.mark.parametrize("value", [-1, 3, 0.5, "1", None, np.nan, [1], True, torch.tensor([1, 2])], ids=repr)
def test_order_must_be_0_1_or_2(value: object) -> None:
    assert_refuses(lambda: ArcCosine(order=value), "order", repr(value), [0, 1, 2])


@pytest.mark.parametrize("value", [0, 1, 2, -0.5, "1.5", None, np.nan, np.inf, True])
def test_smoothness_must_be_a_known_half(value: object) -> None:
    assert_refuses(lambda: Matern(smoothness=value), "smoothness", repr(value), [0.5, 1.5, 2.5])


@given(value=not_positive)
def test_weights_must_be_positive_numbers(value: object) -> None:
    assert_refuses(lambda: Sum([Gaussian()], weights=[value]), "weights", repr(value))
    assert_refuses(lambda: value * Gaussian(), repr(value))


def test_weights_must_be_one_per_kernel() -> None:
    assert_refuses(lambda: Sum([Gaussian(), Matern()], weights=[1.0]), "weights", "2", "1")


@pytest.mark.parametrize("combination", [Sum, Product])
@pytest.mark.parametrize("kernels", [[], [3], [Gaussian(), "gaussian"], [Gaussian]], ids=repr)
def test_kernels_must_be_kernels(combination: type[Kernel], kernels: list) -> None:
    assert_refuses(lambda: combination(kernels), "kernels", repr(kernels))


@pytest.mark.parametrize("name", ["", "Gaussian", None, 3, ["gaussian"]])
def test_names_must_be_known(name: object) -> None:
    assert_refuses(lambda: kernel_named(name, num_inputs=3), "kernel", repr(name), KERNEL_NAMES)


@pytest.mark.parametrize(
    ("name", "close"),
    [("gausian", "gaussian"), ("RBF", "rbf"), ("arccosine", "arc-cosine"), ("polinomial", "polynomial")],
)
def test_an_unknown_name_suggests_the_closest(name: str, close: str) -> None:
    assert_refuses(lambda: kernel_named(name, num_inputs=3), repr(name), f"did you mean {close!r}")


@pytest.mark.parametrize("kernel", [Polynomial(), ArcCosine(), Gaussian() + Laplacian()], ids=repr)
def test_kernels_without_a_bandwidth_take_none(kernel: Kernel) -> None:
    assert_refuses(lambda: kernel.with_bandwidth("median", torch.zeros(3, 2)), "bandwidth='median'", repr(kernel))


# -- scale vectors and metrics ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scale", "what"),
    [
        (torch.tensor(2.0), "()"),
        (torch.ones(2, 3), "(2, 3)"),
        (torch.ones(3, dtype=torch.int64), "torch.int64"),
        (torch.tensor([1.0, np.nan]), "NaN"),
        (torch.tensor([1.0, np.inf]), "infinity"),
        ([1.0, 2.0], "[1.0, 2.0]"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("kernel", EVERY)
def test_scale_must_be_a_finite_float_vector(kernel: type[Kernel], scale: object, what: str) -> None:
    assert_refuses(lambda: kernel(scale=scale), "scale", what)


@pytest.mark.parametrize(
    ("metric", "what"),
    [
        (torch.ones(3), "(3,)"),
        (torch.ones(2, 3), "(2, 3)"),
        (torch.ones(1, 2, 2), "(1, 2, 2)"),
        (torch.ones(0, 0), "(0, 0)"),
        (torch.eye(2, dtype=torch.int64), "torch.int64"),
        (torch.tensor([[1.0, np.nan], [np.nan, 1.0]]), "NaN"),
        (torch.tensor([[1.0, np.inf], [np.inf, 1.0]]), "infinity"),
        (torch.tensor([[1.0, 0.5], [0.0, 1.0]]), "0.5"),
        (torch.tensor([[1.0, 2.0], [2.0, 1.0]]), "-1"),
        (-torch.eye(2), "-1"),
        (np.eye(2), "ndarray"),
        ([[1.0]], "list"),
        (2.0, "float"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("kernel", EVERY)
def test_metric_must_be_a_positive_semi_definite_tensor(kernel: type[Kernel], metric: object, what: str) -> None:
    assert_refuses(lambda: kernel(metric=metric), "metric", what)


@pytest.mark.parametrize("scale", [2.0, torch.ones(2)], ids=repr)
def test_scale_and_metric_exclude_each_other(scale: float | Tensor) -> None:
    assert_refuses(lambda: Gaussian(scale=scale, metric=torch.eye(2)), "scale", "metric", "not both")


# -- data ------------------------------------------------------------------------------------------------------------

BAD_DATA = [
    (np.zeros((3, 2)), "ndarray"),
    ([[1.0, 2.0]], "list"),
    (torch.zeros(3, 2, dtype=torch.int64), "torch.int64"),
    (torch.zeros(3, 2, dtype=torch.bool), "torch.bool"),
    (torch.zeros(3, 2, dtype=torch.complex64), "torch.complex64"),
    (torch.zeros(3), "(3,)"),
    (torch.zeros(3, 2, 1), "(3, 2, 1)"),
]
every_bad_data = pytest.mark.parametrize(("data", "what"), BAD_DATA, ids=[what for _, what in BAD_DATA])


@every_bad_data
def test_data_must_be_a_float_matrix(data: object, what: str) -> None:
    good = torch.zeros(3, 2)
    for kernel in (Gaussian(), Polynomial(), ArcCosine() + Laplacian()):
        assert_refuses(lambda kernel=kernel: kernel(data), "X", what)
        assert_refuses(lambda kernel=kernel: kernel(data, good), "X", what)
        assert_refuses(lambda kernel=kernel: kernel(good, data), "Y", what)
        assert_refuses(lambda kernel=kernel: kernel.matmul(good, data, good), "Y", what)


@every_bad_data
@pytest.mark.parametrize("rule", ["median", "mean"])
def test_bandwidth_rules_need_a_float_matrix(rule: str, data: object, what: str) -> None:
    assert_refuses(lambda: Gaussian().with_bandwidth(rule, data), "X", what)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bandwidth_rules_need_finite_data(value: float) -> None:
    X = torch.zeros(3, 2).index_put((torch.tensor(1), torch.tensor(1)), torch.tensor(value))
    assert_refuses(lambda: Gaussian().with_bandwidth("mean", X), "X", "NaN or infinity")


@given(rule=st.text().filter(lambda text: text not in ("median", "mean")))
def test_bandwidth_rules_must_be_known(rule: str) -> None:
    assert_refuses(lambda: Gaussian().with_bandwidth(rule, torch.zeros(3, 2)), "bandwidth", repr(rule), "median")


@given(value=not_positive.filter(lambda value: not isinstance(value, str)))
def test_bandwidth_given_beside_data_must_be_positive(value: object) -> None:
    assert_refuses(lambda: Gaussian().with_bandwidth(value, torch.zeros(3, 2)), "bandwidth", repr(value))


def test_both_sides_must_have_the_same_width() -> None:
    assert_refuses(lambda: Gaussian()(torch.zeros(3, 2), torch.zeros(3, 4)), "Y", "2 columns", "got 4")


@pytest.mark.parametrize("change", [{"scale": torch.ones(5)}, {"metric": torch.eye(5)}], ids=["scale", "metric"])
def test_data_must_have_the_width_of_scale_or_metric(change: dict[str, Tensor]) -> None:
    for call in (lambda k: k(torch.zeros(3, 2)), lambda k: k.with_bandwidth("mean", torch.zeros(3, 2))):
        assert_refuses(lambda call=call: call(Gaussian(**change)), "X", "5 columns", "got 2")


def test_a_subset_must_fit_into_the_inputs() -> None:
    kernel = SparseGaussian(subset_size=3)
    for call in (
        lambda: kernel(torch.zeros(4, 2)),
        lambda: kernel.with_bandwidth("mean", torch.zeros(4, 2)),
        lambda: kernel.sample_frequencies(2, 4, generator=Generator().manual_seed(0)),
    ):
        assert_refuses(call, "subset_size", "2", "got 3")


@given(rows=not_counts)
def test_block_rows_must_be_a_count(rows: object) -> None:
    assert_refuses(lambda: list(Gaussian().blocks(torch.zeros(3, 2), torch.zeros(3, 2), rows=rows)), "rows", repr(rows))


def test_arguments_are_given_by_name() -> None:
    with pytest.raises(TypeError, match=re.escape("positional argument")):
        Gaussian(2.0)


def test_slopes_need_the_euclidean_norm() -> None:
    X = torch.zeros(2, 3)
    for kernel in (Laplacian(), Polynomial()):  # of another norm, and not radial
        assert_refuses(lambda kernel=kernel: kernel.slopes(X, X), "Euclidean", type(kernel).__name__)
    assert_refuses(lambda: Laplacian().radial.slopes(X), "norm must be 2", "got 1")
    assert_refuses(lambda: Laplacian().radial.values(X), "norm must be 2", "got 1")
