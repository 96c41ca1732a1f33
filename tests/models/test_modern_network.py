"""Batch normalisation, dropout, shortcuts and time-delay layers: against torch's own modules, stored, and trained."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import Generator, Tensor, nn

import bochner
from bochner.data import ArraySource
from bochner.data.batches import in_order
from bochner.models.network import Network
from bochner.solvers.optimizers import SGDSettings, trainable
from bochner.solvers.sgd import train

MODERN = {"activation": "relu", "batch_norm": True, "dropout": 0.2, "residual": True}
SETTINGS = SGDSettings(
    optimizer="adamw", alpha=0.01, learning_rate=5e-3, schedule="one-cycle", max_epochs=4, batch_size=32
)


def generator(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def draw(**options: object) -> Network:
    """Vectors away from 0 and 1, so that each of them has an effect."""
    values = {"num_inputs": 6, "hidden": [5, 5, 4], "num_outputs": 3, "dtype": torch.float64, **options}
    network = Network.draw(generator=generator(), **values)  # type: ignore[arg-type]
    with torch.no_grad():
        for number, parameter in enumerate(p for p in network.parameters() if p.ndim == 1):
            parameter.add_(torch.rand(parameter.shape, generator=generator(number), dtype=torch.float64))
    return network


def torch_network(network: Network) -> nn.Module:
    """The same network of torch's modules, with the same statistics."""

    class Same(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.ModuleList(nn.Linear(W.shape[1], len(W), bias=False).double() for W in network.weights)
            self.norm = nn.ModuleList(nn.BatchNorm1d(len(W)).double() for W in network.weights)
            for i, (linear, norm) in enumerate(zip(self.linear, self.norm, strict=True)):
                linear.weight.data.copy_(network.weights[i])
                norm.weight.data.copy_(network.scales[i])
                norm.bias.data.copy_(network.biases[i])
                norm.running_mean.copy_(network.means[i])
                norm.running_var.copy_(network.variances[i])

        def forward(self, X: Tensor) -> Tensor:
            Z = X
            for i, (linear, norm) in enumerate(zip(self.linear, self.norm, strict=True)):
                below, Z = Z, torch.relu(norm(linear(Z)))
                if network.residual and i > 0 and below.shape == Z.shape:
                    Z = Z + below
            return network.head(Z)

    return Same()


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_batch_normalisation_and_shortcuts_are_torchs(training: bool, residual: bool) -> None:
    network = draw(activation="relu", batch_norm=True, residual=residual)
    same, X = torch_network(network), normal(20, 6)
    torch.testing.assert_close(network.train(training)(X), same.train(training)(X), rtol=1e-12, atol=1e-12)
    assert residual == (not torch.allclose(network(X), draw(activation="relu", batch_norm=True).train(training)(X)))


def test_gelu_is_torchs() -> None:
    network, X = draw(activation="gelu", hidden=[5]), normal(9, 6)
    expected = network.head(nn.functional.gelu(nn.functional.linear(X, network.weights[0], network.biases[0])))
    torch.testing.assert_close(network(X), expected)


def test_statistics_are_those_of_every_layer_on_the_rows() -> None:
    """In training mode without dropout a batch has its own statistics: the same rows must give the same scores."""
    network, X = draw(**{**MODERN, "dropout": 0.0}), normal(50, 6)
    assert not torch.allclose(network(X), network.train()(X))
    network.eval().fit_statistics(X)
    torch.testing.assert_close(network(X), network.train()(X), rtol=1e-12, atol=1e-12)


def test_a_batch_of_one_row_uses_the_statistics() -> None:
    network = draw(activation="relu", batch_norm=True)
    torch.testing.assert_close(network.train()(normal(1, 6)), network.eval()(normal(1, 6)))


@pytest.mark.parametrize("residual", [False, True])
def test_time_delay_layers_are_dilated_convolutions(residual: bool) -> None:
    """conv1d at every frame of a longer signal; the rows are its spliced frames."""
    network = draw(num_inputs=11 * 4, hidden=[5, 5, 5, 7], dilations=(1, 2, 2), residual=residual)
    assert network.num_inputs == 44
    signal = normal(30, 4)
    Z = signal.T[None]
    for W, b, dilation in zip(network.weights, network.biases, network.dilations, strict=False):
        kernel = W.unflatten(1, (3, -1)).transpose(1, 2)
        below, Z = Z, torch.tanh(nn.functional.conv1d(Z, kernel, b, dilation=dilation))
        if residual and below.shape[1] == Z.shape[1]:
            Z = Z + below[:, :, dilation:-dilation]
    expected = network.head(torch.tanh(nn.functional.linear(Z[0].T, network.weights[3], network.biases[3])))
    rows = torch.stack([signal[t : t + 11].flatten() for t in range(20)])
    torch.testing.assert_close(network(rows), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dilations", [(), (1,)])
def test_folded_layers_are_the_network_in_evaluation_mode(dilations: tuple[int, ...]) -> None:
    network, X = draw(**MODERN, dilations=dilations), normal(20, 6)
    network.fit_statistics(X)
    folded = network.folded_layers()
    plain = network.replace(
        weights=[W for W, _ in folded], biases=[b for _, b in folded], scales=None, means=None, variances=None
    )
    torch.testing.assert_close(plain(X), network(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("batch_norm", [False, True])
def test_standardisation_becomes_part_of_the_first_layer(batch_norm: bool) -> None:
    network, X = draw(activation="relu", batch_norm=batch_norm), normal(20, 6)
    mean, std = normal(6, seed=1), 1 + normal(6, seed=2).abs()
    expected = network((X - mean) / std)
    network.fold_inputs(mean, std)
    torch.testing.assert_close(network(X), expected, rtol=1e-12, atol=1e-12)


def test_dropout_acts_in_training_only_and_by_its_seed() -> None:
    network, X = draw(hidden=[400], num_inputs=6, dropout=0.25), normal(50, 6)
    expected = network(X)
    assert torch.equal(network(X), expected)
    network.train()
    samples = []
    for number in (0, 1, 0):
        network.seed_dropout(7, number)
        samples.append(network(X))
    assert torch.equal(samples[0], samples[2])
    assert not torch.allclose(samples[0], samples[1])
    network.head.weights.data.fill_(1 / 400)
    network.head.bias.data.zero_()
    network.biases[0].data.fill_(1.0)
    network.weights[0].data.zero_()  # every unit is tanh(1) before dropout
    mean = network(X).mean().item() / torch.tanh(torch.tensor(1.0)).item()
    assert mean == pytest.approx(1.0, abs=0.02)  # 20,000 units kept with probability 3/4: standard deviation 0.004


@pytest.mark.parametrize("options", [MODERN, {**MODERN, "activation": "gelu", "dilations": (1,), "rank": 2}])
def test_saved_copied_and_in_evaluation_mode_when_loaded(options: dict, tmp_path: Path) -> None:
    network, X = draw(**options), normal(20, 6)
    network.fit_statistics(X)
    network.seed_dropout(0)
    bochner.save(network, tmp_path / "network.safetensors")
    loaded = bochner.load(tmp_path / "network.safetensors")
    assert not loaded.training
    assert repr(loaded) == repr(network)
    assert list(trainable(loaded)) == list(trainable(network))
    for other in (loaded, copy.deepcopy(network)):
        assert torch.equal(other(X), network(X))


def test_a_lower_network_shares_statistics_too() -> None:
    network = draw(**MODERN)
    lower = network.lower(2, generator=generator())
    lower.fit_statistics(normal(20, 6))
    assert network.means is not None
    assert lower.means is not None
    assert lower.means[1] is network.means[1]
    assert (lower.dropout, lower.residual) == (network.dropout, network.residual)
    with pytest.raises(ValueError, match="num_layers must be at least 2, the time-delay layers, got 1"):
        draw(num_inputs=10, dilations=(1, 1)).lower(1, generator=generator())


def rows() -> tuple[ArraySource, ArraySource]:
    X = torch.randn(600, 2, generator=generator())
    y = torch.bucketize(X.norm(dim=1), torch.tensor([0.8, 1.5]))
    return ArraySource(X[100:], y[100:], shard_rows=64), ArraySource(X[:100], y[:100])


def rings(**options: object) -> Network:
    values = {**MODERN, "dropout": 0.1, **options}
    return Network.draw(num_inputs=2, hidden=[32, 32], num_outputs=3, generator=generator(3), **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("changes", [{}, {"average": True}, {"schedule": "halving"}, {"precision": "bf16"}])
def test_statistics_belong_to_the_weights_after_training(changes: dict) -> None:
    """Also to weights that were averaged, or restored after an epoch that was undone."""
    network = rings()
    history = train(network, *rows(), SGDSettings(**{**vars(SETTINGS), "max_epochs": 12, **changes}), verbose=False)
    assert history[-1]["err"] < 0.15
    assert not network.training
    assert network.means is not None
    before = [m.clone() for m in network.means]
    network.fit_statistics(torch.cat([block.X for block in in_order(rows()[0], batch_rows=500)]))
    for mean, again in zip(before, network.means, strict=True):
        torch.testing.assert_close(mean, again, rtol=0, atol=0.05 if changes.get("precision") else 1e-5)


@pytest.mark.parametrize("changes", [{}, {"average": True}, {"schedule": "halving", "optimizer": "momentum"}])
@pytest.mark.parametrize("stop", [1, 20, 40])
def test_stopped_anywhere_it_resumes_bit_equal(stop: int, changes: dict, tmp_path: Path) -> None:
    """The masks of dropout and the rate of a step depend on its number; statistics are computed again."""
    settings, (source, validation) = SGDSettings(**{**vars(SETTINGS), **changes}), rows()
    whole, stopped, resumed = rings(), rings(), rings()
    expected = train(whole, source, validation, settings, verbose=False)
    step, count = Network.seed_dropout, 0

    def interrupted(network: Network, *path: int) -> None:
        nonlocal count
        count += 1
        if count > stop:
            raise KeyboardInterrupt
        step(network, *path)

    stopped.seed_dropout = interrupted.__get__(stopped)  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        train(stopped, source, validation, settings, checkpoint_dir=tmp_path, checkpoint_seconds=0.0, verbose=False)
    assert train(resumed, source, validation, settings, checkpoint_dir=tmp_path, verbose=False) == expected
    assert all(torch.equal(a, b) for a, b in zip(resumed.parameters(), whole.parameters(), strict=True))
    finished = rings()
    assert train(finished, source, validation, settings, checkpoint_dir=tmp_path, verbose=False) == expected
    assert all(torch.equal(a, b) for a, b in zip(finished.parameters(), whole.parameters(), strict=True))


def test_a_rate_is_found_for_a_modern_network() -> None:
    settings = SGDSettings(**{**vars(SETTINGS), "learning_rate": "auto", "max_epochs": 10})
    assert train(rings(), *rows(), settings, verbose=False)[-1]["err"] < 0.2


def test_the_random_numbers_of_torch_are_neither_used_nor_changed() -> None:
    def trained(seed: int) -> Tensor:
        torch.manual_seed(seed)
        network = rings()
        train(network, *rows(), SETTINGS, verbose=False)
        assert torch.initial_seed() == seed
        return network.weights[0].detach()

    assert torch.equal(trained(1), trained(2))


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match=r"dropout must be at least 0 and less than 1, got 1\.0"):
        draw(dropout=1.0)
    with pytest.raises(ValueError, match=r"dilations must be at most one per hidden layer, 3, got \[1, 1, 1, 1\]"):
        draw(dilations=(1, 1, 1, 1))
    with pytest.raises(ValueError, match=r"dilations\[0\] must be an integer of at least 1, got 0"):
        draw(dilations=(0,))
    with pytest.raises(ValueError, match=r"num_inputs must be a multiple of 5, .*dilations=\[2\], got 6"):
        draw(dilations=(2,))
    with pytest.raises(ValueError, match=r"dilations must be empty for fold_inputs, got \[1\]"):
        draw(dilations=(1,)).fold_inputs(torch.zeros(6), torch.ones(6))
    network = draw(**MODERN)
    with pytest.raises(ValueError, match="scales, means and variances must be given together"):
        network.replace(means=None)
    with pytest.raises(ValueError, match=r"means must have the shapes of biases, got \[\(2,\)"):
        network.replace(means=[torch.zeros(2)] * 3)
