"""The papers' schedule, step by step."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from bochner.solvers.sgd import Decision, HalvingSchedule


def test_a_good_epoch_changes_nothing() -> None:
    schedule = HalvingSchedule(rate=8.0, criterion=2.0)
    assert schedule.update(1.98) is Decision.GO_ON  # exactly 1 %
    assert (schedule.rate, schedule.criterion, schedule.halvings) == (8.0, 1.98, 0)


def test_a_small_gain_halves_and_keeps_the_model() -> None:
    schedule = HalvingSchedule(rate=8.0, criterion=2.0)
    assert schedule.update(1.99) is Decision.HALVE
    assert (schedule.rate, schedule.criterion, schedule.halvings) == (4.0, 1.99, 1)


def test_a_loss_halves_and_reverts() -> None:
    schedule = HalvingSchedule(rate=8.0, criterion=2.0)
    for bad in (2.01, math.nan, math.inf):
        assert schedule.update(bad) is Decision.REVERT
    assert (schedule.rate, schedule.criterion, schedule.halvings) == (1.0, 2.0, 3)


def test_standing_still_is_no_improvement_and_no_loss() -> None:
    assert HalvingSchedule(rate=1.0, criterion=2.0).update(2.0) is Decision.HALVE


def test_relative_to_the_size_of_a_negative_metric() -> None:
    schedule = HalvingSchedule(rate=1.0, criterion=-2.0)
    assert schedule.update(-2.01) is Decision.HALVE
    assert schedule.update(-2.1) is Decision.GO_ON


@given(st.lists(st.floats(0.0, 10.0), min_size=1, max_size=100))
def test_ends_after_ten_halvings_and_never_keeps_a_worse_model(metrics: list[float]) -> None:
    schedule = HalvingSchedule(rate=1024.0, criterion=5.0)
    kept = 5.0
    for metric in metrics:
        if schedule.finished:
            break
        verdict = schedule.update(metric)
        if verdict is not Decision.REVERT:
            kept = metric
        assert schedule.criterion == kept <= 5.0
        assert schedule.rate == 1024.0 / 2**schedule.halvings
    assert schedule.finished == (schedule.halvings >= 10)
