"""What every feature map must do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import bochner
from bochner.features import FourierMap
from tests.features.cases import CASES, NUM_INPUTS, Case, generator, points
from tests.oracles.maps import features_oracle


def maps_that(holds: Callable[[Case], bool]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [case for case in CASES if holds(case)], ids=str)


every_map = maps_that(lambda case: True)


def rounding(case: Case, features: torch.Tensor) -> float:
    """The rounding error of float32; larger for Nystrom maps, which divide by roots of small eigenvalues."""
    return 2e-2 if case.projects or "ensemble" in case.name else 1e-4 * float(features.abs().max())


@every_map
def test_features_equal_the_formula(case: Case) -> None:
    X = points()
    z = case.make(case.kernel, X, 32, generator())
    expected = torch.as_tensor(features_oracle(z, X.numpy()))
    torch.testing.assert_close(z(X), expected, rtol=1e-9, atol=1e-9)


@every_map
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shape_and_dtype(case: Case, dtype: torch.dtype) -> None:
    X = points(dtype=dtype)
    z = case.make(case.kernel, X, 32, generator())
    assert (z.num_inputs, z.num_features) == (NUM_INPUTS, 32)
    assert z(X).shape == (len(X), 32)
    assert z(X).dtype == dtype


@every_map
def test_float32_is_as_good_as_its_digits(case: Case) -> None:
    X = points(dtype=torch.float32)
    z = case.make(case.kernel, X, 32, generator())
    expected = torch.as_tensor(features_oracle(z, X.double().numpy())).float()
    torch.testing.assert_close(z(X), expected, rtol=1e-3, atol=rounding(case, expected))


@every_map
def test_same_generator_same_map(case: Case) -> None:
    X = points()
    first, again, other = (case.make(case.kernel, X, 32, generator(seed))(X) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@every_map
def test_tiles_and_streams_give_the_whole(case: Case) -> None:
    X = points(100)
    z = case.make(case.kernel, X, 32, generator())
    whole = z(X)
    z.tile_elements = 32 * 7
    torch.testing.assert_close(z(X), whole, rtol=1e-12, atol=1e-12)
    streamed = torch.cat([block.clone() for _, block in z.stream(X, rows=33)])
    torch.testing.assert_close(streamed, whole, rtol=1e-12, atol=1e-12)
    separately = torch.cat([z(x[None]) for x in X])
    torch.testing.assert_close(separately, whole, rtol=1e-9, atol=1e-12)


@every_map
def test_writes_every_entry_and_nothing_else(case: Case) -> None:
    X = points(20)
    z = case.make(case.kernel, X, 16, generator())
    board = torch.full((22, 18), torch.nan, dtype=X.dtype)
    z.write(X, board[1:-1, 1:-1])
    assert torch.isfinite(board[1:-1, 1:-1]).all()
    assert int(board.isnan().sum()) == board.numel() - 20 * 16


@every_map
def test_inputs_are_left_alone(case: Case) -> None:
    X = points()
    before = X.clone()
    case.make(case.kernel, X, 32, generator())(X)
    assert torch.equal(X, before)


@every_map
def test_save_and_load(case: Case, tmp_path) -> None:
    X = points(dtype=torch.float32)
    z = case.make(case.kernel, X, 32, generator())
    bochner.save(z, tmp_path / "map.safetensors")
    loaded = bochner.load(tmp_path / "map.safetensors")
    assert type(loaded) is type(z)
    assert repr(loaded) == repr(z)
    assert torch.equal(loaded(X), z(X))


@every_map
def test_moves_like_a_module(case: Case) -> None:
    X = points(dtype=torch.float32)
    z = case.make(case.kernel, X, 32, generator())
    features = z(X)
    assert list(z.state_dict())
    moved = z.to(torch.float64)
    assert moved(X.double()).dtype == torch.float64
    torch.testing.assert_close(moved(X.double()).float(), features, rtol=1e-3, atol=rounding(case, features))


@maps_that(lambda case: case.name != "arc-cosine-0")  # a step function has none
def test_gradients(case: Case) -> None:
    X = points(3)
    z = case.make(case.kernel, points(), 8, generator())
    torch.testing.assert_close(z(X.requires_grad_()).detach(), z(X.detach()), rtol=1e-10, atol=1e-10)
    assert torch.autograd.gradcheck(z, (X,), atol=1e-6)


@maps_that(lambda case: case.unbiased)
def test_unbiased(case: Case) -> None:
    X = points(6)
    K = case.kernel(X)
    samples = torch.stack([case.make(case.kernel, X, 64, generator(seed)).approximate(X, X) for seed in range(300)])
    pairs = torch.triu_indices(6, 6, offset=1)
    mean, deviation = samples.mean(dim=0), samples.std(dim=0) / 300**0.5
    scores = ((mean - K) / deviation)[pairs[0], pairs[1]]
    assert scores.abs().max() < 4.5
    assert scores.square().mean() < 4


# the bias of a chain of one does not fall with D, but with d: test_hadamard_bias_vanishes_with_more_inputs
@maps_that(lambda case: case.name != "hadamard1")
def test_error_falls_as_the_root_of_the_size(case: Case) -> None:
    X = points(300)
    K = case.kernel(X)

    def error(num_features: int) -> float:
        maps = (case.make(case.kernel, X, num_features, generator(seed)) for seed in range(12))
        return float(torch.stack([(z.approximate(X, X) - K).square().mean() for z in maps]).mean().sqrt())

    ratio = error(16 * 16) / error(16)
    assert ratio < 0.4  # 1/4 for independent features, less for the others
    if case.independent:
        assert ratio > 0.15


@maps_that(lambda case: case.independent)
@pytest.mark.parametrize("num_features", [32, 128])
def test_hoeffding_bound(case: Case, num_features: int) -> None:
    """P[|z(x).z(y) - k(x, y)| >= eps] <= 2 exp(-D eps^2 / 8)."""
    X, Y = points(30, seed=1), points(30, seed=2)
    K = case.kernel(X, Y)
    maps = (case.make(case.kernel, X, num_features, generator(seed)) for seed in range(40))
    errors = torch.stack([(z.approximate(X, Y) - K).abs() for z in maps])
    for eps in (0.2, 0.4, 0.6):
        bound = 2 * torch.exp(torch.tensor(-num_features * eps**2 / 8))
        assert (errors >= eps).double().mean() <= bound


@maps_that(lambda case: case.projects)
def test_nystrom_identities(case: Case) -> None:
    X = points(60)
    z = case.make(case.kernel, X, 24, generator())
    L = z.landmarks
    # exact at the landmarks
    torch.testing.assert_close(z.approximate(L, L), case.kernel(L), rtol=1e-6, atol=1e-6)
    # never longer than the point itself
    assert (z(X).square().sum(dim=1) <= case.kernel.diagonal(X) * (1 + 1e-9) + 1e-9).all()
    # the error is the inner product of the orthogonal parts: it is positive semi-definite, and the Schur complement
    residual = case.kernel(X) - z.approximate(X, X)
    schur = case.kernel(X) - case.kernel(X, L) @ torch.linalg.pinv(case.kernel(L)) @ case.kernel(L, X)
    torch.testing.assert_close(residual, schur, rtol=1e-5, atol=1e-6)
    assert torch.linalg.eigvalsh(residual).min() > -1e-8 * float(case.kernel.diagonal(X).max())


@maps_that(lambda case: case.name.startswith("hadamard") and case.kernel.metric is None)
def test_hadamard_bias_vanishes_with_more_inputs(case: Case) -> None:
    def bias(num_inputs: int) -> float:
        X = torch.randn(20, num_inputs, generator=generator(), dtype=torch.float64)
        kernel = bochner.kernels.Gaussian(bandwidth=num_inputs**0.5)
        maps = (case.make(kernel, X, 512, generator(seed)).approximate(X, X) for seed in range(100))
        return float((torch.stack(list(maps)).mean(dim=0) - kernel(X)).square().mean().sqrt())

    assert bias(128) < 0.02
    assert bias(128) < 1.05 * bias(8) + 0.003


def test_paired_features_have_the_exact_norm() -> None:
    X = points()
    for case in CASES:
        z = case.make(case.kernel, X, 32, generator())
        if isinstance(z, FourierMap) and z.form == "paired":
            torch.testing.assert_close(z(X).square().sum(dim=1), case.kernel.diagonal(X))


@pytest.mark.gpu
@every_map
def test_on_the_gpu(case: Case) -> None:
    X = points(dtype=torch.float32)
    z = case.make(case.kernel, X, 32, generator())
    expected = z(X)
    torch.testing.assert_close(z.to("cuda")(X.cuda()).cpu(), expected, rtol=1e-3, atol=rounding(case, expected))
