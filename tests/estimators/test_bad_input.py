"""Bad parameters and bad data: the error names the argument, its value and what is allowed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.utils._param_validation import InvalidParameterError

from bochner import ArcCosineFeatures, FourierFeatures, NystromFeatures, TensorSketchFeatures
from bochner.kernels import Polynomial

TRANSFORMERS = [FourierFeatures, NystromFeatures, ArcCosineFeatures, TensorSketchFeatures]
X = np.random.default_rng(0).normal(size=(30, 4))

bad_numbers = st.one_of(
    st.floats(max_value=0), st.just(float("nan")), st.text(min_size=1, max_size=4), st.just([1.0]), st.complex_numbers()
)
BAD_COUNTS = [0, -3, 2.5, "many", None, [4], True]


@given(bad_numbers)
def test_bandwidth(value: object) -> None:
    for cls in (FourierFeatures, NystromFeatures):
        with pytest.raises(InvalidParameterError, match="The 'bandwidth' parameter") as caught:
            cls(bandwidth=value).fit(X)
        assert "(0.0, inf)" in str(caught.value)


@pytest.mark.parametrize("value", [float("inf"), np.float64("inf")])
def test_infinite_bandwidth(value: float) -> None:
    with pytest.raises(ValueError, match="bandwidth"):
        FourierFeatures(bandwidth=value).fit(X)


@pytest.mark.parametrize("value", BAD_COUNTS)
@pytest.mark.parametrize("cls", [FourierFeatures, ArcCosineFeatures, TensorSketchFeatures])
def test_n_components(cls, value: object) -> None:
    with pytest.raises(ValueError, match="n_components") as caught:
        cls(n_components=value).fit(X)
    assert str(value) in str(caught.value)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (
            FourierFeatures(kernel="gausian"),
            r"'kernel' parameter of FourierFeatures must be .*'gaussian'.*Got 'gausian'",
        ),
        (FourierFeatures(projection="dense"), r"'projection' parameter .*'orthogonal'.* Got 'dense'"),
        (FourierFeatures(form="both"), r"'form' parameter .* Got 'both'"),
        (FourierFeatures(n_components=7, form="paired"), "n_components must be even when form='paired', got 7"),
        (FourierFeatures(kernel="laplacian", projection="orthogonal"), "projection='orthogonal' needs an isotropic"),
        (FourierFeatures(kernel=Polynomial()), "kernel must have a spectral sampler"),
        (FourierFeatures(kernel=Polynomial(), bandwidth=2.0), "bandwidth=2.0 was given, but Polynomial"),
        (FourierFeatures(gamma=0.5, bandwidth=1.0), "bandwidth=1.0 and gamma=0.5"),
        (FourierFeatures(gamma=0.5, kernel="cauchy"), "gamma=0.5 .*Cauchy"),
        (FourierFeatures(gamma=-1.0), "'gamma' parameter .* Got -1.0"),
        (FourierFeatures(device="gpu7"), "device must be 'auto' or a device torch can use here, got 'gpu7'"),
        (FourierFeatures(random_state="today"), "'random_state' parameter"),
        (NystromFeatures(num_landmarks=31), "num_landmarks must be at most the number of points, 30, got 31"),
        (NystromFeatures(num_landmarks=5, n_components=6), "n_components must be at most num_landmarks, 5, got 6"),
        (NystromFeatures(landmarks="best"), r"'landmarks' parameter .*'kmeans'.* Got 'best'"),
        (NystromFeatures(num_landmarks=9, num_experts=2), "num_landmarks must be a multiple of num_experts, 2, got 9"),
        (ArcCosineFeatures(order=3), r"'order' parameter .*\[0, 2\]. Got 3"),
        (ArcCosineFeatures(depth=0), r"'depth' parameter .* Got 0"),
        (TensorSketchFeatures(degree=0), r"'degree' parameter .* Got 0"),
        (TensorSketchFeatures(offset=-1.0), r"'offset' parameter .* Got -1.0"),
        (TensorSketchFeatures(scale=0.0), r"'scale' parameter .* Got 0.0"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_parameters(estimator, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        estimator.fit(X)


@settings(max_examples=30)
@given(st.sampled_from([np.nan, np.inf, -np.inf]), st.integers(0, 29), st.integers(0, 3))
def test_values_that_are_not_finite(value: float, row: int, column: int) -> None:
    broken = X.copy()
    broken[row, column] = value
    for cls in TRANSFORMERS:
        for data in (broken, torch.as_tensor(broken)):
            with pytest.raises(ValueError, match=r"(NaN|infinity)"):
                cls().fit(data)
            with pytest.raises(ValueError, match=r"(NaN|infinity)"):
                cls().fit(X).transform(data)


@pytest.mark.parametrize("cls", TRANSFORMERS)
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.empty((0, 4)), "0 sample"),
        (np.empty((4, 0)), "0 feature"),
        (np.ones(4), "1D array"),
        (np.ones((2, 3, 4)), "dim 3"),
        (X + 1j, "Complex data not supported"),
        (np.array([["a", "b"], ["c", "d"]]), "could not convert string"),
        (torch.empty(0, 4), "at least one row"),
        (torch.ones(4), "X must have shape"),
        (torch.ones(4, 2, dtype=torch.int64), "X must hold floats"),
    ],
    ids=["empty", "no columns", "1-d", "3-d", "complex", "text", "empty tensor", "1-d tensor", "integer tensor"],
)
def test_data_of_the_wrong_kind(cls, data, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        cls().fit(data)


@pytest.mark.parametrize("cls", [FourierFeatures, NystromFeatures])
def test_points_that_are_all_equal(cls) -> None:
    for rule in ("median", "mean"):
        with pytest.raises(ValueError, match=f"bandwidth='{rule}' finds all points of X equal; give the bandwidth"):
            cls(bandwidth=rule).fit(np.ones((10, 3)))
    features = cls(bandwidth=1.0).fit_transform(np.ones((10, 3)))
    np.testing.assert_allclose((features**2).sum(axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize("cls", TRANSFORMERS)
def test_constant_columns_do_no_harm(cls) -> None:
    padded = np.hstack([X, np.full((30, 2), 7.0)])
    assert np.isfinite(cls().fit_transform(padded)).all()


@settings(max_examples=40)
@given(arrays(np.float64, (12, 3), elements=st.floats(-1e6, 1e6)))
def test_any_finite_data_gives_finite_features_or_a_clear_error(data: np.ndarray) -> None:
    for estimator in (FourierFeatures(n_components=16), NystromFeatures(num_landmarks=6)):
        try:
            features = estimator.fit_transform(data)
        except ValueError as error:
            assert "all points of X equal" in str(error)
        else:
            assert np.isfinite(features).all()
            assert ((features**2).sum(axis=1) <= 1 + 1e-6).all()
