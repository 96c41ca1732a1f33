"""k(X, Y) V without k(X, Y): tiles in torch, and the fused kernel; both against the formulas in float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from bochner.kernels import Gaussian, Kernel, Matern, PowerExponential, kernel
from tests.kernels.cases import CASES, NUM_INPUTS, Case
from tests.ops.step_cases import DEVICE, Draw
from tests.oracles.kernels import matrix
from tests.processes import run_code

RADIAL = [case for case in CASES if case.kernel.radial is not None]
Method = Callable[[Kernel, Tensor, Tensor, Tensor], Tensor]


def by_tiles(kernel: Kernel, X: Tensor, Y: Tensor, V: Tensor) -> Tensor:
    return kernel.cpu().matmul(X.cpu(), Y.cpu(), V.cpu()).to(X)


def by_fused(kernel: Kernel, X: Tensor, Y: Tensor, V: Tensor) -> Tensor:
    pytest.importorskip("triton", reason="Triton is not installed: the fused product is not tested")
    from bochner.ops import fused

    assert kernel.radial is not None
    return fused.radial_product(kernel.prepare(X), kernel.prepare(Y), V, kernel.radial)


def by_blocks(kernel: Kernel, X: Tensor, Y: Tensor, V: Tensor) -> Tensor:
    pytest.importorskip("triton", reason="Triton is not installed: fused blocks are not tested")
    from bochner.ops import fused

    assert kernel.radial is not None
    return fused.blocked_product(kernel.prepare(X), kernel.prepare(Y), V, kernel.radial)


METHODS: list[Method] = [by_tiles, by_fused, by_blocks]
methods = pytest.mark.parametrize("method", METHODS)


def methods_of(kernel: Kernel) -> list[Method]:
    """Blocks are computed for kernels of the Euclidean distance only."""
    assert kernel.radial is not None
    return METHODS if kernel.radial.norm == 2 else METHODS[:2]


def error(result: Tensor, K: Tensor, V: Tensor) -> float:
    """The largest error of a float32 result, relative to sum_j |v_j|, in each output: k(x, x) is 1."""
    assert result.dtype == torch.float32
    expected = K.double() @ V.double()
    assert result.shape == expected.shape
    return float(((result.double() - expected).abs() / V.double().abs().sum(dim=0)).max())


@pytest.mark.parametrize(
    ("case", "method"),
    [
        pytest.param(case, method, id=f"{case.name}-{method.__name__}")
        for case in RADIAL
        for method in methods_of(case.kernel)
    ],
)
def test_products_are_those_of_the_formula(case: Case, method: Method) -> None:
    draw = Draw(0)
    X, Y, V = draw.normal(37, NUM_INPUTS), draw.normal(70, NUM_INPUTS), draw.normal(70, 3)
    X[:20] = Y[:20]  # equal rows, where a kink shows errors of the distance
    K = torch.tensor(matrix(case.oracle, X.double().cpu().numpy(), Y.double().cpu().numpy())).to(DEVICE)
    assert error(method(case.kernel, X, Y, V), K, V) < 2e-6
    W = draw.normal(37, 2)
    assert error(method(case.kernel, Y, X, W), K.T, W) < 2e-6


WIDE = [
    Gaussian(bandwidth=6.0),
    Matern(smoothness=0.5, bandwidth=9.0),
    Matern(smoothness=2.5, bandwidth=9.0),
    PowerExponential(exponent=1.2, norm=1.5, bandwidth=30.0),
]


@pytest.mark.parametrize(
    ("kernel", "method"),
    [pytest.param(k, method, id=f"{k}-{method.__name__}") for k in WIDE for method in methods_of(k)],
)
@pytest.mark.parametrize("offset", [0.0, 300.0])
def test_products_of_many_inputs_and_outputs(kernel: Kernel, method: Method, offset: float) -> None:
    draw = Draw(1)
    X, Y, V = draw.normal(65, 40), draw.normal(70, 40), draw.normal(70, 67)
    X[5], X[6] = Y[7], Y[8] + 1e-3
    X, Y = X + offset, Y + offset
    # about twenty roundings of each distance to 2^-20 of its square, relative to sum |v| as the values of k are
    assert error(method(kernel, X, Y, V), kernel(X.double(), Y.double()), V) < 2e-5


@methods
@pytest.mark.parametrize("kernel", [Gaussian(), Matern(smoothness=0.5), Matern(smoothness=1.5)], ids=str)
def test_clusters_far_apart(kernel: Kernel, method: Method) -> None:
    draw = Draw(2)
    centers = 1000 * draw.normal(4, 20)
    X, Y = (draw.normal(40, 20) / 4 + centers[draw.below(4, 40)] for _ in range(2))
    V = draw.normal(40, 2)
    assert error(method(kernel, X, Y, V), kernel(X.double(), Y.double()), V) < 2e-4


@methods
def test_sums_over_many_columns_are_divided(monkeypatch, method: Method) -> None:
    if method is by_fused:
        pytest.importorskip("triton", reason="Triton is not installed: the fused product is not tested")
        from bochner.ops.fused import products

        monkeypatch.setattr(products, "MAX_COLUMNS", 64)
    if method is by_blocks:
        pytest.importorskip("triton", reason="Triton is not installed: fused blocks are not tested")
        from bochner.ops.fused import blocks

        monkeypatch.setattr(blocks, "BLOCK_ROWS", 16)
        monkeypatch.setattr(blocks, "BLOCK_COLUMNS", 64)
    monkeypatch.setattr(kernel, "TILE_COLUMNS", 64)
    monkeypatch.setattr(kernel, "TILE_ELEMENTS", 1280)
    draw = Draw(3)
    X, Y, V = draw.normal(37, 5), draw.normal(300, 5), draw.normal(300, 1)
    k = Gaussian(bandwidth=2.0)
    assert error(method(k, X, Y, V), k(X.double(), Y.double()), V) < 2e-6


@methods
@pytest.mark.parametrize(("n", "m", "c"), [(0, 5, 2), (5, 0, 2), (5, 5, 0), (1, 1, 1)])
def test_few_rows(n: int, m: int, c: int, method: Method) -> None:
    draw = Draw(4)
    X, Y, V = draw.normal(n, 3), draw.normal(m, 3), draw.normal(m, c)
    expected = Gaussian()(X, Y) @ V if n and m else torch.zeros(n, c, device=DEVICE)
    torch.testing.assert_close(method(Gaussian(), X, Y, V), expected)


@pytest.mark.parametrize("spread", [1.0, 1e4])  # of the sizes of the rows; float16 ends beyond that
def test_three_products_of_split_numbers_have_float32_accuracy(spread: float) -> None:
    """What matrix units compute: float16 factors, whose products float32 holds without an error."""
    pytest.importorskip("triton", reason="Triton is not installed: the fused product is not tested")
    from bochner.ops.fused import products

    draw = Draw(5)
    A, B = draw.normal(50, 200), draw.normal(60, 200)
    A, B = (X * torch.logspace(0, -math.log10(spread), len(X)).to(X)[:, None] for X in (A, B))
    (a, a_low), (b, b_low) = (
        [part.double() / products._scale(X).double() for part in products._split(X * products._scale(X), 16)]
        for X in (A, B)
    )
    lengths = A.double().norm(dim=1)[:, None] * B.double().norm(dim=1)
    exact = A.double() @ B.double().T
    assert float(((a @ b.T - exact) / lengths).abs().max()) > 1e-5
    assert float(((a @ b.T + a_low @ b.T + a @ b_low.T - exact) / lengths).abs().max()) < products.SPLIT_ERROR


COMPILE = """
import os, sys
assert "triton" not in sys.modules
os.environ |= {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": sys.argv[1]}
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from bochner.ops.fused import products

kinds = dict.fromkeys(["X", "x_squares", "x_largest", "Y", "y_squares", "y_largest", "out", "scale"], "*fp32")
kinds |= dict.fromkeys(["X_high", "X_low", "Y_high", "Y_low", "V_high", "V_low"], "*fp16")
kinds |= dict.fromkeys(["n", "m", "part_columns"], "i32")
kinds |= dict.fromkeys(["factor", "error", "split_error", "near"], "fp32")
for capability, inputs, tiles, limit in (
    (90, 50, products.TILES, 227), (90, 128, products.WIDE_TILES, 227), (80, 50, products.SMALL_TILES, 99)
):
    constants = {"INPUTS": inputs, "WIDTH": -(-inputs // tiles.depth) * tiles.depth}
    constants |= {"NORM": 2.0, "POWER": 0.5, "DEGREE": 2, "OUTPUTS": products.MAX_OUTPUTS}
    constants |= {"ROWS": tiles.rows, "COLUMNS": tiles.columns, "DEPTH": tiles.depth}
    constants |= {"STAGES": tiles.stages, "AT_ONCE": 1 + inputs // 100}
    signature = {**kinds, **dict.fromkeys(constants, "constexpr")}
    source = ASTSource(products._radial_product, signature=signature, constexprs=constants)
    options = {"num_warps": tiles.warps}
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    assert len(compiled.asm["cubin"]) > 0
    assert compiled.metadata.shared <= limit * 1024, (capability, compiled.metadata.shared)

from bochner.ops.fused import blocks

for capability, tiles, limit in ((90, blocks.TILES, 227), (80, blocks.SMALL_TILES, 99)):
    constants = {"POWER": 0.5, "DEGREE": 2, "COLUMNS": tiles.columns}
    own = {"WIDTH": 1280, "ROWS": tiles.rows, "DEPTH": tiles.depth, "STAGES": tiles.stages}
    correction = {"INPUTS": 1279, "ROWS": blocks.CORRECTION.rows, "DEPTH": blocks.CORRECTION.depth}
    for kernel, kinds, own, warps in (
        (blocks._radial_block, "*fp16 *fp16 *fp32 *fp32 *fp16 *fp16 *fp32 *fp32 *fp32 *i8 i32 i32 fp32 fp32 fp32 fp32",
         own, tiles.warps),
        (blocks._correct_near, "*fp32 *fp32 *fp32 *i8 i32 i32 fp32", correction, blocks.CORRECTION.warps),
    ):
        own = {**constants, **own}
        names = [name for name in kernel.arg_names if name not in own]
        signature = {**dict(zip(names, kinds.split(), strict=True)), **dict.fromkeys(own, "constexpr")}
        # pointers and sizes that are multiples of 16, as where tiles are loaded ahead
        aligned = {(number,): [["tt.divisibility", 16]] for number, kind in enumerate(kinds.split()) if kind != "fp32"}
        source = ASTSource(kernel, signature=signature, constexprs=own, attrs=aligned)
        target = GPUTarget("cuda", capability, 32)
        compiled = triton.compile(source, target=target, options={"num_warps": warps})
        assert len(compiled.asm["cubin"]) > 0
        assert compiled.metadata.shared <= limit * 1024, (capability, compiled.metadata.shared)
"""


def test_fused_products_compile_for_gpus_and_fit_their_shared_memory(tmp_path) -> None:
    pytest.importorskip("triton", reason="Triton is not installed: the fused product is not compiled")
    done = run_code(COMPILE, tmp_path)
    assert done.returncode == 0, done.stderr
