"""Preconditioned gradients: the matrix compared with its definition, and its effect."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from bochner.data import ArraySource
from bochner.data.blocks import Block
from bochner.features import FourierMap
from bochner.kernels import Gaussian
from bochner.models.heads import BottleneckHead, FeatureModel, LinearHead
from bochner.solvers.optimizers import SGDSettings, make_optimizer
from bochner.solvers.preconditioner import MIN_FLOOR, Preconditioner, fit_preconditioner
from bochner.solvers.sgd import train
from bochner.solvers.step import take_step
from tests.solvers.runs import generator, model, rings, weights
from tests.solvers.test_sgd import StoppedError, StoppingSource


def double_model(num_features: int = 12, num_outputs: int = 1) -> FeatureModel:
    z = FourierMap.draw(
        Gaussian(), num_inputs=2, num_features=num_features, generator=generator(1), dtype=torch.float64
    )
    return FeatureModel(z, LinearHead.zeros(num_features=num_features, num_outputs=num_outputs, dtype=torch.float64))


def points(count: int = 200) -> Tensor:
    return torch.randn(count, 2, generator=generator(), dtype=torch.float64)


def augmented(m: FeatureModel, X: Tensor) -> np.ndarray:
    return np.hstack([m.feature_map(X).numpy(), np.ones((len(X), 1))])


def naive(U: np.ndarray, preconditioner_rank: int, batch_size: int) -> tuple[np.ndarray, float]:
    """P [D + 1, D + 1] as a dense matrix, and the floor, from all eigenpairs of E[u u^T]."""
    values, vectors = np.linalg.eigh(U.T @ U / len(U))
    values, vectors = values[::-1], vectors[:, ::-1]
    noise = (U**2).sum() / len(U) / batch_size
    floor = max(values[preconditioner_rank] if preconditioner_rank < len(values) else 0.0, MIN_FLOOR * noise)
    shrunk = np.where(np.arange(len(values)) < preconditioner_rank, np.minimum(1, floor / values), 1.0)
    return (vectors * shrunk) @ vectors.T, floor


def full_batch(
    m: FeatureModel, preconditioner: Preconditioner | None, block: Block, settings: SGDSettings, steps: int
) -> None:
    assert not isinstance(settings.learning_rate, str)
    optimizer = make_optimizer(m, settings, settings.learning_rate)
    for _ in range(steps):
        take_step(m, optimizer, block, settings, preconditioner)


# -- the matrix --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preconditioner_rank", [1, 4, 9, 13, 50])
@pytest.mark.parametrize("l2", [0.0, 0.3])
def test_is_the_matrix_of_its_definition(preconditioner_rank: int, l2: float) -> None:
    m, X = double_model(num_outputs=3), points()
    settings = SGDSettings(preconditioner_rank=preconditioner_rank, preconditioner_rows=1000, batch_size=64, alpha=l2)
    found = fit_preconditioner(m, ArraySource(X, torch.zeros(200).long()), settings)
    assert found is not None
    P, floor = naive(augmented(m, X), preconditioner_rank, 64)
    assert found.floor == pytest.approx(floor, rel=1e-8)
    assert found.rate == 1 / found.floor
    G = torch.randn(3, 13, generator=generator(2), dtype=torch.float64)
    with torch.no_grad():
        m.head.weights.normal_(generator=generator(3))
    m.head.weights.grad, m.head.bias.grad = G[:, :-1].clone(), G[:, -1].clone()
    found.apply(alpha=l2)
    penalty = np.hstack([l2 * m.head.weights.detach().numpy(), np.zeros((3, 1))])
    result = torch.cat([m.head.weights.grad, m.head.bias.grad[:, None]], dim=1)
    np.testing.assert_allclose(result.numpy(), (G.numpy() + penalty) @ P, atol=1e-9)


@pytest.mark.parametrize("l2", [0.0, 0.3])
def test_the_first_factor_of_a_bottleneck_is_preconditioned(l2: float) -> None:
    X, sizes = points(), {"num_features": 12, "num_outputs": 5, "rank": 3, "dtype": torch.float64}
    head = BottleneckHead.glorot(**sizes, generator=generator(4))
    m = FeatureModel(double_model().feature_map, head)
    settings = SGDSettings(preconditioner_rank=4, preconditioner_rows=1000, batch_size=64, alpha=l2)
    found = fit_preconditioner(m, ArraySource(X, torch.zeros(200).long()), settings)
    assert found is not None
    assert found.rate == 1.0
    P, floor = naive(m.feature_map(X).numpy(), 4, 64)
    assert found.floor == pytest.approx(floor, rel=1e-8)
    gradients = [torch.randn(p.shape, generator=generator(2), dtype=torch.float64) for p in head.parameters()]
    for parameter, gradient in zip(head.parameters(), gradients, strict=True):
        parameter.grad = gradient.clone()
    found.apply(alpha=l2)
    first, second, bias = (p.grad.numpy() for p in head.parameters())
    penalised = (gradients[0] + l2 * head.first.detach()).numpy()
    np.testing.assert_allclose(first, penalised @ P / floor, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(second, (gradients[1] + l2 * head.second.detach()).numpy())
    np.testing.assert_array_equal(bias, gradients[2].numpy())


def test_is_positive_definite_and_flattens_the_curvature() -> None:
    m, X = double_model(num_features=40), points(300)
    settings = SGDSettings(preconditioner_rank=15, batch_size=1000)
    found = fit_preconditioner(m, ArraySource(X, torch.zeros(300)), settings)
    assert found is not None
    V, values = found.vectors.numpy(), found.values.numpy()
    P = np.eye(41) - (V.T * (1 - found.floor / values)) @ V
    assert np.linalg.eigvalsh(P).min() > 0
    U = augmented(m, X)
    curvature = np.linalg.eigvals(U.T @ U / 300 @ P).real
    assert curvature.max() == pytest.approx(found.floor, rel=1e-6)
    assert curvature.max() < 0.05 * np.linalg.eigvalsh(U.T @ U / 300).max()


@pytest.mark.parametrize("batch_size", [4, 64, 4096])
def test_auto_takes_what_a_batch_can_resolve(batch_size: int) -> None:
    m, X = double_model(num_features=40), points(300)
    found = fit_preconditioner(
        m,
        ArraySource(X, torch.zeros(300)),
        SGDSettings(preconditioner_rank="auto", batch_size=batch_size, preconditioner_rows=300),
    )
    assert found is not None
    U = augmented(m, X)
    values = np.linalg.eigvalsh(U.T @ U / 300)[::-1]
    noise = values.sum() / batch_size
    assert len(found.values) == (values > noise).sum()
    np.testing.assert_allclose(found.values.numpy(), values[: len(found.values)], rtol=1e-8)


def test_no_direction_above_the_noise_still_penalises() -> None:
    m, X = double_model(), points(2)
    found = fit_preconditioner(
        m, ArraySource(X, torch.zeros(2)), SGDSettings(preconditioner_rank="auto", batch_size=1, alpha=0.5)
    )
    assert found is not None
    assert found.vectors.shape == (0, 13)
    with torch.no_grad():
        m.head.weights.fill_(2.0)
    m.head.weights.grad, m.head.bias.grad = torch.zeros(1, 12).double(), torch.zeros(1).double()
    found.apply(alpha=0.5)
    assert m.head.weights.grad.eq(1.0).all()
    assert m.head.bias.grad.eq(0.0).all()


def test_is_a_function_of_seed_and_rows() -> None:
    m, X = model(), points(500).float()
    source = ArraySource(X, torch.zeros(500).long(), shard_rows=64)
    first, second, other = (
        fit_preconditioner(m, source, SGDSettings(preconditioner_rank=8, preconditioner_rows=100, seed=seed))
        for seed in (0, 0, 1)
    )
    assert torch.equal(first.vectors, second.vectors)
    assert not torch.equal(first.vectors, other.vectors)
    assert first.vectors.dtype == torch.float32


# -- what it is good for -----------------------------------------------------------------------------------------------


def quadratic(num_rows: int = 200) -> tuple[Block, np.ndarray]:
    X = points(num_rows)
    y = (2 * X[:, 0]).sin() + X[:, 1] + 3
    return Block(X, y), y.numpy()


def test_all_directions_solve_a_quadratic_in_a_step() -> None:
    block, y = quadratic()
    preconditioned, plain = double_model(), double_model()
    U = augmented(preconditioned, block.X)
    best = U @ np.linalg.lstsq(U, y, rcond=None)[0]
    source = ArraySource(block.X, block.y)
    # a huge batch has little noise, so that all eigenvectors are preconditioned
    settings = SGDSettings(loss="squared", criterion="mse", preconditioner_rank=100, batch_size=10**9)
    preconditioner = fit_preconditioner(preconditioned, source, settings)
    assert preconditioner is not None
    rate = SGDSettings(loss="squared", criterion="mse", preconditioner_rank=100, learning_rate=preconditioner.rate)
    full_batch(preconditioned, preconditioner, block, rate, 1)
    np.testing.assert_allclose(preconditioned(block.X).detach().numpy()[:, 0], best, atol=1e-4)

    largest = np.linalg.eigvalsh(U.T @ U / len(U)).max()
    slow = SGDSettings(loss="squared", criterion="mse", learning_rate=1 / largest)
    full_batch(plain, None, block, slow, 50)
    left = np.abs(plain(block.X).detach().numpy()[:, 0] - best).mean()
    assert left > 0.05


@pytest.mark.parametrize("preconditioner_rank", [0, 3, 100])
def test_the_minimum_with_a_penalty_stays_where_it_is(preconditioner_rank: int) -> None:
    block, y = quadratic()
    m, l2 = double_model(), 0.05
    U = augmented(m, block.X)
    penalty = l2 * np.diag([*np.ones(12), 0.0])
    expected = np.linalg.solve(U.T @ U / len(U) + penalty, U.T @ y / len(U))
    source, shared = ArraySource(block.X, block.y), {"loss": "squared", "criterion": "mse", "alpha": l2}
    found = fit_preconditioner(
        m, source, SGDSettings(**shared, preconditioner_rank=preconditioner_rank, batch_size=200)
    )
    largest = np.linalg.eigvalsh(U.T @ U / len(U)).max()
    # under P the penalty is a curvature of l2 at most, beside the floor
    rate = 1 / (largest + l2) if found is None else 1 / (found.floor + l2)
    full_batch(
        m, found, block, SGDSettings(**shared, preconditioner_rank=preconditioner_rank, learning_rate=rate), 1500
    )
    np.testing.assert_allclose(m.head.weights.detach().numpy()[0], expected[:-1], atol=1e-5)
    np.testing.assert_allclose(m.head.bias.detach().numpy()[0], expected[-1], atol=1e-5)


def test_learns_in_an_epoch_what_plain_sgd_does_not() -> None:
    X, y = rings(900)
    source, heldout = ArraySource(X[300:], y[300:]), ArraySource(X[:300], y[:300])
    results = {
        preconditioner_rank: train(
            model(num_features=128),
            source,
            heldout,
            SGDSettings(preconditioner_rank=preconditioner_rank, batch_size=64, max_epochs=1),
            verbose=False,
        )[-1]["ce"]
        for preconditioner_rank in (0, "auto")
    }
    assert results["auto"] < 0.8 * results[0]


# -- stopped and resumed -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("optimizer", ["sgd", "momentum"])
@pytest.mark.parametrize("reads", [12, 21, 32])
def test_stopped_anywhere_it_resumes_bit_equal(optimizer: str, average: bool, reads: int, tmp_path: Path) -> None:
    X, y = rings()
    settings = SGDSettings(
        optimizer=optimizer, preconditioner_rank="auto", learning_rate=8.0, batch_size=32, max_epochs=4, average=average
    )
    heldout = ArraySource(X[:100], y[:100])
    whole = model()
    expected = train(whole, ArraySource(X[100:], y[100:], shard_rows=64), heldout, settings, verbose=False)
    stopping = StoppingSource(X[100:], y[100:], shard_rows=64)
    stopping.reads_left = reads
    with pytest.raises(StoppedError):
        train(model(), stopping, heldout, settings, checkpoint_dir=tmp_path, checkpoint_seconds=0.0, verbose=False)
    resumed = model()
    rows = ArraySource(X[100:], y[100:], shard_rows=64)
    assert train(resumed, rows, heldout, settings, checkpoint_dir=tmp_path, verbose=False) == expected
    assert all(torch.equal(a, b) for a, b in zip(weights(resumed), weights(whole), strict=True))


def test_a_resumed_run_takes_the_stored_directions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rings()
    arguments = (ArraySource(X[100:], y[100:]), ArraySource(X[:100], y[:100]))
    settings = SGDSettings(preconditioner_rank=5, learning_rate=8.0, batch_size=32, max_epochs=2)
    history = train(model(), *arguments, settings, checkpoint_dir=tmp_path, verbose=False)
    monkeypatch.setattr("bochner.solvers.preconditioner.fit_preconditioner", None)
    assert train(model(), *arguments, settings, checkpoint_dir=tmp_path, verbose=False) == history


def test_directions_of_another_configuration_are_not_taken(tmp_path: Path) -> None:
    """Left by a run that was killed before its first checkpoint."""
    X, y = rings()
    arguments = (ArraySource(X[100:], y[100:]), ArraySource(X[:100], y[:100]))
    settings = SGDSettings(preconditioner_rank=5, learning_rate=8.0, batch_size=32, max_epochs=2)
    other = SGDSettings(preconditioner_rank=2, learning_rate=8.0, batch_size=32, max_epochs=2)
    train(model(), *arguments, other, checkpoint_dir=tmp_path, verbose=False)
    (tmp_path / "checkpoint.safetensors").unlink()
    try:
        history = train(model(), *arguments, settings, checkpoint_dir=tmp_path, verbose=False)
    except ValueError as error:
        assert "another configuration" in str(error)
    else:
        assert history == train(model(), *arguments, settings, verbose=False)


# -- where there can be none -------------------------------------------------------------------------------------------


def test_models_and_optimizers_that_cannot_have_it() -> None:
    X, y = rings()
    source = ArraySource(X, y)
    settings = SGDSettings(preconditioner_rank=5)
    with pytest.raises(ValueError, match="preconditioner_rank must be 0 without a head on features, got 5"):
        fit_preconditioner(torch.nn.Linear(2, 3), source, settings)
    for optimizer in ("adam", "adamw"):
        for preconditioner_rank in (3, "auto"):
            with pytest.raises(
                ValueError,
                match=f"preconditioner_rank must be 0 with optimizer='{optimizer}', got {preconditioner_rank!r}",
            ):
                SGDSettings(optimizer=optimizer, preconditioner_rank=preconditioner_rank)
    for bad in (-1, 2.5, "many", True):
        with pytest.raises(ValueError, match="preconditioner_rank must be"):
            SGDSettings(preconditioner_rank=bad)
    with pytest.raises(ValueError, match="preconditioner_rows must be"):
        SGDSettings(preconditioner_rows=0)
    assert fit_preconditioner(model(), source, SGDSettings()) is None
