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
