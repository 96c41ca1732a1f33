"""A learned metric on data where two directions of ten matter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn

from bochner.adaptation import metric
from bochner.adaptation.metric import MetricRound, gradient_outer_product, learn_metric
from bochner.data import ArraySource
from bochner.data.blocks import sample_rows
from bochner.features import FourierMap
from bochner.kernels import Gaussian, Matern, PowerExponential, Stationary
from bochner.models import LandmarkModel
from bochner.models.heads import FeatureModel
from bochner.solvers import fit_landmark_ridge, fit_ridge
from tests.oracles.memory import PeakMemory

CALM = 0.05  # share of the metric's weight on irrelevant inputs


def generator(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def draw(count: int, seed: int) -> ArraySource:
    """y depends on the first two of ten inputs."""
    X = torch.randn(count, 10, generator=generator(seed), dtype=torch.float64)
    return ArraySource(X, (2 * X[:, 0]).sin() + X[:, 1].square())


ROWS, HELDOUT = draw(600, 1), draw(300, 2)


def judge(model: nn.Module) -> float:
    block = HELDOUT.read(0)
    with torch.no_grad():
        return float((model(block.X)[:, 0] - block.y).square().mean())


def on_landmarks(kernel: Stationary) -> nn.Module:
    return fit_landmark_ridge(kernel, ROWS.read(0).X[:200], ROWS, alpha=1e-4)


def on_features(kernel: Stationary) -> nn.Module:
    z = FourierMap.draw(kernel, num_inputs=10, num_features=256, generator=generator(3), dtype=torch.float64)
    return FeatureModel(z, fit_ridge(z, ROWS, alpha=1e-5))


def idle_share(metric: Tensor) -> float:
    return float(metric.diagonal()[2:].sum() / metric.trace())


EUCLIDEAN = [
    Gaussian(bandwidth=3.0),
    Gaussian(bandwidth=1.5, scale=torch.linspace(0.3, 1.0, 10)),
    Matern(smoothness=0.5, bandwidth=5.0, metric=torch.diag(torch.linspace(1.0, 2.0, 10)) + 0.3),
    Matern(smoothness=1.5, bandwidth=5.0),
    Matern(smoothness=2.5, bandwidth=5.0),
    PowerExponential(exponent=1.3, bandwidth=4.0),
    PowerExponential(exponent=2.0, bandwidth=4.0),
]


@pytest.mark.parametrize("num_outputs", [3, 20])
@pytest.mark.parametrize("kernel", EUCLIDEAN, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products_for_gradients_of_landmark_models(
    monkeypatch: pytest.MonkeyPatch, kernel: Stationary, num_outputs: int, dtype: torch.dtype
) -> None:
    monkeypatch.setattr(metric, "TILE_ELEMENTS", 5000)  # several tiles of rows and of probes
    X = 10 + ROWS.read(0).X[:90]
    coefficients = torch.randn(60, num_outputs, generator=generator(), dtype=torch.float64)
    model = LandmarkModel(kernel, X[:60], coefficients, coefficients.new_zeros(num_outputs))
    source = ArraySource(X[30:], X[30:, 0])  # half of the rows are landmarks
    sample = source.read(0)._replace(X=X[30:].clone())
    random = generator()
    sample_rows(source, 60, generator=random)  # draws an order first
    exact = metric._autograd_sum(model, sample, 16, random) / 60
    narrow = LandmarkModel(kernel, *(part.to(dtype) for part in (model.landmarks, model.coefficients, model.bias)))
    M = gradient_outer_product(narrow, ArraySource(X[30:].to(dtype), X[30:, 0]), num_rows=60, generator=generator())
    assert M.dtype == torch.float64
    torch.testing.assert_close(M, exact, rtol=0, atol=(1e-4 if dtype == torch.float32 else 1e-9) * float(exact.max()))


@pytest.mark.parametrize("fit", [on_landmarks, on_features])
def test_weights_the_inputs_that_matter(fit: object) -> None:
    tried = learn_metric(Gaussian(bandwidth=3.0), ROWS, fit, judge, generator=generator())  # type: ignore[arg-type]
    best = min(tried, key=lambda each: each.loss)
    assert best.loss < tried[0].loss / 3
    assert best.kernel.metric is not None
    assert idle_share(best.kernel.metric) < CALM


def test_distances_keep_their_median() -> None:
    kernel = Gaussian(bandwidth=3.0, scale=torch.linspace(0.5, 2.0, 10, dtype=torch.float64))
    tried = learn_metric(kernel, ROWS, on_landmarks, judge, rounds=2, generator=generator())
    X = ROWS.read(0).X
    first, *others = [torch.pdist(each.kernel.prepare(X)).median() for each in tried]
    assert others
    assert all(float(other) == pytest.approx(float(first), rel=0.05) for other in others)
    assert all(each.kernel.bandwidth == 3.0 for each in tried)


def test_ends_when_the_loss_rises() -> None:
    losses = iter([3.0, 2.0, 2.5, 1.0])
    tried = learn_metric(Gaussian(bandwidth=3.0), ROWS, on_landmarks, lambda _: next(losses), generator=generator())
    assert [each.loss for each in tried] == [3.0, 2.0, 2.5]


def test_a_constant_model_leaves_the_kernel_unchanged() -> None:
    constant = nn.Linear(10, 1).double()
    constant.weight.data.zero_()
    tried = learn_metric(Gaussian(), ROWS, lambda _: constant, lambda _: 1.0, generator=generator())
    assert [type(each) for each in tried] == [MetricRound]


def test_equal_rows_are_refused() -> None:
    same = ArraySource(torch.ones(9, 2), torch.zeros(9))
    with pytest.raises(ValueError, match="source must contain different rows"):
        learn_metric(Gaussian(), same, lambda _: nn.Linear(2, 1), lambda _: 1.0, generator=generator())


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("complete", [1, 2])
def test_interrupted_rounds_continue(complete: int, tmp_path: Path) -> None:
    fits, limit = 0, 10**9

    def fit(kernel: Stationary) -> nn.Module:
        nonlocal fits
        if fits == limit:
            raise StoppedError
        fits += 1
        return on_landmarks(kernel)

    def rounds(**more: Any) -> list[MetricRound]:
        return learn_metric(Gaussian(bandwidth=3.0), ROWS, fit, judge, rounds=3, generator=generator(), **more)

    expected, all_fits = rounds(), fits
    assert all_fits > complete
    stored: dict[str, Any] = {"checkpoint_dir": tmp_path, "fingerprint": {"seed": 0}}
    fits, limit = 0, complete
    with pytest.raises(StoppedError):
        rounds(**stored)
    fits, limit = 0, 10**9
    resumed = rounds(**stored)
    assert fits == all_fits - complete
    assert [each.loss for each in resumed] == [each.loss for each in expected]
    for one, other in zip(resumed[1:], expected[1:], strict=True):
        assert one.kernel.metric is not None
        assert other.kernel.metric is not None
        assert torch.equal(one.kernel.metric, other.kernel.metric)
    with pytest.raises(ValueError, match="seed: 0 there, 1 here"):
        rounds(**{**stored, "fingerprint": {"seed": 1}})


def test_gradients_on_many_rows_are_the_formula_and_hold_no_kernel_matrix() -> None:
    """k(X, landmarks) of 20,000 x 400 has 64 MB in float64; grad f = sum_j a_j k(x, l_j) (l_j - x) / bandwidth^2."""
    X = torch.randn(20_000, 3, generator=generator(), dtype=torch.float64)
    a = torch.randn(400, 1, generator=generator(1), dtype=torch.float64)
    kernel = Gaussian(bandwidth=2.0)
    model = LandmarkModel(kernel, X[:400], a, torch.zeros(1, dtype=torch.float64))
    source = ArraySource(X, torch.zeros(20_000))
    with PeakMemory() as memory:
        M = gradient_outer_product(model, source, num_rows=20_000, generator=generator())
    assert memory.peak < 16 * 2**20
    weights = kernel(X, X[:400]) * a[:, 0]
    gradients = (weights @ X[:400] - weights.sum(dim=1, keepdim=True) * X) / 4
    torch.testing.assert_close(M, gradients.T @ gradients / 20_000)
