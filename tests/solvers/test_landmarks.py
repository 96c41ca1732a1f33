"""Least squares on landmarks against the dense solution."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import bochner
from bochner.kernels import Gaussian, Laplacian
from bochner.models import LandmarkModel
from bochner.ops.linalg import conjugate_gradients, refined_conjugate_gradients
from bochner.solvers import fit_landmark_logistic, fit_landmark_ridge
from bochner.solvers.landmarks import Triangle, Whitening
from tests.oracles.memory import PeakMemory
from tests.solvers.problems import classes, dense_landmark_ridge, numbers, points, weights
from tests.solvers.rows import Rows

pytestmark = pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
EXACT = {"tolerance": 1e-12, "max_iterations": 200}


@pytest.mark.parametrize(
    "kernel", [Gaussian(bandwidth=1.0), Gaussian(bandwidth=5.0), Laplacian(bandwidth=2.0)], ids=str
)
@pytest.mark.parametrize("alpha", [1e-1, 1e-4, 1e-8])
def test_equals_the_dense_solution(kernel, alpha: float) -> None:
    X = points()
    Y = numbers(X)
    model = fit_landmark_ridge(kernel, X[:30], Rows(X, Y, shard_rows=50), alpha=alpha, **EXACT)
    right = dense_landmark_ridge(kernel, X[:30], X, Y, torch.ones(len(X)), alpha)
    torch.testing.assert_close(model.decision(X), right, rtol=0, atol=1e-6)


@pytest.mark.parametrize("bandwidth", [0.5, 2.0, 10.0])
@pytest.mark.parametrize("alpha", [1e-2, 1e-5, 1e-9])
def test_float32_resolves_small_ridges_too(bandwidth: float, alpha: float) -> None:
    X, kernel = points(400, dtype=torch.float32), Gaussian(bandwidth=bandwidth)
    model = fit_landmark_ridge(kernel, X[:50], Rows(X, numbers(X)), alpha=alpha, tolerance=1e-5, max_iterations=500)
    right = dense_landmark_ridge(kernel, X[:50], X, numbers(X).double(), torch.ones(len(X)), alpha)
    assert model.decision(X).dtype == torch.float32
    assert float((model.decision(X) - right).square().mean().sqrt()) < 2e-3


@pytest.mark.parametrize(
    ("free", "expected"),
    [(2**30, {(120, 30), (30, 120)}), (1000, {(50, 30), (30, 50), (20, 30), (30, 20)})],  # all rows, or their shards
)
def test_fused_products_in_place_of_blocks(monkeypatch, free: int, expected: set[tuple[int, int]]) -> None:
    X, kernel, w = points(), Gaussian(), weights(120)
    Y, shapes = numbers(X), []

    class Products:
        @staticmethod
        def radial_product(U: Tensor, L: Tensor, V: Tensor, radial) -> Tensor:
            shapes.append((len(U), len(L)))
            assert radial == kernel.radial
            return (-(U[:, None] - L).square().sum(dim=2) / 2).exp() @ V

    monkeypatch.setattr(Gaussian, "fused_products", lambda self, like: Products)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 2 * free))
    source = Rows(X, Y, w, shard_rows=50)
    model = fit_landmark_ridge(kernel, X[:30], source, alpha=1e-4, memory_budget=50 * 30 * 8, **EXACT)
    assert set(shapes) == expected
    right = dense_landmark_ridge(kernel, X[:30], X, Y, w, 1e-4)
    torch.testing.assert_close(model.decision(X), right, rtol=0, atol=1e-7)


@pytest.mark.parametrize("bandwidth", [1.0, 10.0])
def test_fused_products_are_refined_where_float32_does_not_resolve_the_solution(monkeypatch, bandwidth: float) -> None:
    X, kernel = points(400, dtype=torch.float32), Gaussian(bandwidth=bandwidth)
    used: list[torch.dtype] = []

    class Products:
        @staticmethod
        def radial_product(U: Tensor, L: Tensor, V: Tensor, radial) -> Tensor:
            used.append(U.dtype)
            return (-(U[:, None] - L).square().sum(dim=2) / 2 / bandwidth**2).exp() @ V

    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2**30, 2**30))
    monkeypatch.setattr(
        Gaussian, "fused_products", lambda self, like: None if like.dtype == torch.float64 else Products
    )
    # With bandwidth 10, rounding errors in float64 leave about 1e-5 of the residual.
    options = {"tolerance": 1e-4, "max_iterations": 3000, "memory_budget": 0}
    model = fit_landmark_ridge(kernel, X[:50], Rows(X, numbers(X)), alpha=1e-9, **options)
    assert set(used) == {torch.float32}
    right = dense_landmark_ridge(kernel, X[:50], X, numbers(X).double(), torch.ones(len(X)), 1e-9)
    assert float((model.decision(X.double()) - right).square().mean().sqrt()) < 2e-3


def test_weights_as_dense_and_as_repeated_rows() -> None:
    X, kernel, w = points(), Gaussian(), weights(120)
    Y = numbers(X)
    model = fit_landmark_ridge(kernel, X[:30], Rows(X, Y, w, shard_rows=50), alpha=1e-4, **EXACT)
    right = dense_landmark_ridge(kernel, X[:30], X, Y, w, 1e-4)
    torch.testing.assert_close(model.decision(X), right, rtol=0, atol=1e-7)
    repeated = Rows(X.repeat_interleave(w, dim=0), Y.repeat_interleave(w, dim=0))
    again = fit_landmark_ridge(kernel, X[:30], repeated, alpha=1e-4, **EXACT)
    torch.testing.assert_close(model.decision(X), again.decision(X), rtol=0, atol=1e-8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_duplicated_landmarks_change_nothing(dtype: torch.dtype) -> None:
    X, kernel = points(dtype=dtype), Gaussian()
    source = Rows(X, numbers(X))
    once = fit_landmark_ridge(kernel, X[:30], source, alpha=1e-4, tolerance=1e-6)
    twice = fit_landmark_ridge(kernel, torch.cat([X[:30], X[:30]]), source, alpha=1e-4, tolerance=1e-6)
    torch.testing.assert_close(once.decision(X), twice.decision(X), rtol=0, atol=1e-4)


def test_landmarks_that_are_nearly_one_point() -> None:
    X = points(600)
    model = fit_landmark_ridge(Gaussian(bandwidth=1e6), X, Rows(X, numbers(X)), alpha=1e-3)
    torch.testing.assert_close(model.decision(X), numbers(X).mean(dim=0).expand(600, 2), rtol=0, atol=1e-2)


def test_the_jitter_grows_only_as_far_as_rounding() -> None:
    def below(gap: float):
        return lambda X: torch.ones(len(X), len(X)).double() - gap * torch.eye(len(X))

    root = Whitening(below(1e-12), points(20)).root
    torch.testing.assert_close(root @ root.T, torch.ones(20, 20).double(), rtol=0, atol=1e-10)
    with pytest.raises(ValueError, match="kernel must be positive semi-definite"):
        Whitening(below(1e-3), points(20))


def test_classes_are_one_hot() -> None:
    X, kernel = points(), Gaussian()
    y = classes(X, 3)
    model = fit_landmark_ridge(kernel, X[:30], Rows(X, y), alpha=1e-3, num_classes=3, **EXACT)
    right = dense_landmark_ridge(kernel, X[:30], X, torch.nn.functional.one_hot(y, 3), torch.ones(len(X)), 1e-3)
    torch.testing.assert_close(model.decision(X), right, rtol=0, atol=1e-7)


def test_the_budget_bounds_memory_and_leaves_the_result() -> None:
    X = points(6000, dtype=torch.float32)
    source = Rows(X, X[:, 0].sin(), shard_rows=500)
    block, whole = 500 * 100 * 4, 6000 * 100 * 4
    peaks: list[int] = []

    def fit(budget: int) -> Tensor:
        with PeakMemory() as memory:
            model = fit_landmark_ridge(Gaussian(), X[:100], source, alpha=1e-2, memory_budget=budget)
        peaks.append(memory.peak)
        return model.coefficients

    none, half, full = fit(0), fit(whole // 2), fit(whole)
    assert torch.equal(none, full)
    assert torch.equal(none, half)
    assert peaks[0] < 5 * block
    assert peaks[1] < whole // 2 + 5 * block
    assert peaks[2] >= whole


def test_the_preconditioner_in_pieces(monkeypatch) -> None:
    X = points()
    space, curvature = Whitening(Gaussian(), X), torch.rand(len(X)).double()
    right = space.root.T @ (curvature[:, None] * space.root) / len(X) + 1e-3 * torch.eye(len(X))
    monkeypatch.setattr("bochner.solvers.landmarks.PRODUCT_COLUMNS", 17)
    factor = space.factor_hessian(curvature, 1e-3).L
    torch.testing.assert_close(factor @ factor.T, right)


def test_triangular_systems_are_solved_by_blocks() -> None:
    space = Whitening(Gaussian(), points())
    rhs = points(120, 3)
    whole, blocks = Triangle(space.root), Triangle(space.root, block_rows=17)
    for name in ("solve", "solve_transposed", "solve_squared"):
        solution = getattr(whole, name)(rhs)
        torch.testing.assert_close(
            getattr(blocks, name)(rhs), solution, rtol=0, atol=1e-9 * float(solution.abs().max())
        )
    torch.testing.assert_close(space.root @ blocks.solve(rhs), rhs)


def test_the_amplitude_scales_the_default_ridge() -> None:
    X = points()
    source = Rows(X, numbers(X))
    one = fit_landmark_ridge(Gaussian(), X[:30], source, **EXACT)
    hundred = fit_landmark_ridge(100 * Gaussian(), X[:30], source, **EXACT)
    torch.testing.assert_close(one.decision(X), hundred.decision(X), rtol=0, atol=1e-6)


def test_the_preconditioner_pays(monkeypatch) -> None:
    X = points(1500, 2)

    def iterations() -> int:
        steps: list[int] = []
        source, kernel = Rows(X, numbers(X)), Gaussian(bandwidth=2.0)
        arguments = {"alpha": 1e-5, "tolerance": 1e-6, "max_iterations": 500}
        fit_landmark_ridge(kernel, X[:400], source, report=lambda step, _: steps.append(step), **arguments)
        assert steps == list(range(1, len(steps) + 1))
        return len(steps)

    with_it = iterations()
    monkeypatch.setattr(
        Whitening, "factor_hessian", lambda space, *_: Triangle(torch.eye(len(space.root)).to(space.root))
    )
    assert iterations() > 3 * with_it


def test_saved_and_loaded(tmp_path) -> None:
    X = points()
    model = fit_landmark_ridge(Gaussian(), X[:30], Rows(X, numbers(X)))
    bochner.save(model, tmp_path / "model.safetensors")
    loaded = bochner.load(tmp_path / "model.safetensors")
    assert torch.equal(loaded.decision(X), model.decision(X))


@pytest.mark.parametrize("error", [0.0, 0.02, 3.0])  # the last is too much: exact products finish
def test_refined_conjugate_gradients(error: float) -> None:
    A = points(40, 60)
    H, rhs = A @ A.T / 60 + 0.1 * torch.eye(40), points(40, 2)
    other = points(40, 60).roll(1, dims=0)
    rough, exact = H + error * other @ other.T / 60, []

    def apply(V: Tensor) -> Tensor:
        exact.append(V)
        return H @ V

    found = refined_conjugate_gradients(
        apply, lambda V: rough @ V, rhs, lambda R: R, tolerance=1e-8, max_iterations=1000
    )
    assert found.left <= 1e-8
    torch.testing.assert_close(found.X, torch.linalg.solve(H, rhs), rtol=0, atol=1e-6)
    plain: list[float] = []
    limits = {"tolerance": 1e-8, "max_iterations": 1000, "report": lambda _, left: plain.append(left)}
    conjugate_gradients(lambda V: H @ V, rhs, lambda R: R, **limits)
    assert 2 * len(exact) < len(plain) or error > 1


def test_conjugate_gradients_leave_a_zero_column_alone() -> None:
    H = torch.diag(torch.tensor([1.0, 10.0]))
    rhs = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    found = conjugate_gradients(lambda V: H @ V, rhs, lambda R: R, tolerance=1e-6, max_iterations=20)
    torch.testing.assert_close(found.X, torch.tensor([[1.0, 0.0], [0.1, 0.0]]))


def test_bad_arguments() -> None:
    X = points()
    source = Rows(X, numbers(X))
    for alpha in (0.0, -1.0, float("nan"), "1"):
        with pytest.raises(ValueError, match="alpha must be a positive finite number, got"):
            fit_landmark_ridge(Gaussian(), X[:5], source, alpha=alpha)
    with pytest.raises(ValueError, match="landmarks must have 3 columns, got 2"):
        fit_landmark_ridge(Gaussian(), X[:5, :2], source)
    with pytest.raises(ValueError, match="landmarks must be finite"):
        fit_landmark_ridge(Gaussian(), X[:5] * float("nan"), source)
    with pytest.raises(ValueError, match="memory_budget must be a number of bytes, at least 0, got -1"):
        fit_landmark_ridge(Gaussian(), X[:5], source, memory_budget=-1)
    with pytest.raises(ValueError, match="max_iterations must be an integer of at least 1, got 0"):
        fit_landmark_ridge(Gaussian(), X[:5], source, max_iterations=0)
    with pytest.raises(ValueError, match=r"coefficients must have shape \(5, 2\), one row per landmark, got \(4, 2\)"):
        LandmarkModel(Gaussian(), X[:5], torch.zeros(4, 2), torch.zeros(2))


@pytest.mark.parametrize("fit", [fit_landmark_ridge, fit_landmark_logistic])
def test_several_processes_have_no_checkpoints_of_landmarks(fit, tmp_path) -> None:
    X = points(30)
    source = Rows(X, classes(X, 3))
    with pytest.raises(ValueError, match=r"checkpoint_dir must be None with a group of processes, got .*kept"):
        fit(Gaussian(), X[:5], source, num_classes=3, group=object(), checkpoint_dir=tmp_path / "kept")
    assert not (tmp_path / "kept").exists()
