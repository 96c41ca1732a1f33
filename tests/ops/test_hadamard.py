"""The Hadamard transform against the dense product."""

import numpy as np
import pytest
import torch
from scipy.linalg import hadamard
from torch import Tensor
from torch.autograd import gradcheck

from bochner.ops import hadamard_matrix, hadamard_transform
from bochner.ops.hadamard import _scaled_factor

SIZES = [2**power for power in range(13)]

every_size = pytest.mark.parametrize("size", SIZES)


def rows(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor(np.random.default_rng(0).standard_normal(shape), dtype=dtype)


def dense(X: Tensor) -> np.ndarray:
    d = X.shape[-1]
    return X.double().numpy() @ hadamard(d) / np.sqrt(d)


@pytest.mark.parametrize("size", [size for size in SIZES if size <= 512])
def test_matrix_is_orthogonal_with_entries_of_one(size: int) -> None:
    H = hadamard_matrix(size, dtype=torch.float64)
    assert torch.equal(H.abs(), torch.ones_like(H))
    assert torch.equal(H @ H.T, size * torch.eye(size, dtype=H.dtype))
    assert torch.equal(H, torch.tensor(hadamard(size), dtype=H.dtype))


@every_size
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 1e-5), (torch.bfloat16, 0.1)], ids=str
)
def test_equals_the_dense_product(size: int, dtype: torch.dtype, tolerance: float) -> None:
    X = rows(3, size, dtype=dtype)
    Y = hadamard_transform(X)
    assert Y.dtype == dtype
    np.testing.assert_allclose(Y.double().numpy(), dense(X), rtol=0, atol=tolerance)


@every_size
def test_with_scratch_the_result_is_the_same(size: int) -> None:
    X, scratch = rows(3, size), torch.full((3, size), torch.nan, dtype=torch.float64)
    wanted, places = hadamard_transform(X), {X.data_ptr(), scratch.data_ptr()}
    Y = hadamard_transform(X, scratch=scratch)
    assert torch.equal(Y, wanted)
    assert Y.data_ptr() in places


@pytest.mark.parametrize("size", [2, 64, 128, 4096])
@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 3), (2, 1, 4)], ids=str)
def test_transforms_the_last_of_any_dimensions(shape: tuple[int, ...], size: int) -> None:
    X = rows(*shape, size)
    Y = hadamard_transform(X)
    assert Y.shape == X.shape
    np.testing.assert_allclose(Y, dense(X), rtol=0, atol=1e-13)
    assert torch.equal(hadamard_transform(X.clone(), scratch=torch.empty_like(X)), Y)


def test_takes_a_transposed_array() -> None:
    X = rows(128, 3).T
    np.testing.assert_allclose(hadamard_transform(X), dense(X), rtol=0, atol=1e-13)


def test_leaves_its_input_alone_without_scratch() -> None:
    X = rows(3, 256)
    before = X.clone()
    hadamard_transform(X)
    assert torch.equal(X, before)


@every_size
def test_is_its_own_inverse(size: int) -> None:
    X = rows(3, size)
    torch.testing.assert_close(hadamard_transform(hadamard_transform(X)), X, rtol=0, atol=1e-13)


@every_size
def test_keeps_lengths(size: int) -> None:
    X = rows(3, size)
    torch.testing.assert_close(hadamard_transform(X).norm(dim=1), X.norm(dim=1), rtol=1e-13, atol=0)


@pytest.mark.parametrize("size", [1, 8, 128])
def test_gradients(size: int) -> None:
    assert gradcheck(hadamard_transform, rows(2, size).requires_grad_())


@pytest.mark.parametrize("size", [16, 256])
def test_trains_after_inference_mode(size: int) -> None:
    _scaled_factor.cache_clear()
    with torch.inference_mode():
        hadamard_transform(rows(2, size))
    X = rows(2, size).requires_grad_()
    hadamard_transform(X).square().sum().backward()
    torch.testing.assert_close(X.grad, 2 * X.detach())


@pytest.mark.parametrize("size", [0, 3, 6, 12, 100, 1023])
def test_other_sizes_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"power of two, got {size}"):
        hadamard_transform(torch.zeros(2, size))
    with pytest.raises(ValueError, match=f"size must be a power of two, got {size}"):
        hadamard_matrix(size)
