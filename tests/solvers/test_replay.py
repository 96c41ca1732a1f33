"""Replayed steps are those that were recorded."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch

from bochner.data import ArraySource, MappedSource
from bochner.data.blocks import Block
from bochner.models.network import Network
from bochner.solvers import replay, sgd
from bochner.solvers.optimizers import SGDSettings, make_optimizer
from bochner.solvers.replay import ReplayedSteps
from bochner.solvers.sgd import train
from bochner.solvers.step import take_step
from tests.solvers.runs import generator, rings, sources

ADAMW = SGDSettings(
    learning_rate=1e-2, batch_size=64, max_epochs=4, optimizer="adamw", schedule="one-cycle", alpha=0.01, average=False,
    preconditioner_rank=0,
)  # fmt: skip
PLAIN = SGDSettings(learning_rate=0.1, batch_size=64, max_epochs=4, average=False, preconditioner_rank=0, alpha=1e-3)


def network(**settings) -> Network:
    options = {"batch_norm": True, "dropout": 0.3, "residual": True, "activation": "relu", **settings}
    return Network.draw(num_inputs=2, hidden=[32, 32, 32], num_outputs=3, generator=generator(), **options)


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam", "adamw"])
def test_steps_are_replayed_where_the_rate_is_a_tensor_or_seldom_changes(optimizer: str) -> None:
    made = make_optimizer(network(), replace(PLAIN, optimizer=optimizer), 0.1)
    assert ReplayedSteps.suit(made) == (optimizer == "sgd")
    for group in made.param_groups:
        group["lr"] = torch.tensor(0.1)
    assert ReplayedSteps.suit(made)


def test_a_rate_in_a_tensor_is_changed_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recorded steps of a GPU read it there; the model is that of a rate in a float."""
    rates = []

    def with_tensors(model, settings, rate):
        rates.append(torch.tensor(rate))
        return torch.optim.AdamW(model.parameters(), lr=rates[-1], weight_decay=0.0, foreach=False)

    settings, (found, wanted) = replace(ADAMW, alpha=0.0), (network(dropout=0.0) for _ in range(2))
    train(wanted, *sources(), settings, verbose=False)
    monkeypatch.setattr(sgd, "make_optimizer", with_tensors)
    train(found, *sources(), settings, verbose=False)
    assert [float(rate) for rate in rates] == [pytest.approx(0.0, abs=1e-4)]  # at the end of a cycle
    for a, b in zip(found.parameters(), wanted.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("count", [64, 200])
def test_a_block_is_a_step_for_each_minibatch(count: int) -> None:
    """On a CPU nothing is replayed."""
    X, y = rings(count)
    models = [network(dropout=0.0) for _ in range(2)]
    optimizers = [make_optimizer(part, PLAIN, 0.1) for part in models]
    steps = ReplayedSteps(partial(take_step, models[0], optimizers[0], settings=PLAIN), optimizers[0], batch_size=64)
    steps.take(Block(X, y), rate=0.1)
    for rows in torch.arange(count).split(64):
        take_step(models[1], optimizers[1], Block(X[rows], y[rows]), PLAIN)
    for found, wanted in zip(*(part.parameters() for part in models), strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("settings", "options"),
    [
        (ADAMW, {}),
        (replace(ADAMW, optimizer="adam", precision="tf32"), {"batch_norm": False}),
        (replace(ADAMW, precision="bf16"), {"dropout": 0.0}),
        (PLAIN, {"activation": "tanh", "batch_norm": False, "dropout": 0.0}),
        (replace(PLAIN, optimizer="momentum"), {}),
    ],
)
def test_training_is_the_same_with_and_without_replays(settings, options, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last batch of an epoch is short, and dropout draws the same units."""
    captured = replay.Replay._captured
    calls = []
    monkeypatch.setattr(replay.Replay, "_captured", lambda self, rate: calls.append(rate) or captured(self, rate))
    monkeypatch.setattr(replay, "BATCHES", 2)
    histories = []
    for patience in (1, 10**9):
        monkeypatch.setattr(replay, "MIN_CALLS", patience)
        histories.append(train(network(**options).cuda(), *sources(), settings, verbose=False))
        if patience == 1:
            assert bool(calls) == (settings.optimizer != "momentum")
            calls.clear()
    assert not calls
    for replayed, direct in zip(*histories, strict=True):
        assert replayed["ce"] == pytest.approx(direct["ce"], rel=1e-3)
    assert histories[0][-1]["ce"] < histories[0][0]["ce"]


@pytest.mark.gpu
def test_steps_of_time_delay_networks_are_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "BATCHES", 1)
    (X, y), X_heldout = rings(), rings(60, seed=1)
    rows, heldout = (ArraySource(X.repeat(1, 5), y) for X, y in ((X, y), X_heldout))
    model = Network.draw(num_inputs=10, hidden=[32, 32], num_outputs=3, dilations=(1, 1), generator=generator()).cuda()
    history = train(model, rows, heldout, ADAMW, verbose=False)
    assert history[-1]["ce"] < history[0]["ce"]


@pytest.mark.gpu
def test_steps_on_weighted_rows_are_not_replayed() -> None:
    source, heldout = sources()
    weighted = MappedSource(source, lambda block: block._replace(weight=torch.ones(len(block.y))))
    found, wanted = (network(dropout=0.0).cuda() for _ in range(2))
    histories = [
        train(part, rows, heldout, ADAMW, verbose=False) for part, rows in ((found, weighted), (wanted, source))
    ]
    assert histories[0][-1]["ce"] == pytest.approx(histories[1][-1]["ce"], rel=0.1)
