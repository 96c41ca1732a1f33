"""Conformal intervals: their coverage over seeds, where they are wide, storage and errors."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Generator, Tensor, nn

import bochner
from bochner.kernels import Gaussian, PowerExponential
from bochner.models import intervals
from bochner.models.inputs import InputTransform
from bochner.models.intervals import Uncertainty
from bochner.solvers.exact import fit_exact

KERNEL = PowerExponential(exponent=1.5, norm=2.0, bandwidth=1.0)
ALPHA = 0.1
COVERAGES = [0.8, 0.9, 0.95]


def rows(n: int, kind: str, generator: Generator) -> tuple[Tensor, Tensor, Tensor]:
    """X [n, 2], y [n, 1] and the standard deviation of the noise [n]."""
    X = 2 * torch.rand(n, 2, generator=generator, dtype=torch.float64) - 1
    std = torch.full((n,), 0.3) if kind == "equal" else 0.05 + 0.6 * X[:, 0].clamp_min(0)
    noise = torch.randn(n, generator=generator, dtype=torch.float64)
    return X, (torch.sin(3 * X[:, 0]) + X[:, 1] ** 2 + std * noise)[:, None], std


def fitted(X: Tensor, y: Tensor, generator: Generator, weight: Tensor | None = None) -> tuple[nn.Module, Uncertainty]:
    fit = fit_exact(KERNEL, X, y, alpha=ALPHA, weight=weight)
    kept = None if weight is None else weight[fit.rows]
    residuals = y[fit.rows] - fit.left_out
    return fit.model, Uncertainty.fit(KERNEL, X[fit.rows], residuals, alpha=ALPHA, weight=kept, generator=generator)


@pytest.mark.parametrize("max_landmarks", [100, 512])
@pytest.mark.parametrize("kind", ["equal", "varying"])
def test_coverage(kind: str, max_landmarks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "MAX_LANDMARKS", max_landmarks)
    n, m, seeds = 300, 1000, 20
    shares = torch.zeros(len(COVERAGES), dtype=torch.float64)
    for seed in range(seeds):
        generator = Generator().manual_seed(seed)
        model, uncertainty = fitted(*rows(n, kind, generator)[:2], generator)
        X, y, _ = rows(m, kind, generator)
        prediction = model(X)
        for place, coverage in enumerate(COVERAGES):
            lower, upper = uncertainty.interval(prediction, X, coverage)
            shares[place] += float(((lower <= y) & (y <= upper)).double().mean()) / seeds
    for share, coverage in zip(shares.tolist(), COVERAGES, strict=True):
        # the coverage of one fit is Beta distributed by its n rows, and measured on m rows
        deviation = (coverage * (1 - coverage) * (1 / n + 1 / m) / seeds) ** 0.5
        assert abs(share - coverage) < 4 * deviation + 1 / n


@pytest.mark.parametrize("seed", range(3))
def test_intervals_are_wide_where_the_noise_is(seed: int) -> None:
    generator = Generator().manual_seed(seed)
    model, uncertainty = fitted(*rows(600, "varying", generator)[:2], generator)
    X, y, std = rows(3000, "varying", generator)
    estimated = uncertainty.std(X)[:, 0]
    assert float(torch.corrcoef(torch.stack([estimated, std]))[0, 1]) > 0.8
    lower, upper = uncertainty.interval(model(X), X, 0.9)
    inside = ((lower <= y) & (y <= upper))[:, 0].double()
    noisy = X[:, 0] > 0
    assert abs(float(inside[noisy].mean()) - float(inside[~noisy].mean())) < 0.12  # 0.2 with one width for all


def test_noise_that_does_not_vary_leaves_the_sizes_alone() -> None:
    constant = 0
    for seed in range(10):
        generator = Generator().manual_seed(seed)
        constant += int(not fitted(*rows(300, "equal", generator)[:2], generator)[1].sizes.any())
    assert constant >= 6


def test_std_grows_away_from_the_rows_and_has_the_size_of_the_residuals() -> None:
    generator = Generator().manual_seed(0)
    model, uncertainty = fitted(*rows(400, "equal", generator)[:2], generator)
    X, y, _ = rows(2000, "equal", generator)
    near, far = uncertainty.std(X), uncertainty.std(X + 20)
    assert float(near.mean()) == pytest.approx(float((y - model(X)).std()), rel=0.15)
    assert float(far.min()) > 1.5 * float(near.max())


def test_variance_is_that_of_a_gaussian_process_and_landmarks_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "PENALTIES", ())  # h = 1
    generator = Generator().manual_seed(3)
    X = torch.randn(12, 2, generator=generator, dtype=torch.float64)
    uncertainty = Uncertainty.fit(Gaussian(), X, torch.ones(12, 1), alpha=0.3, generator=generator)
    L = uncertainty.landmarks
    inverse = torch.linalg.inv(Gaussian()(L) + 0.3 * torch.eye(12, dtype=torch.float64))
    Z = torch.randn(5, 2, generator=generator, dtype=torch.float64)
    k = Gaussian()(Z, L)
    v = 1.3 - ((k @ inverse) * k).sum(dim=1)
    difficulty = uncertainty.std(Z)[:, 0] / uncertainty.ratios.square().mean().sqrt()
    torch.testing.assert_close(difficulty, v.sqrt())
    row = X[4:5]
    others = X[torch.arange(12) != 4]
    k = Gaussian()(row, others)
    v = 1.3 - k @ torch.linalg.solve(Gaussian()(others) + 0.3 * torch.eye(11, dtype=torch.float64), k.T)
    torch.testing.assert_close(uncertainty.ratios[4, 0], v[0, 0].rsqrt())


def test_each_output_has_its_own_width() -> None:
    generator = Generator().manual_seed(0)
    X, y, _ = rows(300, "varying", generator)
    residuals = torch.cat([0.01 * torch.randn(300, 1, generator=generator), 5 * (y - y.mean())], dim=1)
    uncertainty = Uncertainty.fit(KERNEL, X, residuals, alpha=ALPHA, generator=generator)
    std = uncertainty.std(X)
    assert std.shape == (300, 2)
    assert float((std[:, 1] / std[:, 0]).min()) > 10
    lower, upper = uncertainty.interval(torch.zeros(300, 2, dtype=torch.float64), X, 0.9)
    assert float((upper - lower)[:, 1].min()) > 10 * float((upper - lower)[:, 0].max())


def test_quantile_counts_a_new_row() -> None:
    uncertainty = example(torch.arange(1.0, 10.0))
    assert [float(uncertainty.quantiles(c)) for c in (0.1, 0.11, 0.5, 0.9)] == [1, 2, 5, 9]
    with pytest.raises(ValueError, match=r"coverage=0.91 needs 11 rows .* has 9; use at most 0.9\."):
        uncertainty.quantiles(0.91)


def test_weighted_quantile_counts_rows_by_weight() -> None:
    weighted = example(torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([1.0, 1.0, 8.0, 2.0]))
    assert [float(weighted.quantiles(c)) for c in (0.06, 0.1, 0.2, 0.6, 0.7)] == [1, 2, 3, 3, 4]


def example(ratios: Tensor, weight: Tensor | None = None) -> Uncertainty:
    return Uncertainty(Gaussian(), torch.zeros(1, 1), 1.0, torch.zeros(1, 1), ratios[:, None], weight)


def test_rescaled_targets_and_transformed_inputs() -> None:
    generator = Generator().manual_seed(0)
    X, y, _ = rows(100, "varying", generator)
    transform = InputTransform.fit("normal", X)
    fits = {"alpha": ALPHA, "generator": Generator().manual_seed(1)}
    plain = Uncertainty.fit(KERNEL, transform(X), y, **fits)
    fits["generator"].manual_seed(1)
    uncertainty = Uncertainty.fit(KERNEL, X, y, transform=transform, **fits)
    torch.testing.assert_close(uncertainty.std(X), plain.std(transform(X)))
    scaled = uncertainty.rescaled(torch.tensor([-3.0]))
    torch.testing.assert_close(scaled.std(X), 3 * uncertainty.std(X))
    torch.testing.assert_close(scaled.quantiles(0.9), 3 * uncertainty.quantiles(0.9))


def test_targets_that_are_always_met_have_no_uncertainty() -> None:
    X = torch.randn(20, 1, generator=Generator().manual_seed(0))
    uncertainty = Uncertainty.fit(Gaussian(), X, torch.zeros(20), alpha=0.1)
    assert not uncertainty.std(X).any()
    lower, upper = uncertainty.interval(X[:, 0], X, 0.5)
    assert torch.equal(lower, X[:, 0])
    assert torch.equal(upper, X[:, 0])


def test_stored_and_loaded(tmp_path: Path) -> None:
    generator = Generator().manual_seed(0)
    X, y, _ = rows(60, "varying", generator)
    weight = torch.rand(60, generator=generator, dtype=torch.float64) + 0.5
    _, uncertainty = fitted(X.float(), y.float(), generator, weight)
    bochner.save(uncertainty, tmp_path / "uncertainty.safetensors")
    loaded = bochner.load(tmp_path / "uncertainty.safetensors")
    assert torch.equal(loaded.std(X), uncertainty.std(X))
    assert torch.equal(loaded.quantiles(0.9), uncertainty.quantiles(0.9))


@pytest.mark.parametrize("coverage", [0, 1, 1.5, -0.1, 90, "0.9", float("nan"), None])
def test_coverage_must_lie_between_0_and_1(coverage: object) -> None:
    with pytest.raises(ValueError, match=r"coverage must .* got"):
        example(torch.ones(50)).quantiles(coverage)  # type: ignore[arg-type]


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match=r"X and residuals .* 5 and 4"):
        Uncertainty.fit(Gaussian(), torch.zeros(5, 1), torch.zeros(4), alpha=1.0)
    with pytest.raises(ValueError, match=r"sizes \[1, t\]"):
        Uncertainty(Gaussian(), torch.zeros(1, 1), 1.0, torch.zeros(2, 1), torch.ones(3, 1), None)
    with pytest.raises(ValueError, match=r"weight must have shape \(3,\), got \(2,\)"):
        example(torch.ones(3), torch.ones(2))
