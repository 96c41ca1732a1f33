"""The papers' schedule, step by step."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from bochner.solvers.schedule import HalvingSchedule, Verdict


def test_a_good_epoch_changes_nothing() -> None:
    schedule = HalvingSchedule(rate=8.0, metric=2.0)
    assert schedule.judge(1.98) is Verdict.GO_ON  # exactly 1 %
    assert (schedule.rate, schedule.metric, schedule.halvings) == (8.0, 1.98, 0)


def test_a_small_gain_halves_and_keeps_the_model() -> None:
    schedule = HalvingSchedule(rate=8.0, metric=2.0)
    assert schedule.judge(1.99) is Verdict.HALVE
    assert (schedule.rate, schedule.metric, schedule.halvings) == (4.0, 1.99, 1)


def test_a_loss_halves_and_reverts() -> None:
    schedule = HalvingSchedule(rate=8.0, metric=2.0)
    for bad in (2.01, math.nan, math.inf):
        assert schedule.judge(bad) is Verdict.REVERT
    assert (schedule.rate, schedule.metric, schedule.halvings) == (1.0, 2.0, 3)


def test_standing_still_is_no_improvement_and_no_loss() -> None:
    assert HalvingSchedule(rate=1.0, metric=2.0).judge(2.0) is Verdict.HALVE


def test_relative_to_the_size_of_a_negative_metric() -> None:
    schedule = HalvingSchedule(rate=1.0, metric=-2.0)
    assert schedule.judge(-2.01) is Verdict.HALVE
    assert schedule.judge(-2.1) is Verdict.GO_ON


@given(st.lists(st.floats(0.0, 10.0), min_size=1, max_size=100))
def test_ends_after_ten_halvings_and_never_keeps_a_worse_model(metrics: list[float]) -> None:
    schedule = HalvingSchedule(rate=1024.0, metric=5.0)
    kept = 5.0
    for metric in metrics:
        if schedule.finished:
            break
        verdict = schedule.judge(metric)
        if verdict is not Verdict.REVERT:
            kept = metric
        assert schedule.metric == kept <= 5.0
        assert schedule.rate == 1024.0 / 2**schedule.halvings
    assert schedule.finished == (schedule.halvings >= 10)
