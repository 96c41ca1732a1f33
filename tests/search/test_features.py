"""The features that a fit chooses: random, selected over rounds or by FOBOS, adapted by gradients."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator

from bochner import KernelClassifier, KernelRegressor, load, save
from bochner.data import ArraySource, MappedSource
from bochner.features import ArcCosineMap, FourierMap, NystromMap, TensorSketchMap
from bochner.kernels import Gaussian, Polynomial
from bochner.models.network import Network
from bochner.search import AdaptParams, KernelPlan, fit, kernel, make_task
from bochner.solvers import sgd

SMALL: dict[str, Any] = {"preset": None, "n_components": 128, "solver_params": {"batch_size": 64, "max_epochs": 6}}


@cache
def noisy_inputs(seed: int, count: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """Four classes that depend on the first 3 of 20 inputs."""
    X = np.random.default_rng(seed).normal(size=(count, 20))
    return X, (np.hypot(X[:, 0], X[:, 1]) > 1.18) + 2 * (X[:, 2] > 0)


@cache
def fitted(seed: int, method: str | None) -> KernelClassifier:
    selection = None if method is None else {"method": method, "rounds": 6}
    model = KernelClassifier(
        kernel="sparse-gaussian", bandwidth=2.1, selection=selection, solver="sgd", random_state=seed, **SMALL
    )  # about the median distance
    return model.fit(*noisy_inputs(seed))


@pytest.mark.parametrize(
    ("method", "num_seeds", "least_ratio", "least_gain"),
    [("rounds", 3, 1.7, 0.05), ("fobos", 5, 1.1, 0.01), ("sparse", 3, 1.5, 0.04)],
)
def test_selection_prefers_the_inputs_that_matter(
    method: str, num_seeds: int, least_ratio: float, least_gain: float
) -> None:
    """Means over seeds: without a selection the ratio is 1 and the gain 0."""
    ratios, gains = [], []
    for seed in range(num_seeds):
        model, plain = fitted(seed, method), fitted(seed, None)
        weights = np.array(model.choices_["selection"]["input_weights"])
        assert weights.shape == (20,)
        ratios.append(weights[:3].mean() / weights[3:].mean())
        X, y = noisy_inputs(100 + seed, 600)
        gains.append(model.score(X, y) - plain.score(X, y))
        assert model.model_.feature_map.num_features == 128
    assert np.mean(ratios) > least_ratio
    assert np.mean(gains) > least_gain


def test_selected_features_survive_longer_than_by_chance() -> None:
    for seed in range(3):
        facts = fitted(seed, "rounds").choices_["selection"]
        survival, chance = np.array(facts["survival"]), np.array(facts["chance"])
        assert survival.shape == chance.shape == (5,)  # the last of six rounds has no successor
        assert (survival[:3] > chance[:3]).all()


@pytest.mark.parametrize(
    "selection", [3, 2, *({"method": method, "rounds": 3} for method in ("fobos", "sparse"))], ids=str
)
@pytest.mark.parametrize("count", [30, 31])
def test_odd_numbers_of_features(selection: Any, count: int) -> None:
    model = KernelClassifier(selection=selection, random_state=0, **{**SMALL, "n_components": count})
    assert model.fit(*noisy_inputs(0, 300)).model_.feature_map.num_features == count


def test_a_selection_under_a_learned_metric() -> None:
    X, y = noisy_inputs(0)
    model = KernelClassifier(selection=2, adapt={"method": "agop", "rounds": 1}, random_state=0, **SMALL).fit(X, y)
    assert model.kernel_.metric is not None
    assert "input_weights" in model.choices_["selection"]


def test_selection_needs_frequencies() -> None:
    with pytest.raises(ValueError, match=r"selection needs Fourier features.*ArcCosine"):
        KernelClassifier(kernel="arc-cosine1", selection=2, **SMALL).fit(*noisy_inputs(0))


@pytest.mark.parametrize("method", ["uab", "sab", "dab"])
def test_an_adapted_basis_is_never_worse_on_its_own_objective(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "BASIS", replace(kernel.BASIS, batches=16, validation_batches=8, max_epochs=2))
    for seed in range(3):
        X, y = noisy_inputs(seed, 600)
        model = KernelClassifier(adapt=method, solver="ridge", random_state=seed, **SMALL).fit(X, y)
        values = model.choices_["adapted"]
        assert min(values) <= values[0]
        assert len(values) > 1
        start = KernelClassifier(solver="ridge", random_state=seed, **SMALL).fit(X, y)
        assert not np.array_equal(model.predict_proba(X), start.predict_proba(X))


def test_a_basis_adapted_to_the_loss_improves_a_regression() -> None:
    """Most of 20 inputs are noise, which frequencies can learn to ignore."""
    gains = []
    for seed in range(3):
        X, _ = noisy_inputs(seed)
        y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
        plain, adapted = (
            KernelRegressor(adapt=adapt, solver="ridge", random_state=seed, **SMALL).fit(X[:1500], y[:1500])
            for adapt in (None, "dab")
        )
        gains.append(adapted.score(X[1500:], y[1500:]) - plain.score(X[1500:], y[1500:]))
    assert np.mean(gains) > 0.05


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("gaussian", FourierMap),
        ("matern52", FourierMap),
        ("arc-cosine0", ArcCosineMap),
        ("arc-cosine2", ArcCosineMap),
        ("polynomial", TensorSketchMap),
        (Gaussian() + Polynomial(), NystromMap),
    ],
    ids=str,
)
def test_the_map_suits_the_kernel(kernel: Any, kind: type) -> None:
    X, y = noisy_inputs(0, 300)
    model = KernelClassifier(kernel=kernel, solver="ridge", random_state=0, **SMALL).fit(X, y)
    assert isinstance(model.model_.feature_map, kind)
    assert model.model_.feature_map.num_features == 128


def test_many_inputs_get_a_structured_projection() -> None:
    X = np.random.default_rng(0).normal(size=(100, 256))
    for columns, structured in ((255, False), (256, True)):
        model = KernelRegressor(solver="ridge", random_state=0, **SMALL).fit(X[:, :columns], X[:, 0])
        assert ("adamard" in type(model.model_.feature_map.projection).__name__) == structured


def joint(seed: int, **changes: Any) -> KernelClassifier:
    """A basis adapted to the loss, trained together with its head."""
    params = {"batch_size": 64, "max_epochs": 12, "optimizer": "adamw", "schedule": "one-cycle", "learning_rate": 5e-3}
    options = {"adapt": {"method": "dab", "dropout": 0.2}, **SMALL, "solver_params": {**params, "average": False}}
    return KernelClassifier(random_state=seed, **{"solver": "sgd", **options, **changes})


@pytest.mark.parametrize("kernel_name", ["gaussian", "sparse-gaussian"])
def test_a_basis_trained_with_its_head_classifies_better_than_random_features(kernel_name: str) -> None:
    gains = []
    for seed in range(3):
        X, y = noisy_inputs(seed)
        X_test, y_test = noisy_inputs(100 + seed, 600)
        plain, trained = (joint(seed, adapt=adapt, kernel=kernel_name).fit(X, y) for adapt in (None, {"method": "dab"}))
        gains.append(trained.score(X_test, y_test) - plain.score(X_test, y_test))
    assert np.mean(gains) > 0.1


def test_the_first_steps_of_a_basis_change_scores_alike_for_every_number_of_features() -> None:
    """Otherwise large models diverge: a step of Adam has the size of the rate in each of D weights."""
    X, y = noisy_inputs(0, 256)
    params = {**joint(0).solver_params, "max_epochs": 1, "learning_rate": 1e-3}
    sizes = []
    for D in (2048, 16384):
        scores = joint(0, n_components=D, solver_params=params).fit(X, y).decision_function(X)
        sizes.append(np.std(scores - scores.mean(axis=0)))
    assert 0.5 < sizes[1] / sizes[0] < 2.0


@pytest.mark.parametrize(("rank", "amplitude"), [(None, 1.0), (3, 1.0), (None, 0.25)])
def test_a_basis_trained_with_its_head_predicts_as_its_network_does(
    rank: int | None, amplitude: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[tuple[Network, np.ndarray]] = []

    def train(network: Network, rows: MappedSource, *arguments: Any, **keywords: Any) -> Any:
        history = sgd.train(network, rows, *arguments, **keywords)
        trained.append((copy.deepcopy(network), rows._transform.std.numpy()))
        return history

    monkeypatch.setattr(fit, "train", train)
    monkeypatch.setattr(fit, "BASIS_FEATURES", amplitude * SMALL["n_components"])
    X, y = noisy_inputs(0, 500)
    X = X * np.geomspace(0.01, 100, 20)
    params = {**joint(0).solver_params, "rank": rank, "precision": "float64"}
    model = joint(0, standardize=True, solver_params=params).fit(X, y)
    ((network, scale),) = trained
    numbers = {name: value.detach().numpy() for name, value in network.named_parameters()}
    sizes = np.median(np.abs(numbers["weights.0"]), axis=0)
    assert 0.05 < sizes.min() < sizes.max() < 0.5  # whatever the units of the inputs
    Z = amplitude * np.cos(X / scale @ numbers["weights.0"].T + numbers["biases.0"])
    Theta = numbers["head.weights"] if rank is None else numbers["head.second"] @ numbers["head.first"]
    logits = model.model_(torch.from_numpy(X)).detach().numpy()
    np.testing.assert_allclose(logits, Z @ Theta.T + numbers["head.bias"], atol=1e-9)


def test_a_basis_trained_with_its_head_is_a_function_of_the_seed() -> None:
    X, y = noisy_inputs(0, 500)
    first, again, other = (joint(seed).fit(X, y).predict_proba(X) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.01


def peaks(seed: int, count: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """Five frames of four numbers; the class is whether the first number is large in any frame."""
    X = np.random.default_rng(seed).normal(size=(count, 5, 4)).astype(np.float32)
    return X.reshape(count, 20), (np.abs(X[:, :, 0]).max(axis=1) > 1.6).astype(int)


CONVOLUTIONAL = {"method": "dab", "dropout": 0.2, "dilations": (1, 1), "width": 32}


def test_a_convolutional_kernel_learns_what_frames_have_in_common() -> None:
    gains = []
    for seed in range(3):
        rows, test = peaks(seed, 1500), peaks(100 + seed, 1000)
        scores = {
            name: joint(seed, adapt=adapt, bandwidth=4.0, n_components=256).fit(*rows).score(*test)
            for name, adapt in {"rows": {**CONVOLUTIONAL, "dilations": ()}, "windows": CONVOLUTIONAL}.items()
        }
        gains.append(scores["windows"] - scores["rows"])
    assert np.mean(gains) > 0.02


def levels_of(
    kernel: Any, *, dilations: tuple[int, ...], num_inputs: int, D: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    plan = KernelPlan(n_components=D, adapt=AdaptParams(method="dab", dilations=dilations, width=D))
    rows = ArraySource(torch.zeros(2, num_inputs), torch.tensor([0, 1]))
    task = make_task(
        rows, rows, rows, num_classes=2, seed=0, params=plan.params, loss="softmax", mean=torch.ones(2) / 2
    )
    return [
        (W.numpy(), b.numpy()) for W, b in fit._convolutional_features(plan, task, kernel, Generator().manual_seed(0))
    ]


def test_levels_of_a_convolutional_kernel_approximate_gaussian_kernels() -> None:
    """The mean of 2 cos cos over D = 20,000 features has a standard error of about 0.007."""
    generator = np.random.default_rng(0)
    (W1, b1), (W2, b2) = levels_of(Gaussian(bandwidth=3.0), dilations=(1, 1), num_inputs=20, D=2000)
    x, y = generator.normal(size=(2, 40, W1.shape[1]))
    lower = 2 * np.mean(np.cos(x @ W1.T + b1) * np.cos(y @ W1.T + b1), axis=1)
    exact = np.exp(-((x - y) ** 2).sum(axis=1) / (2 * 9.0 * 3 / 5))  # three of five frames
    assert W1.shape == (2000, 12)
    np.testing.assert_allclose(lower, exact, atol=0.12)
    assert W2.shape == (2000, 6000)
    u, v = np.cos(generator.uniform(0, 2 * np.pi, size=(2, 40, 6000)))
    upper = 2 * np.mean(np.cos(u @ W2.T + b2) * np.cos(v @ W2.T + b2), axis=1)
    np.testing.assert_allclose(upper, np.exp(-((u - v) ** 2).sum(axis=1) / (2 * 6000)), atol=0.12)
    assert abs(np.mean(upper) - np.exp(-0.5)) < 0.03  # unrelated windows


@pytest.mark.parametrize("amplitude", [1.0, 0.25])
def test_a_convolutional_kernel_predicts_as_its_network_does(amplitude: float, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[tuple[Network, float]] = []

    def train(network: Network, rows: MappedSource, *arguments: Any, **keywords: Any) -> Any:
        history = sgd.train(network, rows, *arguments, **keywords)
        trained.append((copy.deepcopy(network), float(rows._transform.std[0])))
        return history

    monkeypatch.setattr(fit, "train", train)
    monkeypatch.setattr(fit, "BASIS_FEATURES", amplitude * SMALL["n_components"])
    X, y = peaks(0, 300)
    params = {**joint(0).solver_params, "precision": "float64", "max_epochs": 2}
    model = joint(0, adapt=CONVOLUTIONAL, solver_params=params).fit(X, y)
    ((network, scale),) = trained
    (W1, W2), (b1, b2) = ([p.detach().numpy() for p in values] for values in (network.weights, network.biases))
    frames = X.astype(float).reshape(-1, 5, 4) / scale
    windows = [frames[:, t - 1 : t + 2].reshape(-1, 12) for t in (1, 2, 3)]
    lower = np.hstack([amplitude * np.cos(window @ W1.T + b1) for window in windows])
    Z = amplitude * np.cos(lower @ W2.T + b2)
    logits = Z @ network.head.weights.detach().numpy().T + network.head.bias.detach().numpy()
    np.testing.assert_allclose(model.model_(torch.from_numpy(X.astype(float))).detach().numpy(), logits, atol=1e-9)


def test_a_convolutional_kernel_is_stored_and_a_function_of_the_seed(tmp_path: Path) -> None:
    X, y = peaks(0, 300)
    first, again = (joint(seed, adapt=CONVOLUTIONAL).fit(X, y) for seed in (0, 0))
    np.testing.assert_array_equal(first.predict_proba(X), again.predict_proba(X))
    save(first, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(X), first.predict_proba(X))


@pytest.mark.parametrize(
    ("changes", "columns", "message"),
    [
        ({"kernel": "laplacian"}, 20, r"kernel must be 'gaussian'.*Laplacian"),
        ({"standardize": True}, 20, "kernel must be 'gaussian' without a scale"),
        ({"solver_params": {"max_epochs": 1}}, 20, "dilations need solver='sgd' with the optimizer .*'sgd'"),
        ({"solver": "ridge"}, 20, "dilations need solver='sgd' .*'ridge'"),
        ({}, 18, r"X must have a multiple of 5 columns.*dilations=\[1, 1\], got 18"),
        ({"adapt": {"method": "uab", "dilations": (1,)}}, 20, r"dilations must be empty with adapt='uab', got \[1\]"),
        ({"adapt": {"method": "dab", "dilations": (0,)}}, 20, r"dilations\[0\] must be .* at least 1, got 0"),
        ({"adapt": {"method": "dab", "width": 0}}, 20, "width must be .*got 0"),
    ],
)  # fmt: skip
def test_convolutional_kernels_that_do_not_exist(changes: dict[str, Any], columns: int, message: str) -> None:
    X, y = peaks(0, 100)
    with pytest.raises(ValueError, match=message):
        joint(0, **{"adapt": CONVOLUTIONAL, **changes}).fit(X[:, :columns], y)
