"""Cosines and sines, by torch and by threads, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Generator

from bochner.ops import waves
from bochner.ops.waves import write_waves


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("large", [1, 2**40])
@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_waves(dtype: torch.dtype, paired: bool, large: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waves, "LARGE", large)
    monkeypatch.setattr(waves, "CACHED", 64)  # several parts, the last one short
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    board = torch.full((13, 44), torch.nan, dtype=dtype)
    angles, sines = board[:, 1:22], board[:, 22:43]
    angles.copy_(100 * torch.randn(13, 21, generator=Generator().manual_seed(0), dtype=torch.float64))
    exact = angles.double().numpy().copy()
    write_waves(angles, 0.5, sines=sines if paired else None)
    np.testing.assert_allclose(angles.double().numpy(), 0.5 * np.cos(exact), atol=1e-6)
    if paired:
        np.testing.assert_allclose(sines.double().numpy(), 0.5 * np.sin(exact), atol=1e-6)
    assert int(board.isnan().sum()) == 13 * (2 if paired else 23)
