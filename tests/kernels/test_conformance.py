"""Conformance of every kernel, compared with its oracle."""

from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

import bochner
from bochner.kernels import ArcCosine, Gaussian, Laplacian, Matern, Stationary
from tests.kernels.cases import CASES, METRIC, NUM_INPUTS, SCALE, Case, every_kernel, every_spectral_kernel, points
from tests.oracles.kernels import matrix
from tests.oracles.memory import peak_elements

X, Y = points(7, seed=0), points(4, seed=1)


def expected(case: Case, left: Tensor, right: Tensor) -> np.ndarray:
    return matrix(case.oracle, left.double().numpy(), right.double().numpy())


def assert_close(actual: Tensor, wanted: np.ndarray | Tensor, *, tolerance: float) -> None:
    """Relative to the largest entry: kernels without a bound have large ones."""
    wanted = np.asarray(wanted)
    np.testing.assert_allclose(actual.double().numpy(), wanted, rtol=0, atol=tolerance * np.abs(wanted).max())


# -- values ----------------------------------------------------------------------------------------------------------


@every_kernel
def test_equals_the_oracle(case: Case) -> None:
    assert_close(case.kernel(X, Y), expected(case, X, Y), tolerance=1e-10)
    assert_close(case.kernel(X), expected(case, X, X), tolerance=1e-10)


@every_kernel
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float16, 2e-3), (torch.bfloat16, 1.6e-2)], ids=str
)
def test_keeps_the_dtype_and_stays_close_to_the_oracle(case: Case, dtype: torch.dtype, tolerance: float) -> None:
    x, y = X.to(dtype), Y.to(dtype)
    for K, wanted in ((case.kernel(x, y), expected(case, x, y)), (case.kernel(x), expected(case, x, x))):
        assert K.dtype == dtype
        assert_close(K, wanted, tolerance=tolerance)


@every_kernel
def test_is_symmetric(case: Case) -> None:
    torch.testing.assert_close(case.kernel(X), case.kernel(X).T, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(case.kernel(X, Y), case.kernel(Y, X).T, rtol=1e-12, atol=1e-12)


@every_kernel
def test_is_positive_semi_definite(case: Case) -> None:
    eigenvalues = torch.linalg.eigvalsh(case.kernel(points(40, seed=2)))
    assert eigenvalues.min() >= -1e-12 * eigenvalues.max()


@every_kernel
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_diagonal_is_exactly_that_of_the_matrix(case: Case, dtype: torch.dtype) -> None:
    x = X.to(dtype)
    diagonal = case.kernel.diagonal(x)
    assert diagonal.dtype == dtype
    assert torch.equal(diagonal, case.kernel(x).diagonal())


@every_kernel
def test_diagonal_equals_the_oracle(case: Case) -> None:
    assert_close(case.kernel.diagonal(X), np.diag(expected(case, X, X)), tolerance=1e-12)


@every_spectral_kernel
def test_stays_accurate_far_from_the_origin(case: Case) -> None:
    x, y = (X + 1000).float(), (Y + 1000).float()
    np.testing.assert_allclose(case.kernel(x, y), expected(case, x, y), rtol=0, atol=1e-3)


@every_spectral_kernel
def test_near_points_keep_their_digits_in_float32(case: Case) -> None:
    x = points(30, seed=3)
    steps = points(30, seed=4) * torch.logspace(-6, -1, 30, dtype=x.dtype)[:, None]
    x, y = torch.cat([x, x]).float(), torch.cat([x, x + steps]).float()
    np.testing.assert_allclose(case.kernel(x, y), expected(case, x, y), rtol=0, atol=2e-5 * case.kernel.amplitude)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_zero_vector_has_arc_cosine_zero(order: int, depth: int) -> None:
    x = torch.cat([torch.zeros(1, NUM_INPUTS, dtype=X.dtype), X])
    K = ArcCosine(order=order, depth=depth)(x)
    assert torch.equal(K[0], torch.zeros_like(K[0]))
    torch.testing.assert_close(K[1:, 1:], ArcCosine(order=order, depth=depth)(X))


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("length", [1e-12, 1e-6, 1e6, 1e12])
def test_arc_cosine_of_short_and_long_vectors(order: int, length: float) -> None:
    k, x = ArcCosine(order=order), X.float()
    torch.testing.assert_close(k(length * x) / length ** (2 * order), k(x), rtol=1e-5, atol=1e-5)


# -- in parts --------------------------------------------------------------------------------------------------------


@every_kernel
def test_blocks_make_the_whole(case: Case) -> None:
    tiles, blocks = zip(*case.kernel.blocks(X, Y, rows=3), strict=True)
    assert tiles == (slice(0, 3), slice(3, 6), slice(6, 7))
    torch.testing.assert_close(torch.cat(blocks), case.kernel(X, Y), rtol=1e-12, atol=1e-12)


@every_kernel
def test_tiles_make_the_whole(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, square, V = case.kernel(X, Y), case.kernel(X), points(4, seed=3)[:, :2]
    monkeypatch.setattr("bochner.kernels.kernel.TILE_ELEMENTS", 3 * case.kernel._temporaries() * len(Y))
    torch.testing.assert_close(case.kernel(X, Y), whole, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(case.kernel(X), square, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(case.kernel.matmul(X, Y, V), whole @ V, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(case.kernel(X.clone().requires_grad_(), Y).detach(), whole, rtol=1e-12, atol=1e-12)


@every_kernel
def test_holds_no_more_temporaries_than_promised(case: Case) -> None:
    U = case.kernel.prepare(points(200))
    held = peak_elements(lambda: case.kernel._evaluate(U, U), dtype=U.dtype) / 200**2
    assert held <= case.kernel._temporaries() + 0.2  # vectors and masks


@every_kernel
def test_memory_stays_within_a_tile(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, tile = points(500, seed=0), points(40, seed=1), 4000
    monkeypatch.setattr("bochner.kernels.kernel.TILE_ELEMENTS", tile)
    held = peak_elements(lambda: case.kernel(x, y), dtype=x.dtype)
    assert held <= len(x) * len(y) + x.numel() + 1.5 * tile
    held = peak_elements(lambda: case.kernel.matmul(x, y, y[:, :1]), dtype=x.dtype)
    assert held <= 2 * len(x) + 3.5 * tile  # parts and result; two blocks of a tile, the temporaries of one


@every_kernel
@pytest.mark.parametrize(("n", "m"), [(0, 4), (3, 0), (0, 0)])
def test_takes_no_points(case: Case, n: int, m: int) -> None:
    x, y = X[:n].clone().requires_grad_(), Y[:m]
    assert case.kernel(x, y).shape == (n, m)
    assert case.kernel(x).shape == (n, n)
    assert case.kernel.matmul(x, y, y).shape == (n, NUM_INPUTS)


# -- gradients -------------------------------------------------------------------------------------------------------


@every_kernel
def test_gradients_of_distinct_points(case: Case) -> None:
    assert gradcheck(case.kernel, (X[:3].clone().requires_grad_(), Y[:2].clone().requires_grad_()))


@pytest.mark.parametrize("case", [case for case in CASES if not case.kink], ids=lambda case: case.name)
def test_gradients_where_points_coincide(case: Case) -> None:
    assert gradcheck(case.kernel, (X[:3].clone().requires_grad_(), X[:2].clone().requires_grad_()))


@pytest.mark.parametrize("order", [0, 1, 2])
def test_gradients_are_finite_at_a_zero_vector(order: int) -> None:
    x = torch.cat([torch.zeros(1, NUM_INPUTS, dtype=X.dtype), X]).requires_grad_()
    (gradient,) = torch.autograd.grad(ArcCosine(order=order, depth=2)(x).sum(), x)
    assert gradient.isfinite().all()


@every_kernel
def test_gradients_of_a_matrix_with_itself(case: Case) -> None:
    assert gradcheck(case.kernel, X[:3].clone().requires_grad_())


# -- as a module -----------------------------------------------------------------------------------------------------


@every_kernel
def test_is_restored_from_a_file_bit_for_bit(case: Case, tmp_path: Path) -> None:
    bochner.save(case.kernel, tmp_path / "kernel.safetensors")
    loaded = bochner.load(tmp_path / "kernel.safetensors")
    assert repr(loaded) == repr(case.kernel)
    assert torch.equal(loaded(X, Y), case.kernel(X, Y))


@every_kernel
def test_moves_between_dtypes(case: Case) -> None:
    single = deepcopy(case.kernel).to(torch.float32)
    assert all(buffer.dtype == torch.float32 for buffer in single.buffers())
    assert_close(single(X, Y), expected(case, X, Y), tolerance=1e-5)
    double = deepcopy(case.kernel).to(torch.float64)
    assert torch.equal(double(X, Y), case.kernel(X, Y))


@pytest.mark.parametrize("change", [{"scale": SCALE.float()}, {"metric": METRIC.float()}], ids=["scale", "metric"])
def test_a_change_of_dtype_survives_a_file(change: dict[str, Tensor], tmp_path: Path) -> None:
    kernel = Gaussian(**change).to(torch.float64)
    bochner.save(kernel, tmp_path / "kernel.safetensors")
    assert torch.equal(bochner.load(tmp_path / "kernel.safetensors")(X, Y), kernel(X, Y))


@pytest.mark.parametrize(
    "kernel", [Gaussian(), Matern(smoothness=1.5), Matern(smoothness=2.5), Laplacian(), Matern(smoothness=0.5)], ids=str
)
def test_the_error_of_a_squared_distance_is_relative_to_the_bandwidth(kernel: Stationary) -> None:
    """It is 0 for kernels with a kink, which need accurate distances."""
    narrow, wide = (kernel.replace(bandwidth=bandwidth).radial for bandwidth in (0.5, 3.0))
    assert wide.error == pytest.approx(36 * narrow.error)
    has_kink = isinstance(kernel, Laplacian) or getattr(kernel, "smoothness", 2.5) == 0.5
    assert (wide.error == 0) == has_kink
