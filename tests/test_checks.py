"""Checks of arguments."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch

from bochner import checks


@pytest.mark.parametrize("value", [1, 7, 10**30, np.int64(3)])
def test_positive_int_takes_integers(value: int) -> None:
    taken = checks.positive_int("rank", value)
    assert taken == value
    assert type(taken) is int


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "1", None, np.float64(1), torch.tensor(1)])
def test_positive_int_refuses_the_rest(value: object) -> None:
    with pytest.raises(ValueError) as caught:
        checks.positive_int("rank", value)
    assert "rank must be an integer of at least 1" in str(caught.value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("check", [checks.positive_float, checks.nonnegative_float])
@pytest.mark.parametrize("value", [1, 0.5, np.float32(0.5), Fraction(1, 3), 1e300, 5e-324])
def test_floats_take_real_numbers(check: Callable, value: float) -> None:
    taken = check("offset", value)
    assert taken == float(value)
    assert type(taken) is float


@pytest.mark.parametrize("check", [checks.positive_float, checks.nonnegative_float])
@pytest.mark.parametrize(
    "value", [-1, -5e-324, np.nan, np.inf, -np.inf, 10**400, True, "1", None, 1j, [1.0], torch.tensor(1.0)], ids=type
)
def test_floats_refuse_the_rest(check: Callable, value: object) -> None:
    with pytest.raises(ValueError) as caught:
        check("offset", value)
    assert "offset must be a" in str(caught.value)
    assert repr(value) in str(caught.value)


def test_zero_is_not_negative_and_not_positive() -> None:
    assert checks.nonnegative_float("offset", 0) == 0.0
    with pytest.raises(ValueError, match="offset must be a positive finite number, got 0"):
        checks.positive_float("offset", 0)


def test_one_of_names_the_choices() -> None:
    checks.one_of("form", "paired", ["paired", "cosine"])
    with pytest.raises(ValueError, match=r"form must be one of \['paired', 'cosine'\], got 'sine'"):
        checks.one_of("form", "sine", ["paired", "cosine"])


@pytest.mark.parametrize("value", [True, torch.tensor([1, 2]), [1], None], ids=repr)
def test_one_of_takes_nothing_that_only_looks_equal(value: object) -> None:
    with pytest.raises(ValueError, match="order must be one of"):
        checks.one_of("order", value, [0, 1, 2])


def test_inputs_gives_back_what_it_took() -> None:
    X = torch.zeros(3, 2)
    assert checks.inputs("X", X) is X
    assert checks.inputs("X", X, width=2) is X


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.zeros((3, 2)), TypeError, "Z must be a torch.Tensor, got ndarray"),
        (torch.zeros(3, 2).long(), TypeError, "Z must hold floats, got dtype torch.int64"),
        (torch.zeros(3), ValueError, r"Z must have shape \[rows, inputs\], got \(3,\)"),
        (torch.zeros(3, 4), ValueError, "Z must have 2 columns, got 4"),
    ],
    ids=["array", "integers", "vector", "width"],
)
def test_inputs_says_what_is_wrong(X: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        checks.inputs("Z", X, width=2)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_finite_finds_one_bad_number(value: float) -> None:
    X = torch.zeros(3, 2)
    assert checks.finite("X", X) is X
    X[2, 1] = value
    with pytest.raises(ValueError, match="X must be finite"):
        checks.finite("X", X)
