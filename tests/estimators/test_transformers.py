"""The transformers: containers, names, dtypes, kernels and scikit-learn's tools."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import bochner
from bochner import ArcCosineFeatures, FourierFeatures, NystromFeatures, TensorSketchFeatures
from bochner.kernels import Gaussian, Laplacian

TRANSFORMERS = [
    FourierFeatures(n_components=16, random_state=0),
    NystromFeatures(num_landmarks=16, random_state=0),
    NystromFeatures(num_landmarks=16, num_experts=4, weighting="fitted", random_state=0),
    ArcCosineFeatures(n_components=16, random_state=0),
    TensorSketchFeatures(n_components=16, random_state=0),
]
every_transformer = pytest.mark.parametrize("transformer", TRANSFORMERS, ids=lambda t: repr(t)[:40])


@pytest.fixture
def X() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(60, 5))


@every_transformer
def test_arrays_frames_and_tensors_agree(transformer, X: np.ndarray) -> None:
    from_array = clone(transformer).fit_transform(X)
    frame = pd.DataFrame(X, columns=list("abcde"))
    from_frame = clone(transformer).fit_transform(frame)
    fitted = clone(transformer).fit(torch.as_tensor(X))
    from_tensor = fitted.transform(torch.as_tensor(X))
    assert isinstance(from_array, np.ndarray)
    assert isinstance(from_tensor, torch.Tensor)
    np.testing.assert_array_equal(from_array, from_frame)
    np.testing.assert_allclose(from_array, from_tensor.numpy(), rtol=1e-12, atol=1e-12)
    assert fitted.n_features_in_ == 5


@every_transformer
def test_names_and_set_output(transformer, X: np.ndarray) -> None:
    frame = pd.DataFrame(X, columns=list("abcde"), index=np.arange(60) * 2)
    result = clone(transformer).set_output(transform="pandas").fit(frame).transform(frame)
    assert isinstance(result, pd.DataFrame)
    assert list(result.index) == list(frame.index)
    name = type(transformer).__name__.lower()
    assert list(result.columns) == [f"{name}{i}" for i in range(16)]


@every_transformer
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_kept(transformer, X: np.ndarray, dtype: type) -> None:
    assert clone(transformer).fit_transform(X.astype(dtype)).dtype == dtype


@every_transformer
def test_streaming_gives_the_same(transformer, X: np.ndarray) -> None:
    fitted = clone(transformer).fit(X)
    frame = pd.DataFrame(X)
    for data in (X, torch.as_tensor(X)):
        blocks = list(fitted.stream(data, rows=7))
        assert [len(block) for block in blocks] == [7] * 8 + [4]
        np.testing.assert_allclose(np.vstack([np.asarray(b) for b in blocks]), fitted.transform(X), atol=1e-12)
    assert len(list(clone(transformer).fit(frame).stream(frame, rows=30))) == 2


@every_transformer
def test_the_map_is_a_module_that_saves(transformer, X: np.ndarray, tmp_path) -> None:
    fitted = clone(transformer).fit(X)
    assert isinstance(fitted.map_, torch.nn.Module)
    bochner.save(fitted.map_, tmp_path / "map")
    loaded = bochner.load(tmp_path / "map")
    np.testing.assert_array_equal(loaded(torch.as_tensor(X)).numpy(), fitted.transform(X))


def test_other_widths_and_names_are_refused(X: np.ndarray) -> None:
    fitted = FourierFeatures(n_components=8).fit(pd.DataFrame(X, columns=list("abcde")))
    with pytest.raises(ValueError, match="feature names"):
        fitted.transform(pd.DataFrame(X[:, :4], columns=list("abcd")))
    with pytest.raises(ValueError, match="X has 4 features, but FourierFeatures is expecting 5"):
        FourierFeatures(n_components=8).fit(X).transform(X[:, :4])
    with pytest.raises(ValueError, match="X must have 5 columns, got 4"):
        fitted.transform(torch.as_tensor(X[:, :4]))
    with pytest.raises(ValueError, match="feature names"):
        fitted.transform(pd.DataFrame(X, columns=list("vwxyz")))


def test_kernels_by_name_take_the_median_rule_and_objects_their_own(X: np.ndarray) -> None:
    from scipy.spatial.distance import pdist

    def fitted(**parameters):
        return FourierFeatures(n_components=8, projection="iid", **parameters).fit(X).map_.kernel

    assert fitted().bandwidth == pytest.approx(np.sqrt(np.median(pdist(X) ** 2) / 2), rel=0.02)
    assert fitted(kernel="laplacian").bandwidth == pytest.approx(np.median(pdist(X, "cityblock")), rel=0.02)
    assert fitted(bandwidth=2.5).bandwidth == 2.5
    assert fitted(kernel=Gaussian(bandwidth=7.0)).bandwidth == 7.0
    assert fitted(kernel=Laplacian(bandwidth=7.0), bandwidth=3.0).bandwidth == 3.0
    assert fitted(kernel="sparse-gaussian").subset_size == 5


@pytest.mark.parametrize("cls", [FourierFeatures, NystromFeatures])
def test_gamma_is_that_of_scikit_learn(cls, X: np.ndarray) -> None:
    gaussian = cls(gamma=0.3).fit(X).map_.kernel
    np.testing.assert_allclose(gaussian(torch.as_tensor(X)).numpy(), rbf_kernel(X, gamma=0.3), rtol=1e-9)
    laplacian = cls(gamma=0.3, kernel=Laplacian()).fit(X).map_.kernel
    np.testing.assert_allclose(laplacian(torch.as_tensor(X)).numpy(), laplacian_kernel(X, gamma=0.3), rtol=1e-9)


def test_gamma_of_the_polynomial_kernel_and_aliases(X: np.ndarray) -> None:
    polynomial = NystromFeatures(gamma=0.3, kernel="poly").fit(X).map_.kernel
    np.testing.assert_allclose(polynomial(torch.as_tensor(X)).numpy(), polynomial_kernel(X, gamma=0.3), rtol=1e-9)
    features = (FourierFeatures(kernel=name, n_components=8, random_state=0) for name in ("rbf", "gaussian"))
    np.testing.assert_array_equal(*(transformer.fit_transform(X) for transformer in features))


def test_in_a_pipeline_and_a_grid_search() -> None:
    X, y = load_digits(return_X_y=True)
    model = make_pipeline(FourierFeatures(n_components=512, random_state=0), RidgeClassifier())
    grid = {"fourierfeatures__kernel": ["gaussian", "laplacian"], "fourierfeatures__bandwidth": ["median", 60.0]}
    search = GridSearchCV(model, grid, cv=3).fit(X[:600], y[:600])
    assert search.score(X[600:], y[600:]) > 0.93


def test_as_accurate_as_scikit_learn_at_equal_size() -> None:
    X = load_digits().data[:400] / 16
    gamma = 0.05
    K = np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(-1))

    def error(make) -> float:
        features = (make(seed).fit_transform(X) for seed in range(5))
        return float(np.mean([np.linalg.norm(Z @ Z.T - K) for Z in features]))

    ours = error(lambda seed: FourierFeatures(gamma=gamma, n_components=512, random_state=seed))
    theirs = error(lambda seed: RBFSampler(gamma=gamma, n_components=512, random_state=seed))
    assert ours < 0.8 * theirs  # orthogonal pairs against independent cosines


@pytest.mark.gpu
@every_transformer
def test_arrays_through_the_gpu(transformer, X: np.ndarray) -> None:
    on_gpu = clone(transformer).set_params(device="cuda").fit_transform(X)
    on_cpu = clone(transformer).set_params(device="cpu").fit_transform(X)
    np.testing.assert_allclose(on_gpu, on_cpu, rtol=1e-6, atol=1e-8)
