"""Layer-wise pre-training: its algorithm by hand, its stages, and that it resumes bit-equal in any of them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor

from bochner.data import ArraySource
from bochner.data.batches import batches
from bochner.data.blocks import Block
from bochner.models.heads import BottleneckHead
from bochner.models.network import Network
from bochner.solvers import sgd
from bochner.solvers.learning_rate import constant_loss
from bochner.solvers.optimizers import OPTIMIZERS, SGDSettings
from bochner.solvers.pretraining import pretrain
from bochner.solvers.sgd import train
from tests.oracles.networks import NaiveNetwork
from tests.processes import kill_after, run_until_killed
from tests.solvers.runs import generator, rings

SETTINGS = SGDSettings(learning_rate=0.3, batch_size=32)
RATES = {"sgd": 0.3, "momentum": 0.05, "adam": 0.01, "adamw": 0.01}


def sources(*, kind: type[ArraySource] = ArraySource, dtype: torch.dtype = torch.float32):
    """Three classes that a network tells apart in a few steps: left, middle, right."""
    X, _ = rings()
    y = torch.bucketize(X[:, 0].contiguous(), torch.tensor([-0.5, 0.5]))
    return kind(X[88:].to(dtype), y[88:], shard_rows=16), ArraySource(X[:88].to(dtype), y[:88])


def draw(hidden=(12, 10, 8), *, rank: int | None = None, dtype: torch.dtype = torch.float32) -> Network:
    return Network.draw(num_inputs=2, hidden=hidden, num_outputs=3, rank=rank, generator=generator(1), dtype=dtype)


def numbers(network: Network) -> list[Tensor]:
    return [p.detach().clone() for p in network.parameters()]


def equal(a: Network, b: Network) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))


# -- what it does ------------------------------------------------------------------------------------------------------


def naive(network: Network) -> NaiveNetwork:
    linear = [*zip(network.weights, network.biases, strict=True), (network.head.weights, network.head.bias)]
    layers = [(W.detach().numpy().copy(), b.detach().numpy().copy()) for W, b in linear]
    return NaiveNetwork(layers, network.activation)


def test_it_is_the_algorithm_by_hand() -> None:
    """Three stages of plain SGD in NumPy: lower layers carried over, a new layer, a fresh head; l2 on weights only."""
    source, heldout = sources(dtype=torch.float64)
    network = draw(dtype=torch.float64)
    expected = naive(network)
    heads = generator(2)
    trained: list[tuple[np.ndarray, np.ndarray]] = []
    for depth in (1, 2, 3):
        *fresh, own_head = naive(network).layers
        head = own_head if depth == 3 else naive(network.lower(depth, generator=heads)).layers[-1]
        expected = NaiveNetwork([*trained, fresh[depth - 1], head], "tanh")
        for block in batches(source, batch_size=50, seed=7 + depth, epoch=0):
            expected.step(block.X.numpy(), block.y.numpy(), rate=0.2, l2=0.01)
        trained = expected.layers[:-1]
    settings = SGDSettings(learning_rate=0.2, batch_size=50, alpha=0.01, seed=7)
    pretrain(network, source, heldout, settings, generator=generator(2), verbose=False)
    for (W, b), (W_hand, b_hand) in zip(naive(network).layers, expected.layers, strict=True):
        np.testing.assert_allclose(W, W_hand, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(b, b_hand, rtol=1e-9, atol=1e-12)


def test_one_record_a_stage_at_the_initial_rate() -> None:
    seen: list[dict] = []
    history = pretrain(draw(), *sources(), SETTINGS, generator=generator(2), verbose=False, callbacks=[seen.append])
    assert [record["layers"] for record in history] == [1, 2, 3]
    assert {record["rate"] for record in history} == {0.3}
    assert seen == history
    assert all(record["ce"] < math.log(3) for record in history)


def test_a_single_hidden_layer_is_one_plain_epoch() -> None:
    pretrained, plain = draw([8]), draw([8])
    history = pretrain(pretrained, *sources(), SETTINGS, generator=generator(2), verbose=False)
    [record] = train(plain, *sources(), replace(SETTINGS, max_epochs=1, seed=1), verbose=False)
    assert history == [{**record, "layers": 1}]
    assert equal(pretrained, plain)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_fine_tuning_follows_with_every_optimizer(optimizer: str) -> None:
    settings = SGDSettings(optimizer=optimizer, learning_rate=RATES[optimizer], batch_size=16, max_epochs=12)
    network = draw([32, 32], rank=2)
    stages = pretrain(network, *sources(), settings, generator=generator(2), verbose=False)
    history = train(network, *sources(), settings, verbose=False)
    assert isinstance(network.head, BottleneckHead)
    assert history[0]["ce"] < stages[-1]["ce"]
    assert history[-1]["err"] < 0.15


@pytest.mark.parametrize("change", [{"precision": "bf16"}, {"criterion": "erll:1"}, {"learning_rate": "auto"}])
def test_recipes_of_every_kind(change: dict) -> None:
    settings = SGDSettings(**{"learning_rate": 0.1, "batch_size": 16, **change})
    history = pretrain(draw(), *sources(), settings, generator=generator(2), verbose=False)
    assert [record["layers"] for record in history] == [1, 2, 3]
    assert all(record["err"] < 0.3 and settings.criterion in record for record in history)


def test_regression() -> None:
    network = Network.draw(num_inputs=2, hidden=[16, 16], num_outputs=1, generator=generator(1))
    settings = SGDSettings(loss="squared", criterion="mse", learning_rate=0.1, batch_size=16)
    history = pretrain(network, *regression(), settings, generator=generator(2), verbose=False)
    assert history[-1]["mse"] < 0.2  # of a variance of 2


def test_a_deep_network_on_digits_starts_better() -> None:
    """After pre-training alone, a 4-layer network already recognises most digits."""
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    parts = ArraySource(X[400:], y[400:]), ArraySource(X[:400], y[:400])
    network = Network.draw(num_inputs=64, hidden=[64] * 4, num_outputs=10, generator=generator())
    settings = SGDSettings(learning_rate=0.3, batch_size=16, max_epochs=8)
    stages = pretrain(network, *parts, settings, generator=generator(1), verbose=False)
    assert stages[-1]["err"] < 0.25
    history = train(network, *parts, settings, verbose=False)
    assert history[0]["ce"] < stages[-1]["ce"]
    assert history[-1]["err"] < 0.1


# -- stages that diverge -----------------------------------------------------------------------------------------------


def regression() -> tuple[ArraySource, ArraySource]:
    X, _ = rings()
    return ArraySource(X[100:], X[100:].sum(dim=1)), ArraySource(X[:100], X[:100].sum(dim=1))


DIVERGING = SGDSettings(loss="squared", criterion="mse", learning_rate=30.0, batch_size=32)


def line(hidden=(8, 8)) -> Network:
    return Network.draw(num_inputs=2, hidden=hidden, num_outputs=1, activation="relu", generator=generator(1))


def test_a_stage_that_diverges_is_redone_at_half_the_rate(tmp_path: Path) -> None:
    seen: list[dict] = []
    network = line()
    history = pretrain(
        network,
        *regression(),
        DIVERGING,
        generator=generator(2),
        checkpoint_dir=tmp_path,
        verbose=False,
        callbacks=[seen.append],
    )
    assert [record["layers"] for record in history] == [1, 2]
    assert all(record["decision"] != "revert and halve" for record in history)
    undone = [record for record in seen if record["decision"] == "revert and halve"]
    assert {record["layers"] for record in undone} == {1, 2}  # each stage starts at the initial rate again
    first = [record["rate"] for record in seen if record["layers"] == 1]
    assert first == [30.0 / 2**k for k in range(len(first))]
    assert all(torch.isfinite(p).all() for p in network.parameters())
    again = line()
    assert (
        pretrain(again, *regression(), DIVERGING, generator=generator(2), checkpoint_dir=tmp_path, verbose=False)
        == history
    )
    assert equal(again, network)


def test_a_stage_whose_units_died_is_redone_from_its_start(tmp_path: Path) -> None:
    """At a high rate ReLUs die and the network is constant, which is better than a random head but useless."""

    def dying() -> Network:
        return Network.draw(num_inputs=2, hidden=[8], num_outputs=3, activation="relu", generator=generator(0))

    network, again, alone, seen = dying(), dying(), dying(), []
    settings = SGDSettings(learning_rate=8.0, batch_size=32)
    source, heldout = sources()
    options = {"generator": generator(2), "checkpoint_dir": tmp_path, "verbose": False}
    [kept] = pretrain(network, source, heldout, settings, callbacks=[seen.append], **options)
    frequencies = np.bincount(heldout.read(0).y) / 88
    constant = -(frequencies * np.log(frequencies)).sum()
    assert any(record["ce"] >= constant and record["decision"] != "revert and halve" for record in seen)
    assert kept["ce"] < constant
    train(alone, source, heldout, replace(settings, learning_rate=kept["rate"], max_epochs=1, seed=1), verbose=False)
    assert equal(network, alone)
    assert pretrain(again, source, heldout, settings, **options) == [kept]
    assert equal(network, again)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_constant_to_beat_is_the_best_of_all(weighted: bool) -> None:
    """Entropy of the labels and variance of the numbers, by hand in NumPy, with and without weights."""
    y = torch.tensor([0, 0, 2, 2, 2, 5])
    values = torch.tensor([[1.0, 0.0], [2.0, 0.0], [4.0, 1.0], [0.0, 1.0], [3.0, 5.0], [7.0, 0.5]])
    weight = torch.tensor([1.0, 2.0, 0.5, 0.5, 1.0, 1.0]) if weighted else None
    X, share = torch.zeros(6, 1), np.full(6, 1 / 6) if weight is None else weight.numpy() / 6
    p = np.array([share[:2].sum(), share[2:5].sum(), share[5]])
    entropy = constant_loss(ArraySource(X, y, weight, shard_rows=4), "softmax")
    assert entropy == pytest.approx(-(p * np.log(p)).sum(), rel=1e-12)
    Y = values.double().numpy()
    variance = np.average((Y - np.average(Y, axis=0, weights=share)) ** 2, axis=0, weights=share).mean()
    assert constant_loss(ArraySource(X, values, weight, shard_rows=4), "squared") == pytest.approx(variance, rel=1e-12)


def test_a_stage_redone_starts_where_the_first_try_did() -> None:
    """The result is that of an epoch at the lower rate alone."""
    network, alone = line([8]), line([8])
    [kept] = pretrain(network, *regression(), DIVERGING, generator=generator(2), verbose=False)
    settings = replace(DIVERGING, learning_rate=kept["rate"], max_epochs=1, seed=1)
    assert kept["rate"] < 30.0
    train(alone, *regression(), settings, verbose=False)
    assert equal(network, alone)


def test_the_rate_found_is_halved_when_it_diverges(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("sgd", "pretraining"):
        monkeypatch.setattr(f"bochner.solvers.{module}.find_rate", lambda *_, **__: 30.0)
    given, found = line(), line()
    expected = pretrain(given, *regression(), DIVERGING, generator=generator(2), verbose=False)
    auto = replace(DIVERGING, learning_rate="auto")
    assert pretrain(found, *regression(), auto, generator=generator(2), verbose=False) == expected
    assert equal(found, given)


def test_a_stage_that_never_improves_is_an_error_and_leaves_the_start() -> None:
    network = line()
    start = numbers(network)
    settings = replace(DIVERGING, learning_rate=1e6, max_halvings=3)
    with pytest.raises(
        FloatingPointError, match=r"pre-training with 1 hidden layers learned nothing in one epoch: .* 3 times"
    ):
        pretrain(network, *regression(), settings, generator=generator(2), verbose=False)
    assert all(torch.equal(a, b) for a, b in zip(numbers(network), start, strict=True))


# -- kill and resume ---------------------------------------------------------------------------------------------------


class StoppedError(Exception):
    pass


HASHED = 32  # reads of the 32 shards for the fingerprint of a checkpoint


class StoppingSource(ArraySource):
    """Counts its reads, and fails after a given number."""

    reads, reads_allowed = 0, 10**9

    def read(self, shard: int) -> Block:
        if self.reads == self.reads_allowed:
            raise StoppedError
        self.reads += 1
        return super().read(shard)


@pytest.mark.parametrize(("optimizer", "rank"), [("sgd", None), ("momentum", 2), ("adam", None)])
@pytest.mark.parametrize("reads", [20, 32, 50, 64, 90])  # of 32 a stage, which come 8 at a time: 4 batches
def test_stopped_in_any_stage_it_resumes_bit_equal(
    reads: int, optimizer: str, rank: int | None, tmp_path: Path
) -> None:
    settings = SGDSettings(optimizer=optimizer, learning_rate=RATES[optimizer], batch_size=32)
    whole = draw(rank=rank)
    expected = pretrain(whole, *sources(), settings, generator=generator(2), verbose=False)

    stopping, heldout = sources(kind=StoppingSource)
    stopping.reads_allowed = HASHED + reads
    options = {"checkpoint_dir": tmp_path, "checkpoint_seconds": 0.0, "verbose": False}
    with pytest.raises(StoppedError):
        pretrain(draw(rank=rank), stopping, heldout, settings, generator=generator(2), **options)
    again, _ = sources(kind=StoppingSource)
    resumed = draw(rank=rank)
    assert pretrain(resumed, again, heldout, settings, generator=generator(2), **options) == expected
    assert equal(resumed, whole)
    assert again.reads == HASHED + 3 * 32 - reads // 8 * 8  # no batch is trained on twice


KILL_RECIPE = SGDSettings(learning_rate=0.1, batch_size=4)


def pretrain_until_the_second_stage(directory: Path) -> None:
    kill_after(sgd, "write_checkpoint", lambda stage, *_, **__: stage == directory / "layers-2" / "halvings-0")
    options = {"checkpoint_dir": directory, "checkpoint_seconds": 0.0, "verbose": False}
    pretrain(draw(), *sources(), KILL_RECIPE, generator=generator(2), **options)


def test_killed_in_the_second_stage_it_ends_bit_equal(tmp_path: Path) -> None:
    whole = draw()
    expected = pretrain(whole, *sources(), KILL_RECIPE, generator=generator(2), verbose=False)
    run_until_killed(pretrain_until_the_second_stage, tmp_path)
    resumed = draw()
    assert (
        pretrain(resumed, *sources(), KILL_RECIPE, generator=generator(2), checkpoint_dir=tmp_path, verbose=False)
        == expected
    )
    assert equal(resumed, whole)


def test_a_finished_run_is_not_run_again_and_another_is_refused(tmp_path: Path) -> None:
    first, second = draw(), draw()
    history = pretrain(first, *sources(), SETTINGS, generator=generator(2), checkpoint_dir=tmp_path, verbose=False)
    unread, heldout = sources(kind=StoppingSource)
    assert (
        pretrain(second, unread, heldout, SETTINGS, generator=generator(2), checkpoint_dir=tmp_path, verbose=False)
        == history
    )
    assert equal(first, second)
    assert unread.reads == HASHED
    for network, settings, message in (
        (draw(), replace(SETTINGS, alpha=0.1), r"alpha.*0\.0.*0\.1"),
        (draw((12, 9, 8)), SETTINGS, "model: "),
    ):
        with pytest.raises(ValueError, match=f"belongs to another configuration .*{message}"):
            pretrain(network, *sources(), settings, generator=generator(2), checkpoint_dir=tmp_path, verbose=False)
