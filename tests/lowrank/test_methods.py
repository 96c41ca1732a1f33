"""The registry of low-rank methods: one name, one algorithm, about n r numbers."""

from __future__ import annotations

from typing import get_args

import pytest
import torch

from bochner.lowrank import LOWRANK_METHODS, fit_factor, fit_nystrom, fit_pivoted_cholesky, truncate
from bochner.lowrank.methods import MethodName
from tests.lowrank.cases import GAUSSIAN, generator, points

every_name = pytest.mark.parametrize("name", LOWRANK_METHODS)


def test_the_names_of_the_command_line_are_those_of_the_registry() -> None:
    assert list(get_args(MethodName)) == list(LOWRANK_METHODS)


@every_name
def test_every_method_stores_about_n_r_numbers(name: str) -> None:
    factor = fit_factor(name, GAUSSIAN, points(200), rank=10, generator=generator())
    assert factor.num_points == 200
    assert 2000 <= factor.num_parameters <= 2200


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nystrom", {"landmarks": "pivoted-cholesky", "num_landmarks": 80, "truncation": "factor"}),
        ("truncated-kmeans-nystrom", {"landmarks": "kmeans", "num_landmarks": 80, "truncation": "factor"}),
        ("kmeans-nystrom", {"landmarks": "kmeans", "num_landmarks": 10, "truncation": "landmarks"}),
        ("uniform-nystrom", {"landmarks": "uniform", "num_landmarks": 10, "truncation": "landmarks"}),
    ],
)
def test_what_the_nystrom_methods_are(name: str, expected: dict[str, object]) -> None:
    X = points(200)
    named = fit_factor(name, GAUSSIAN, X, rank=10, generator=generator())
    spelled = fit_nystrom(GAUSSIAN, X, rank=10, generator=generator(), **expected)  # type: ignore[arg-type]
    torch.testing.assert_close(named.root, spelled.root, rtol=0, atol=0)


def test_options_replace_those_of_the_method() -> None:
    X = points(200)
    standard = fit_factor("nystrom", GAUSSIAN, X, rank=10, generator=generator(), num_landmarks=40, landmarks="uniform")
    spelled = fit_nystrom(GAUSSIAN, X, rank=10, generator=generator(), num_landmarks=40, landmarks="uniform")
    torch.testing.assert_close(standard.root, spelled.root, rtol=0, atol=0)
    with pytest.raises(TypeError, match="rounds"):
        fit_factor("svd", GAUSSIAN, X, rank=10, generator=generator(), rounds=3)


@pytest.mark.parametrize("fit", [truncate, fit_pivoted_cholesky])
def test_functions_are_methods(fit) -> None:
    X = points(50)
    factor = fit_factor(fit, GAUSSIAN, X, rank=5, generator=generator())
    torch.testing.assert_close(factor.root, fit(GAUSSIAN, X, rank=5, generator=generator()).root, rtol=0, atol=0)


def test_an_unknown_name_is_an_error_that_lists_the_names() -> None:
    with pytest.raises(ValueError, match=r"method.*'kmeans-nystrom'.*'qr'"):
        fit_factor("qr", GAUSSIAN, points(), rank=5, generator=generator())
