"""Cosines and sines, by torch and by NumPy, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from bochner.ops import cosines as cosines_module
from bochner.ops.cosines import write_cosines


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("large", [1, 2**40])
@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cosines(dtype: torch.dtype, paired: bool, large: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cosines_module, "SMALL", 1)
    monkeypatch.setattr(cosines_module, "LARGE", large)
    monkeypatch.setattr(cosines_module, "CACHED_ANGLES", 64)  # several parts, the last one short
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    board = torch.full((13, 44), torch.nan, dtype=dtype)
    angles, sines = board[:, 1:22], board[:, 22:43]
    angles.copy_(100 * torch.randn(13, 21, generator=Generator().manual_seed(0), dtype=torch.float64))
    exact = angles.double().numpy().copy()
    write_cosines(angles, 0.5, sines=sines if paired else None)
    accuracy = 2**-24 if dtype == torch.float32 else 2**-52
    np.testing.assert_allclose(angles.double().numpy(), 0.5 * np.cos(exact), rtol=0, atol=accuracy)
    if paired:
        np.testing.assert_allclose(sines.double().numpy(), 0.5 * np.sin(exact), rtol=0, atol=accuracy)
    assert int(board.isnan().sum()) == 13 * (2 if paired else 23)


@pytest.mark.parametrize("largest", [1.0, 1e3, 1e6])
def test_float32_cosines_are_right_to_a_rounding(largest: float) -> None:
    angles = largest * (2 * torch.rand(64, 4096, generator=Generator().manual_seed(0)) - 1)
    sines, exact = torch.empty_like(angles), angles.double()
    write_cosines(angles, 1.0, sines=sines)
    assert (angles - exact.cos()).abs().max() < 2**-23
    assert (sines - exact.sin()).abs().max() < 2**-23


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("large", [1, 2**40])
def test_infinite_angles_give_nan_without_a_warning(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cosines_module, "LARGE", large)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    angles = torch.zeros(4, 4096)
    angles[1, 2] = torch.inf
    write_cosines(angles, 1.0, sines=torch.empty(4, 4096))
    assert angles.isnan().nonzero().tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("threads", "columns", "dtype", "by_numpy"),
    [
        (1, 4096, torch.float32, True),
        (2, 4096, torch.float32, True),
        (3, 4096, torch.float32, False),  # torch's threads together are faster
        (1, 64, torch.float32, False),  # so is a call of torch
        (1, 4096, torch.float64, False),
        (1, 4096, torch.bfloat16, False),
    ],
)
def test_the_faster_cosine_is_used(
    threads: int, columns: int, dtype: torch.dtype, by_numpy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    calls = []
    monkeypatch.setattr(np, "cos", lambda *arguments, out: calls.append(arguments))
    write_cosines(torch.zeros(4, columns, dtype=dtype), 1.0)
    assert len(calls) == by_numpy


class Cosines(torch.nn.Module):
    def forward(self, angles: Tensor) -> Tensor:
        out = angles.clone()
        write_cosines(out, 0.5)
        return out


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("record", [torch.jit.trace, torch.export.export], ids=["trace", "export"])
def test_traced_cosines_are_those_of_torch(record) -> None:
    """NumPy's operations would not be traced."""
    angles = torch.rand(8, 1024, generator=Generator().manual_seed(0))
    recorded = record(Cosines(), (angles,))
    again = recorded if isinstance(recorded, torch.nn.Module) else recorded.module()
    torch.testing.assert_close(again(3 * angles), 0.5 * torch.cos(3 * angles), rtol=0, atol=1e-6)
