"""Plots of few points."""

from __future__ import annotations

import io
import warnings

import pytest

from bochner.studies.drawing import Curve, add_curve, finish, new_axes


@pytest.mark.parametrize("y_scale", ["log", "linear"])
def test_one_point_has_room_around_it(y_scale: str) -> None:
    figure, axes = new_axes("one", "D", "error", y_scale=y_scale)
    add_curve(axes, Curve("map", [(1000, 0.1, 0.1, 0.1)], 0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        finish(figure, axes).savefig(io.BytesIO(), format="svg")
    assert axes.get_xlim() == pytest.approx((500, 2000))
    low, high = axes.get_ylim()
    assert low < 0.1 < high


@pytest.mark.parametrize(("last", "ticks"), [(20, [1, 2, 5, 10, 20]), (1e6, [1, 10, 100, 1e3, 1e4, 1e5, 1e6])])
def test_ticks_of_a_few_and_of_many_decades(last: float, ticks: list[float]) -> None:
    figure, axes = new_axes("one", "D", "error", x_scale="log", y_scale="linear")
    axes.set_xlim(1, last)
    finish(figure, axes)
    assert [tick for tick in axes.get_xticks() if 0.99 < tick < 1.01 * last] == pytest.approx(ticks)
