"""Steps and scores computed a few columns at a time, compared with plain formulas in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from bochner.ops import cosine_scores, step
from bochner.ops.descent import FeatureColumns
from tests.ops.step_cases import Draw

ROWS, INPUTS, FREQUENCIES, OUTPUTS = 12, 5, 31, 3


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of eight columns and of five rows, the last ones short."""
    monkeypatch.setattr(step, "CACHED_FEATURES", 8 * ROWS)
    monkeypatch.setattr(step, "CACHED_ROWS", 5)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)


def problem(num_rows: int, *, paired: bool) -> tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor]:
    """X, W, phases, weights, and the features 0.5 cos(X W + b) or 0.5 [cos(X W), sin(X W)] by NumPy."""
    draw = Draw(0)
    shapes = [(num_rows, INPUTS), (INPUTS, FREQUENCIES), (FREQUENCIES,), (OUTPUTS, 2 * FREQUENCIES)]
    X, W, b, weights = (draw.normal(*shape, dtype=torch.float64).cpu() for shape in shapes)
    angles = X.numpy() @ W.numpy()
    features = np.hstack([np.cos(angles), np.sin(angles)]) if paired else np.cos(angles + b.numpy())
    Z = torch.from_numpy(0.5 * features)
    return X, W, None if paired else b, weights[:, : Z.shape[1]].contiguous(), Z


def tanh_of(expected: Tensor) -> Callable[[Tensor, slice, Tensor], None]:
    """A gradient function that checks its arguments."""

    def gradient(outputs: Tensor, rows: slice, out: Tensor) -> None:
        assert rows == slice(0, len(expected))
        torch.testing.assert_close(outputs, expected, rtol=0, atol=1e-12)
        torch.tanh(outputs, out=out)

    return gradient


@pytest.mark.parametrize("num_rows", [ROWS, 7])  # a whole batch, and the short one at the end
@pytest.mark.parametrize("paired", [False, True])
def test_a_step(paired: bool, num_rows: int) -> None:
    X, W, phases, weights, Z = problem(num_rows, paired=paired)
    outputs = Z @ weights.T
    expected = weights - 0.3 * torch.tanh(outputs).T @ Z
    columns = FeatureColumns(W, phases, amplitude=0.5, num_rows=ROWS)
    columns.step(weights, X, tanh_of(outputs), rate=0.3)
    torch.testing.assert_close(weights, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("paired", [False, True])
def test_scores(paired: bool) -> None:
    X, W, phases, weights, Z = problem(ROWS, paired=paired)
    found = cosine_scores(X, W, phases, weights, amplitude=0.5)
    torch.testing.assert_close(found, Z @ weights.T, rtol=0, atol=1e-12)
    assert found.is_contiguous()
