"""Standard deviations, intervals and reports of fitted estimators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from sklearn.exceptions import NotFittedError

import bochner
from bochner import KernelClassifier, KernelRegressor


def rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Noise whose standard deviation is 0.1 for x_0 < 0 and 0.5 above; targets of size 1,000."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    std = np.where(X[:, 0] > 0, 0.5, 0.1)
    return X, 1000 * (np.sin(3 * X[:, 0]) + X[:, 1] + std * rng.normal(size=n))


@pytest.fixture(scope="module")
def model() -> KernelRegressor:
    return KernelRegressor(preset="fast", random_state=0).fit(*rows(500))


def test_intervals_cover_new_targets(model: KernelRegressor) -> None:
    X, y = rows(4000, seed=1)
    for coverage in (0.8, 0.9, 0.95):
        lower, upper = model.predict_interval(X, coverage=coverage)
        share = np.mean((lower <= y) & (y <= upper))
        # four standard deviations, of 500 residuals and 4,000 test rows
        assert abs(share - coverage) < 4 * (coverage * (1 - coverage) * (1 / 500 + 1 / 4000)) ** 0.5
    default = model.predict_interval(X)
    np.testing.assert_array_equal(default, model.predict_interval(X, coverage=0.9))


def test_std_has_the_size_of_the_errors_and_varies_with_them(model: KernelRegressor) -> None:
    X, y = rows(4000, seed=1)
    prediction, std = model.predict(X, return_std=True)
    np.testing.assert_array_equal(prediction, model.predict(X))
    assert prediction.shape == std.shape == (4000,)
    for part in (X[:, 0] > 0.1, X[:, 0] < -0.1):
        assert np.sqrt(np.mean((y - prediction)[part] ** 2)) == pytest.approx(np.sqrt(np.mean(std[part] ** 2)), rel=0.4)
    assert std[X[:, 0] > 0.1].mean() > 2 * std[X[:, 0] < -0.1].mean()


def test_tensors_give_tensors(model: KernelRegressor) -> None:
    X = torch.as_tensor(rows(10)[0])
    for values in (*model.predict(X, return_std=True), *model.predict_interval(X)):
        assert isinstance(values, torch.Tensor)
        assert values.shape == (10,)
        assert values.dtype == X.dtype


def test_saved_models_keep_their_uncertainty(model: KernelRegressor, tmp_path: Path) -> None:
    X = rows(100, seed=1)[0]
    bochner.save(model, tmp_path / "model.safetensors")
    loaded = bochner.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.predict_interval(X), model.predict_interval(X))


def test_a_file_whose_uncertainty_is_that_of_other_outputs_is_refused(model: KernelRegressor) -> None:
    stored = model.to_storable()
    uncertainty = stored.state["uncertainty_"]
    two = uncertainty.replace(sizes=uncertainty.sizes.repeat(1, 2), ratios=uncertainty.ratios.repeat(1, 2))
    stored.state["uncertainty_"] = two
    with pytest.raises(ValueError, match="uncertainty_ must have as many outputs as model_"):
        stored.restored()


def test_several_targets_and_frames() -> None:
    X, y = rows(200)
    frame = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": np.where(X[:, 0] > 0, "x", "y")})
    model = KernelRegressor(preset="fast", random_state=0).fit(frame, np.stack([y, 0.001 * y], axis=1))
    lower, upper = model.predict_interval(frame, coverage=0.8)
    assert lower.shape == upper.shape == (200, 2)
    np.testing.assert_allclose(lower[:, 0], 1000 * lower[:, 1], rtol=1e-2, atol=1)
    prediction, std = model.predict(frame, return_std=True)
    assert prediction.shape == std.shape == (200, 2)


def test_an_ensemble_has_intervals() -> None:
    X, y = rows(150)
    model = KernelRegressor(preset="best", random_state=0).fit(X, y)
    assert len(model.validation_["targets"]) == 150
    X, y = rows(2000, seed=1)
    lower, upper = model.predict_interval(X, coverage=0.8)
    assert 0.65 < np.mean((lower <= y) & (y <= upper)) < 0.95


def test_weights_of_residuals() -> None:
    X, y = rows(300)
    model = KernelRegressor(preset="fast", random_state=0)
    model.fit(X, y, sample_weight=np.where(X[:, 0] > 0, 1e-3, 1.0))
    lower, upper = model.predict_interval(X[X[:, 0] < 0], coverage=0.9)
    assert 0.8 < np.mean((lower <= y[X[:, 0] < 0]) & (y[X[:, 0] < 0] <= upper)) < 1


@pytest.mark.parametrize("coverage", [0, 1, 90, -0.5])
def test_coverage_must_be_a_share(model: KernelRegressor, coverage: float) -> None:
    with pytest.raises(ValueError, match=r"coverage must .* got"):
        model.predict_interval(rows(2)[0], coverage=coverage)


def test_too_few_rows_for_a_coverage() -> None:
    model = KernelRegressor(preset="fast", random_state=0).fit(*rows(30))
    with pytest.raises(ValueError, match=r"coverage=0.99 needs 99 rows .* has 30; use at most 0.967"):
        model.predict_interval(rows(2)[0], coverage=0.99)


@pytest.mark.parametrize("settings", [{"solver": "ridge"}, {"preset": None}])
def test_other_solvers_have_no_intervals(settings: dict[str, Any]) -> None:
    X, y = rows(100)
    model = KernelRegressor(**{"preset": "fast", **settings}, n_components=64, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=f"solver 'auto' or 'exact'; got preset=.* solver_={model.solver_!r}"):
        model.predict(X, return_std=True)
    with pytest.raises(ValueError, match="exact least squares"):
        model.predict_interval(X)


def test_before_fit() -> None:
    with pytest.raises(NotFittedError):
        KernelRegressor().predict_interval(rows(2)[0])
    with pytest.raises(NotFittedError):
        KernelRegressor().report("page.html")


def test_reports_of_fitted_models(model: KernelRegressor, tmp_path: Path) -> None:
    X, y = rows(200, seed=1)
    model.report(tmp_path / "numbers.html", X, y)
    text = (tmp_path / "numbers.html").read_text()
    for part in ("Held-out rows", "Test data", "Prediction intervals", "Importances", "Search", "(chosen)", ">500<"):
        assert part in text
    frame = pandas.DataFrame({"<script>": X[:, 0], "b": np.where(X[:, 1] > 0, "x", "y")})
    classes = np.where(y > 0, "<b>", "$")
    KernelClassifier(preset="fast", random_state=0).fit(frame, classes).report(tmp_path / "classes.html")
    text = (tmp_path / "classes.html").read_text()
    assert "<script>" not in text
    assert "<b>" not in text
    assert "&lt;script&gt;" in text
    assert "Calibration" in text
