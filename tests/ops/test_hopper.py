"""Which matrices bulk copies can read."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed: fused kernels are not tested")

from bochner.ops.fused.hopper import fits


@pytest.mark.parametrize(("dtype", "width"), [(torch.bfloat16, 8), (torch.float32, 4), (torch.float32, 12)])
def test_rows_of_16_bytes_fit(dtype: torch.dtype, width: int) -> None:
    matrix = torch.zeros(6, width, dtype=dtype)
    assert fits(matrix)
    assert fits(matrix, matrix[1:])
    assert not fits(matrix, torch.zeros(6, width + 1, dtype=dtype))
    assert not fits(matrix[:, : width // 2].T.contiguous().T)  # its columns are contiguous, not its rows
    assert not fits(torch.zeros(6 * width + 1, dtype=dtype)[1:].view(6, width))  # starts between two multiples of 16
