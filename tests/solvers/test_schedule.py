"""The papers' schedule, step by step, and one cycle of the rate with decoupled weight decay."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator

from bochner.data import ArraySource
from bochner.models.network import Network
from bochner.solvers.optimizers import PlainSGD, SGDSettings
from bochner.solvers.sgd import Decision, HalvingSchedule, OneCycleSchedule, train


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
        decision = schedule.update(metric)
        if decision is not Decision.REVERT:
            kept = metric
        assert schedule.criterion == kept <= 5.0
        assert schedule.rate == 1024.0 / 2**schedule.halvings
    assert schedule.finished == (schedule.halvings >= 10)


@pytest.mark.parametrize("max_epochs", [1, 3])
def test_one_cycle_raises_the_rate_and_lowers_it_to_0(max_epochs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    X = torch.randn(64, 2, generator=Generator().manual_seed(0))
    rows = ArraySource(X, (X[:, 0] > 0).long())
    network = Network.draw(num_inputs=2, hidden=[4], num_outputs=2, generator=Generator().manual_seed(0))
    settings = SGDSettings(learning_rate=0.5, schedule="one-cycle", max_epochs=max_epochs, batch_size=4)
    rates: list[float] = []
    step = PlainSGD.step

    def recorded(optimizer: PlainSGD) -> None:
        rates.append(optimizer.param_groups[0]["lr"])
        step(optimizer)

    monkeypatch.setattr(PlainSGD, "step", recorded)
    history = train(network, rows, rows, settings, verbose=False)
    assert len(history) == max_epochs
    assert len(rates) == 16 * max_epochs
    peak = rates.index(max(rates))
    assert rates[peak] == pytest.approx(0.5, abs=0.02)
    assert peak == pytest.approx(0.3 * len(rates), abs=1)
    assert rates[: peak + 1] == sorted(rates[: peak + 1])
    assert rates[peak:] == sorted(rates[peak:], reverse=True)
    assert rates[-1] < 0.01


def test_one_cycle_undoes_nothing() -> None:
    schedule = OneCycleSchedule(rate=1.0, criterion=2.0)
    assert [schedule.update(criterion) for criterion in (2.0, 9.0, math.nan)] == [Decision.GO_ON] * 3
    assert (schedule.rate, schedule.finished) == (1.0, False)


def test_one_cycle_that_diverged_is_an_error() -> None:
    X = torch.randn(64, 2, generator=Generator().manual_seed(0))
    rows = ArraySource(X, (X[:, 0] > 0).long())
    network = Network.draw(
        num_inputs=2, hidden=[4, 4], num_outputs=2, activation="relu", generator=Generator().manual_seed(0)
    )
    settings = SGDSettings(learning_rate=1e30, schedule="one-cycle", max_epochs=2, batch_size=4)
    with pytest.raises(FloatingPointError, match=r"diverged: .* ce is .* learning_rate smaller than 1e\+30"):
        train(network, rows, rows, settings, verbose=False)


def test_the_decay_of_adamw_is_decoupled_from_the_gradient() -> None:
    """One step multiplies the weights by 1 - rate alpha beside Adam's step, whatever the gradient; biases stay."""
    X = torch.randn(64, 2, generator=Generator().manual_seed(0))
    rows = ArraySource(X, (X[:, 0] > 0).long())
    start = Network.draw(num_inputs=2, hidden=[4], num_outputs=2, generator=Generator().manual_seed(0))
    ends = {}
    for alpha in (0.0, 0.5):
        network = copy.deepcopy(start)
        settings = SGDSettings(optimizer="adamw", alpha=alpha, learning_rate=0.01, batch_size=64, max_epochs=1)
        train(network, rows, rows, settings, verbose=False)
        ends[alpha] = network
    torch.testing.assert_close(
        ends[0.5].weights[0], ends[0.0].weights[0] - 0.01 * 0.5 * start.weights[0], rtol=1e-4, atol=1e-6
    )
    assert torch.equal(ends[0.5].biases[0], ends[0.0].biases[0])
