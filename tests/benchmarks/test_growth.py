"""Exponents are those of the largest sizes, and every curve can be measured."""

from __future__ import annotations

import pytest

from benchmarks.growth import CURVES, Curve, exponent


def test_the_exponent_is_that_of_the_largest_sizes() -> None:
    assert exponent([1, 2, 4, 8], [9.0, 1.0, 4.0, 16.0]) == pytest.approx(2)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # ten iterations are counted, not enough
@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: f"{curve.job} by {curve.size}")
def test_every_curve_runs(curve: Curve) -> None:
    assert curve.sizes == sorted(curve.sizes)
    curve.run(40, "cpu")()
