"""The operations of a step: plain torch against NumPy by hand in float64, the fused kernels against plain torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bochner.ops import step
from bochner.ops.step import fused_kernels
from tests.ops.step_cases import DEVICE, TOLERANCE, Draw, error, exact

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.fixture
def fused():
    pytest.importorskip("triton", reason="Triton is not installed: the fused kernels are not tested")
    from bochner.ops import fused

    return fused


def test_reference_features_and_scores_are_the_formulas() -> None:
    draw = Draw(0)
    X, W, b, theta = (draw.normal(*s, dtype=torch.float64) for s in [(9, 4), (4, 31), (31,), (3, 62)])
    angles = X.cpu().numpy() @ W.cpu().numpy()
    cosine, paired = 0.5 * np.cos(angles + b.cpu().numpy()), 0.5 * np.hstack([np.cos(angles), np.sin(angles)])
    for phases, Z in ((b, cosine), (None, paired)):
        weights = theta[:, : Z.shape[1]]
        np.testing.assert_allclose(step.cosine_features(X, W, phases, amplitude=0.5).cpu(), Z, atol=1e-13)
        scores = step.scores_by_tiles(X, W, phases, weights, amplitude=0.5, tile_elements=64)  # the last tile is short
        torch.testing.assert_close(scores, step.cosine_scores(X, W, phases, weights, amplitude=0.5))
        np.testing.assert_allclose(scores.cpu(), Z @ weights.cpu().numpy().T, atol=1e-12)


def test_reference_sparse_features_are_the_dense_ones() -> None:
    draw = Draw(1)
    X, b = draw.normal(9, 12, dtype=torch.float64), draw.normal(31, dtype=torch.float64)
    places = torch.stack([torch.randperm(12, generator=draw.generator)[:3] for _ in range(31)]).to(DEVICE)
    values = draw.normal(31, 3, dtype=torch.float64)
    W = torch.zeros(31, 12, dtype=torch.float64, device=DEVICE).scatter_(1, places, values).T
    for phases in (b, None):
        result = step.sparse_cosine_features(X, places, values, phases, amplitude=0.5)
        torch.testing.assert_close(result, step.cosine_features(X, W, phases, amplitude=0.5), rtol=0, atol=1e-13)


def test_reference_softmax_is_the_formula() -> None:
    draw = Draw(2)
    scores, y = 5 * draw.normal(20, 6, dtype=torch.float64), draw.below(6, 20)
    rows = step.softmax_rows(scores, y)
    p = np.exp(scores.cpu().numpy())
    p /= p.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(rows.residual.cpu(), p - np.eye(6)[y.cpu()], atol=1e-14)
    np.testing.assert_allclose(rows.log_p.cpu(), np.log(p[np.arange(20), y.cpu()]), atol=1e-13)
    np.testing.assert_allclose(rows.entropy.cpu(), -(p * np.log(p)).sum(axis=1), atol=1e-13)
    np.testing.assert_array_equal(rows.wrong.cpu(), p.argmax(axis=1) != y.cpu().numpy())


@pytest.mark.parametrize("num_inputs", [72, 73])  # with and without bulk copies
@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_fused_features(fused, dtype: torch.dtype, paired: bool, num_inputs: int) -> None:
    draw = Draw(3)
    X, W = draw.normal(70, num_inputs, dtype=dtype), draw.normal(num_inputs, 136, dtype=dtype)
    phases = None if paired else 9 * draw.normal(136, dtype=dtype)
    result = fused.cosine_features(X, W, phases, amplitude=0.1)
    assert result.dtype == dtype
    assert error(result, step.cosine_features(*exact(X, W, phases), amplitude=0.1)) < TOLERANCE[dtype]


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_fused_sparse_features(fused, dtype: torch.dtype, paired: bool) -> None:
    draw = Draw(4)
    X, values, places = draw.normal(35, 50, dtype=dtype), draw.normal(130, 5, dtype=dtype), draw.below(50, 130, 5)
    phases = None if paired else draw.normal(130, dtype=dtype)
    result = fused.sparse_cosine_features(X, places, values, phases, amplitude=0.1)
    expected = step.sparse_cosine_features(*exact(X), places, *exact(values, phases), amplitude=0.1)
    assert result.dtype == dtype
    assert error(result, expected) < TOLERANCE[dtype]


@pytest.mark.parametrize("num_classes", [3, 40, 300])
@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_fused_scores(
    fused, dtype: torch.dtype, paired: bool, num_classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = Draw(5)
    X, W = draw.normal(70, 72, dtype=dtype), draw.normal(72, 200, dtype=dtype)
    phases = None if paired else draw.normal(200, dtype=dtype)
    weights = draw.normal(num_classes, 400 if paired else 200)
    expected = step.cosine_scores(*exact(X, W, phases, weights), amplitude=0.1)
    monkeypatch.setattr(step, "cosine_features", fused.cosine_features)
    result = step.scores_by_tiles(X, W, phases, weights, amplitude=0.1, tile_elements=2**20)
    assert result.dtype == torch.float32
    assert error(result, expected) < TOLERANCE[dtype]


@pytest.mark.parametrize("width", [264, 261])  # with and without bulk copies
@pytest.mark.parametrize("num_outputs", [5, 520])
@pytest.mark.parametrize("dtype", DTYPES)
def test_fused_update(fused, dtype: torch.dtype, num_outputs: int, width: int) -> None:
    draw = Draw(6)
    weights, Z, G = draw.normal(num_outputs, width), draw.normal(70, width, dtype=dtype), draw.normal(70, num_outputs)
    expected = weights.double()
    step.update_head(expected, *exact(G.to(dtype), Z), rate=0.3)
    copy = torch.full((num_outputs + 3, width), 9.0, dtype=dtype, device=DEVICE)
    fused.update_head(weights, G, Z, rate=0.3, copy=copy)
    assert error(weights, expected) < TOLERANCE[torch.float32]
    assert error(copy[:num_outputs], expected) < TOLERANCE[dtype]
    assert bool((copy[num_outputs:] == 9).all())
    fused.update_head(weights, G, Z, rate=-0.3)
    assert error(copy[:num_outputs], expected) < TOLERANCE[dtype]  # untouched when not given


@pytest.mark.parametrize("num_classes", [2, 147, 1100])
def test_fused_softmax(fused, num_classes: int) -> None:
    draw = Draw(7)
    scores, y = 5 * draw.normal(30, num_classes + 4)[:, :num_classes], draw.below(num_classes, 30)  # rows with a gap
    bias, weight, out = draw.normal(num_classes), draw.normal(30).abs(), draw.normal(30, num_classes + 1)[:, 1:]
    for settings in ({}, {"bias": bias}, {"bias": bias, "weight": weight, "scale": 0.1, "out": out}):
        rows = fused.softmax_rows(scores, y, **settings)
        in_double = {name: value for name, value in settings.items() if name != "out"}
        for result, expected in zip(rows, step.softmax_rows(*exact(scores), y, **in_double), strict=True):
            assert error(result, expected) < TOLERANCE[torch.float32]
    assert rows.residual is out


@pytest.mark.parametrize("weighted", [False, True])
def test_the_residual_alone(fused, weighted: bool) -> None:
    draw = Draw(9)
    scores, y, bias = draw.normal(30, 147), draw.below(147, 30), draw.normal(147)
    settings = {"bias": bias, "scale": 0.1, "weight": draw.normal(30).abs() if weighted else None}
    expected = step.softmax_rows(*exact(scores), y, **settings).residual
    for write in (step.softmax_residual, fused.softmax_residual):
        for dtype in (torch.float32, torch.bfloat16):
            out = draw.normal(30, 160, dtype=dtype)[:, :147]
            write(scores, y, **settings, out=out)
            assert error(out, expected) < TOLERANCE[dtype]


def test_reference_softmax_with_bias_scale_and_weight() -> None:
    draw = Draw(8)
    scores, y, bias = draw.normal(9, 4, dtype=torch.float64), draw.below(4, 9), draw.normal(4, dtype=torch.float64)
    weight, out = draw.normal(9, dtype=torch.float64), torch.empty(9, 4, dtype=torch.float64, device=DEVICE)
    result, plain = (
        step.softmax_rows(scores, y, bias=bias, scale=0.1, weight=weight, out=out),
        step.softmax_rows(scores + bias, y),
    )
    torch.testing.assert_close(out, 0.1 * weight[:, None] * plain.residual)
    for name in ("log_p", "entropy", "wrong"):
        torch.testing.assert_close(getattr(result, name), getattr(plain, name))


def test_products_of_short_numbers_are_summed_in_float32() -> None:
    ones = torch.ones(2, 3000, dtype=torch.bfloat16, device=DEVICE)  # bfloat16 sums of ones stop at 256
    assert step.long_product(ones, ones[:1]).tolist() == [[3000.0], [3000.0]]


def test_the_choice_is_plain_torch_on_a_cpu_and_in_float64() -> None:
    assert fused_kernels(torch.ones(1, dtype=torch.bfloat16)) is None
    assert fused_kernels(torch.ones(1, dtype=torch.float64, device=DEVICE), multiplies=False) is None


@pytest.mark.gpu
def test_the_choice_on_a_gpu(fused) -> None:
    ones = torch.ones(1, device="cuda")
    assert fused_kernels(ones.bfloat16()) is fused
    assert fused_kernels(ones) is None  # its products must not be rounded to TF32
    assert fused_kernels(ones, multiplies=False) is fused
