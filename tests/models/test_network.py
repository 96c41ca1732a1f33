"""Networks: the formula and its gradients, their starts, files, and the loop that trains them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import Generator, Tensor

import bochner
from bochner.data import ArraySource
from bochner.models.heads import BottleneckHead, LinearHead
from bochner.models.losses import LOSSES
from bochner.models.network import Network
from bochner.solvers.optimizers import OPTIMIZERS, SGDSettings
from bochner.solvers.sgd import train
from tests.oracles.networks import NaiveNetwork


def generator(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def draw(hidden=(7, 5), *, activation: str = "tanh", rank: int | None = None, num_outputs: int = 4) -> Network:
    return Network.draw(
        num_inputs=6,
        hidden=hidden,
        num_outputs=num_outputs,
        activation=activation,
        rank=rank,
        generator=generator(),
        dtype=torch.float64,
    )


def with_biases(network: Network) -> Network:
    """Biases away from 0, so that each of them has an effect."""
    with torch.no_grad():
        for p in network.parameters():
            if p.ndim == 1:
                p.copy_(torch.randn(p.shape, generator=generator(len(p)), dtype=p.dtype))
    return network


def naive(network: Network) -> NaiveNetwork:
    """The same numbers; a bottleneck is one linear layer Theta = first second, computed by the head."""
    hidden = [(W.detach().numpy(), b.detach().numpy()) for W, b in zip(network.weights, network.biases, strict=True)]
    with torch.no_grad():
        bias = network.head(torch.zeros(1, network.widths[-1], dtype=torch.float64))
        theta = network.head(torch.eye(network.widths[-1], dtype=torch.float64)) - bias
    return NaiveNetwork([*hidden, (theta.T.numpy(), bias[0].numpy())], network.activation)


def rows(loss: str, *, num_outputs: int = 4) -> tuple[Tensor, Tensor]:
    X = torch.randn(9, 6, generator=generator(3), dtype=torch.float64)
    if loss == "squared":
        return X, torch.randn(9, num_outputs, generator=generator(4), dtype=torch.float64)
    return X, torch.randint(2 if loss == "logistic" else num_outputs, (9,), generator=generator(4))


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("rank", [None, 3])
@pytest.mark.parametrize("hidden", [[5], [7, 5], [4, 9, 5, 6]])
def test_logits_are_the_formula(hidden: list[int], rank: int | None, activation: str) -> None:
    network = with_biases(draw(hidden, activation=activation, rank=rank))
    X, _ = rows("softmax")
    np.testing.assert_allclose(network(X).detach().numpy(), naive(network).logits(X.numpy()), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_are_those_by_hand(loss: str, activation: str) -> None:
    num_outputs = 1 if loss == "logistic" else 4
    network = with_biases(draw([7, 5, 6], activation=activation, num_outputs=num_outputs))
    X, y = rows(loss)
    LOSSES[loss](network(X), y, None).backward()
    *hidden, last = naive(network).gradients(X.numpy(), y.numpy(), loss)
    found = [*zip(network.weights, network.biases, strict=True), (network.head.weights, network.head.bias)]
    for (W, b), (dW, db) in zip(found, [*hidden, last], strict=True):
        np.testing.assert_allclose(W.grad.numpy(), dW, rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(b.grad.numpy(), db, rtol=1e-10, atol=1e-13)


def test_starts() -> None:
    for activation, bound in (("tanh", (6 / 500) ** 0.5), ("relu", (6 / 200) ** 0.5)):
        network = Network.draw(
            num_inputs=200, hidden=[300, 40], num_outputs=10, activation=activation, generator=generator()
        )
        W = network.weights[0].detach()
        assert W.abs().max() <= bound
        assert W.std().item() == pytest.approx(bound / 3**0.5, rel=0.01)
        assert network.head.weights.abs().max() <= (6 / 50) ** 0.5
        assert network.head.weights.std().item() == pytest.approx((2 / 50) ** 0.5, rel=0.1)
        assert not any(b.any() for b in [*network.biases, network.head.bias])
        assert network.widths == [300, 40]
        assert network.num_inputs == 200
        assert network.num_outputs == 10
    assert torch.equal(draw().weights[1], draw().weights[1])


def test_a_relu_network_passes_its_signal_on_whatever_the_depth() -> None:
    """Mean square of the logits of a deep and of a shallow network, over seeds; Glorot's start would lose 2^7."""
    X = torch.randn(50, 100, generator=generator(1))

    def power(depth: int, seed: int) -> float:
        network = Network.draw(
            num_inputs=100, hidden=[200] * depth, num_outputs=20, activation="relu", generator=generator(seed)
        )
        return network(X).square().mean().item()

    deep, shallow = (np.mean([power(depth, seed) for seed in range(5)]) for depth in (8, 1))
    assert 0.5 < deep / shallow < 2


@pytest.mark.parametrize("rank", [None, 3])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_saved_and_loaded_bit_for_bit(activation: str, rank: int | None, tmp_path: Path) -> None:
    network = with_biases(draw([7, 5], activation=activation, rank=rank))
    bochner.save(network, tmp_path / "network.safetensors")
    again = bochner.load(tmp_path / "network.safetensors")
    X, _ = rows("softmax")
    assert torch.equal(again(X), network(X))
    assert repr(again) == repr(network)
    assert [name for name, _ in again.named_parameters()] == [name for name, _ in network.named_parameters()]


@pytest.mark.parametrize("rank", [None, 3])
def test_a_lower_network_shares_its_layers_under_a_fresh_head(rank: int | None) -> None:
    network = draw([7, 2, 5], rank=rank)
    for depth, expected_rank in ((1, 3), (2, 2), (3, 3)):  # a bottleneck is never wider than the layer below it
        lower = network.lower(depth, generator=generator(5))
        assert [id(W) for W in lower.weights] == [id(W) for W in network.weights[:depth]]
        assert [id(b) for b in lower.biases] == [id(b) for b in network.biases[:depth]]
        assert type(lower.head) is type(network.head)
        assert lower.head is not network.head
        assert lower.num_outputs == network.num_outputs
        assert next(lower.head.parameters()).dtype == torch.float64
        if rank is not None:
            assert torch.linalg.matrix_rank(torch.from_numpy(naive(lower).layers[-1][0])) == expected_rank
    with pytest.raises(ValueError, match="num_layers must be at most 3, the hidden layers, got 4"):
        network.lower(4, generator=generator())


def digits() -> tuple[ArraySource, ArraySource]:
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    return ArraySource(X[400:], y[400:]), ArraySource(X[:400], y[:400])


def small(num_outputs: int = 10, *, activation: str = "tanh", rank: int | None = None) -> Network:
    return Network.draw(
        num_inputs=64,
        hidden=[48, 48],
        num_outputs=num_outputs,
        activation=activation,
        rank=rank,
        generator=generator(),
    )


RATES = {"sgd": 0.3, "momentum": 0.05, "adam": 3e-3, "adamw": 3e-3}


@pytest.mark.parametrize(("optimizer", "activation"), [*zip(OPTIMIZERS, ["tanh", "relu"] * 2, strict=True)])
def test_learns_digits_with_every_optimizer(optimizer: str, activation: str) -> None:
    settings = SGDSettings(optimizer=optimizer, learning_rate=RATES[optimizer], batch_size=32, max_epochs=8)
    history = train(small(activation=activation), *digits(), settings, verbose=False)
    assert history[-1]["err"] < 0.1


@pytest.mark.parametrize("change", [{"precision": "bf16"}, {"criterion": "erll:1"}, {"learning_rate": "auto"}])
def test_learns_digits_through_a_bottleneck(change: dict) -> None:
    settings = SGDSettings(**{"learning_rate": 0.3, "batch_size": 32, "max_epochs": 8, **change})
    network = small(rank=9)
    history = train(network, *digits(), settings, verbose=False)
    assert isinstance(network.head, BottleneckHead)
    assert history[-1]["err"] < 0.1
    assert all(p.dtype == torch.float32 for p in network.parameters())


def test_logistic_and_squared() -> None:
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    odd = y % 2
    for loss, target, criterion, untrained in (
        ("logistic", odd, "ce", np.log(2)),
        ("squared", odd.astype(np.float32) - 0.5, "mse", 0.25),
    ):
        settings = SGDSettings(loss=loss, criterion=criterion, learning_rate=0.2, batch_size=32, max_epochs=5)
        parts = ArraySource(X[400:], target[400:]), ArraySource(X[:400], target[:400])
        history = train(small(1), *parts, settings, verbose=False)
        assert history[-1][criterion] < untrained / 2


def test_l2_shrinks_weights_and_not_biases() -> None:
    """One step from the same start: l2 moves the weights by -rate l2 W exactly and the biases not at all."""
    free, bound = small(), small()
    start = [W.detach().clone() for W in free.weights]
    source, heldout = digits()
    for network, l2 in ((free, 0.0), (bound, 0.1)):
        train(
            network,
            source,
            heldout,
            SGDSettings(learning_rate=0.1, batch_size=2000, max_epochs=1, alpha=l2),
            verbose=False,
        )
    for W, shrunk, before in zip(free.weights, bound.weights, start, strict=True):
        torch.testing.assert_close(W - shrunk, 0.1 * 0.1 * before, rtol=1e-4, atol=1e-7)
    assert all(torch.equal(a, b) for a, b in zip(free.biases, bound.biases, strict=True))


def test_bad_arguments() -> None:
    W, b = [torch.zeros(5, 3)], [torch.zeros(5)]
    head = LinearHead.zeros(num_features=5, num_outputs=2)
    with pytest.raises(ValueError, match=r"activation must be one of \['tanh', 'relu', 'gelu'\], got 'sigmoid'"):
        Network(W, b, "sigmoid", head)
    with pytest.raises(ValueError, match=r"one tensor per layer.* got 0 and 0"):
        Network([], [], "tanh", head)
    with pytest.raises(ValueError, match=r"one tensor per layer.* got 1 and 2"):
        Network(W, b * 2, "tanh", head)
    with pytest.raises(ValueError, match=r"weights\[1\] must be \[d_out, 5\] .*, got \(5, 3\) and \(5,\)"):
        Network(W * 2, b * 2, "tanh", head)
    with pytest.raises(ValueError, match=r"biases\[0\] \[d_out\], got \(5, 3\) and \(4,\)"):
        Network(W, [torch.zeros(4)], "tanh", head)
    for wrong in (
        LinearHead.zeros(num_features=4, num_outputs=2),
        BottleneckHead.glorot(num_features=4, num_outputs=3, rank=2, generator=generator()),
    ):
        with pytest.raises(ValueError, match="head must take 5 features, the width of the last layer"):
            Network(W, b, "tanh", wrong)
    with pytest.raises(TypeError, match="head must be a LinearHead or BottleneckHead, got Linear"):
        Network(W, b, "tanh", torch.nn.Linear(5, 2))
    with pytest.raises(ValueError, match="hidden must hold the width of at least one layer, got none"):
        draw([])
    with pytest.raises(ValueError, match=r"hidden\[1\] must be an integer of at least 1, got 0"):
        draw([4, 0])
    with pytest.raises(ValueError, match="rank must be at most"):
        draw([4], rank=5)
    with pytest.raises(ValueError, match="X must have 6 columns, got 3"):
        draw()(torch.zeros(2, 3))
