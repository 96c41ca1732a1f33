"""FOBOS: the proximal step compared with its definition, the fit with a naive one, and the effect of the penalty."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Generator, Tensor

from bochner.adaptation.fobos import fit_fobos, search_penalty, select_by_fobos, shrink
from bochner.adaptation.selection import frequency_norms, input_weights, random_batches
from bochner.data import ArraySource
from bochner.features import FourierMap, NystromMap
from bochner.kernels import Gaussian, SparseGaussian
from bochner.models.heads import BottleneckHead, FeatureModel, LinearHead
from bochner.solvers.optimizers import SGDSettings
from bochner.solvers.step import evaluate
from tests.solvers.runs import generator, rings

NUM_INPUTS, USEFUL = 20, 2
SETTINGS = SGDSettings(learning_rate=8.0, batch_size=100)


def data(count: int = 2000) -> ArraySource:
    """Two of twenty inputs matter."""
    X = torch.randn(count, NUM_INPUTS, generator=generator())
    return ArraySource(X, (torch.sin(2 * X[:, :USEFUL]).sum(dim=1) > 0).long())


def draw_for(form: str) -> Callable[[int, Generator], FourierMap]:
    kernel = SparseGaussian(subset_size=2)

    def draw(num_features: int, generator: Generator) -> FourierMap:
        return FourierMap.draw(kernel, num_inputs=NUM_INPUTS, num_features=num_features, form=form, generator=generator)

    return draw


def linear(num_features: int, generator: Generator) -> LinearHead:
    return LinearHead.zeros(num_features=num_features, num_outputs=2)


def float64_model(form: str, *, num_features: int = 12, num_outputs: int = 3) -> FeatureModel:
    z = FourierMap.draw(
        Gaussian(), num_inputs=2, num_features=num_features, form=form, generator=generator(1), dtype=torch.float64
    )
    return FeatureModel(z, LinearHead.zeros(num_features=num_features, num_outputs=num_outputs, dtype=torch.float64))


def groups(model: FeatureModel) -> list[list[int]]:
    """The features of each frequency."""
    z = model.feature_map
    P = z.num_frequencies
    return [[j] if z.form == "cosine" else [j, j + P] for j in range(P)]


def naive_shrink(weights: Tensor, groups: list[list[int]], amount: float) -> Tensor:
    result = weights.clone()
    for features in groups:
        norm = float(weights[:, features].square().sum()) ** 0.5
        result[:, features] = weights[:, features] * (1 - amount / norm) if norm > amount else 0.0
    return result


@pytest.mark.parametrize("amount", [0.0, 1.0, 2.0, 100.0])
@pytest.mark.parametrize("form", ["paired", "cosine"])
def test_shrink_is_the_proximal_step(form: str, amount: float) -> None:
    model = float64_model(form)
    before = torch.randn(3, 12, generator=generator(), dtype=torch.float64)
    before[:, [1, 7]] = 0  # a whole frequency in the paired form
    with torch.no_grad():
        model.head.weights.copy_(before)
        model.head.bias.fill_(5.0)
    shrink(model, amount)
    after = model.head.weights.detach()
    torch.testing.assert_close(after, naive_shrink(before, groups(model), amount))
    assert (model.head.bias == 5.0).all()

    def objective(V: Tensor) -> float:
        penalty = sum(float(V[:, features].norm()) for features in groups(model))
        return 0.5 * float((V - before).square().sum()) + amount * penalty

    for seed in range(20):
        nearby = after + 0.01 * torch.randn(3, 12, generator=generator(seed), dtype=torch.float64)
        assert objective(after) < objective(nearby)


@pytest.mark.parametrize("form", ["paired", "cosine"])
def test_the_fit_alternates_gradient_and_proximal_steps(form: str) -> None:
    X, y = rings(300)
    source, settings = ArraySource(X.double(), y), SGDSettings(learning_rate=4.0, batch_size=32)
    model = float64_model(form)
    fit_fobos(model, source, settings, penalty=0.06, num_rows=500)  # more rows than there are: a second lap
    W, b = torch.zeros(3, 12, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    for block in random_batches(source, settings, 500, settings.batch_size, pass_number=0):
        Z = model.feature_map(block.X)
        residual = torch.softmax(Z @ W.T + b, dim=1) - torch.nn.functional.one_hot(block.y, 3)
        W, b = W - 4.0 * residual.T @ Z / len(Z), b - 4.0 * residual.mean(dim=0)
        W = naive_shrink(W, groups(model), 4.0 * 0.06)
    assert 0 < int((frequency_norms(model) > 0).sum()) < model.feature_map.num_frequencies
    torch.testing.assert_close(model.head.weights.detach(), W)
    torch.testing.assert_close(model.head.bias.detach(), b)


def test_more_penalty_leaves_fewer_and_fits_worse() -> None:
    source = data()
    survivors, losses = [], []
    for penalty in (0.0, 0.005, 0.01, 0.02, 1.0):
        model = FeatureModel(draw_for("paired")(200, generator()), linear(200, generator()))
        fit_fobos(model, source, SGDSettings(learning_rate=2.0, batch_size=200), penalty=penalty, num_rows=4000)
        survivors.append(int((frequency_norms(model) > 0).sum()))
        losses.append(evaluate(model, source, loss="softmax").summary()["ce"])
    assert survivors[0] == 100
    assert survivors[-1] == 0
    assert all(a > b for a, b in pairwise(survivors))
    assert all(a < b for a, b in pairwise(losses))


@pytest.mark.parametrize("form", ["paired", "cosine"])
def test_selection_keeps_the_largest_of_enough_survivors(form: str) -> None:
    draw, source = draw_for(form), data()
    chosen = select_by_fobos(
        draw,
        linear,
        source,
        SETTINGS,
        num_features=40,
        num_drawn=200,
        num_rows=2000,
        generator=generator(3),
        verbose=False,
    )
    wanted = 40 if form == "cosine" else 20
    assert chosen.feature_map.num_features == 40
    assert chosen.feature_map.form == form
    assert chosen.drawn == [5 * wanted]
    assert chosen.births.tolist() == [1] * wanted
    assert len(chosen.survival()) == 0
    assert wanted <= dict(chosen.trials)[chosen.penalty] <= 1.05 * wanted + 1
    enough = [trial.penalty for trial in chosen.trials if trial.survivors >= wanted]
    assert chosen.penalty == max(enough)

    model = FeatureModel(draw(200, generator(3)), linear(200, generator()))
    fit_fobos(model, source, SETTINGS, penalty=chosen.penalty, num_rows=2000)
    best = frequency_norms(model).topk(wanted).indices.sort().values
    torch.testing.assert_close(chosen.feature_map.frequencies(), model.feature_map.frequencies()[:, best])
    assert (frequency_norms(model)[best] > 0).all()


@pytest.mark.parametrize("jump", [0.3, 0.5, 0.7, 300.0])
def test_the_search_settles_below_a_jump(jump: float) -> None:
    """No penalty leaves 3 to 3.15 of ten: the largest one that leaves enough is used, with its own norms."""

    def norms_after(penalty: float) -> Tensor:
        return torch.full((10,), penalty) * (torch.arange(10) < (8 if penalty < jump else 1))

    penalty, norms, trials = search_penalty(norms_after, 3, start=100.0, max_trials=16, verbose=False)
    assert 0.99 * jump < penalty < jump
    assert penalty == max(trial.penalty for trial in trials if trial.survivors == 8)
    assert len(trials) == 16
    torch.testing.assert_close(norms, norms_after(penalty))


def test_a_given_penalty_is_fitted_once() -> None:
    chosen = select_by_fobos(
        draw_for("paired"),
        linear,
        data(),
        SETTINGS,
        num_features=20,
        num_drawn=200,
        num_rows=2000,
        penalty=0.001,
        generator=generator(),
        verbose=False,
    )
    assert [trial.penalty for trial in chosen.trials] == [0.001] == [chosen.penalty]
    assert chosen.feature_map.num_features == 20


def test_gentle_steps_find_the_useful_inputs() -> None:
    """With large enough batches the gradients show which features matter, and the penalty keeps those."""
    for seed in range(2):
        chosen = select_by_fobos(
            draw_for("paired"),
            linear,
            data(4000),
            SGDSettings(learning_rate=4.0, batch_size=1000),
            num_features=40,
            num_drawn=800,
            num_rows=10_000,
            generator=generator(seed),
            verbose=False,
        )
        weights = input_weights(chosen.feature_map)
        assert weights[:USEFUL].min() > 3 * weights[USEFUL:].mean()


def test_bad_arguments() -> None:
    source, draw = data(500), draw_for("paired")
    sizes = {"num_features": 20, "num_drawn": 40, "num_rows": 500, "generator": generator(), "verbose": False}

    def select(make_head=linear, settings: SGDSettings = SETTINGS, **changed: object) -> None:
        select_by_fobos(draw, make_head, source, settings, **{**sizes, **changed})

    with pytest.raises(ValueError, match="num_drawn must be at least num_features, 20, got 10"):
        select(num_drawn=10)
    with pytest.raises(ValueError, match=r"penalty must be one of \['auto'\], got 'small'"):
        select(penalty="small")
    with pytest.raises(ValueError, match=r"penalty must be a non-negative finite number, got -1\.0"):
        select(penalty=-1.0)
    with pytest.raises(ValueError, match=r"penalty=9\.0 leaves 0 of the 10 frequencies.*; give a smaller one"):
        select(penalty=9.0)
    with pytest.raises(ValueError, match=r"optimizer must be 'sgd' for FOBOS.* got 'adam'"):
        select(settings=SGDSettings(learning_rate=0.01, optimizer="adam"))
    with pytest.raises(ValueError, match="learning_rate must be a number for selection"):
        select(settings=SGDSettings())
    with pytest.raises(TypeError, match=r"FOBOS needs a LinearHead.*got BottleneckHead"):
        select(make_head=lambda D, g: BottleneckHead.glorot(num_features=D, num_outputs=2, rank=1, generator=g))
    with pytest.raises(FloatingPointError, match=r"diverged at learning_rate=1e\+38; give a smaller one"):
        select(settings=SGDSettings(learning_rate=1e38))
    X = torch.randn(50, 3, generator=generator())
    z = NystromMap.fit(Gaussian(), X, num_landmarks=10, generator=generator())
    with pytest.raises(TypeError, match="selection needs a model on a FourierMap, got one on a NystromMap"):
        shrink(FeatureModel(z, linear(z.num_features, generator())), 1.0)
