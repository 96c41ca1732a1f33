"""Several processes make the model that one makes with the same batches."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

from bochner.adaptation.fobos import select_by_fobos
from bochner.adaptation.selection import select_features
from bochner.data import ArraySource
from bochner.features import FourierMap
from bochner.kernels import Gaussian
from bochner.models.heads import BottleneckHead, FeatureModel, LinearHead
from bochner.models.network import Network
from bochner.solvers.optimizers import SGDSettings
from bochner.solvers.parallel import Workers
from bochner.solvers.sgd import train
from tests.solvers.parallel.ranks import run_ranks
from tests.solvers.runs import generator, rings

Numbers = dict[str, Any]
# 203 rows in batches of 50: the last has 3, fewer than some groups have processes.
SETTINGS = SGDSettings(learning_rate=8.0, batch_size=50, max_epochs=3, improvement=0.0)


def sources() -> tuple[ArraySource, ArraySource]:
    X, y = rings(254)
    X = X.double()
    return ArraySource(X[51:], y[51:], shard_rows=16), ArraySource(X[:51], y[:51])


def drawn_map(num_features: int, generator: torch.Generator, *, form: str = "paired") -> FourierMap:
    return FourierMap.draw(
        Gaussian(), num_inputs=2, num_features=num_features, form=form, generator=generator, dtype=torch.float64
    )


def linear(*, form: str = "paired") -> FeatureModel:
    z = drawn_map(32, generator(1), form=form)
    return FeatureModel(z, LinearHead.zeros(num_features=32, num_outputs=3, dtype=torch.float64))


def bottleneck() -> FeatureModel:
    head = BottleneckHead.glorot(num_features=32, num_outputs=3, rank=2, generator=generator(2), dtype=torch.float64)
    return FeatureModel(drawn_map(32, generator(1)), head)


def network() -> Network:
    return Network.draw(num_inputs=2, hidden=[6], num_outputs=3, generator=generator(3), dtype=torch.float64)


def numbers(model: torch.nn.Module) -> dict[str, np.ndarray]:
    return {name: p.detach().numpy().copy() for name, p in model.named_parameters() if p.requires_grad}


def trained(model: torch.nn.Module, settings: SGDSettings, group: Workers | None) -> Numbers:
    history = train(model, *sources(), settings, verbose=False, group=group)
    return {**numbers(model), "heldout": np.array([record["ce"] for record in history])}


def zero_head(num_features: int, generator: torch.Generator) -> LinearHead:
    return LinearHead.zeros(num_features=num_features, num_outputs=3, dtype=torch.float64)


def drawn_bottleneck(num_features: int, generator: torch.Generator) -> BottleneckHead:
    return BottleneckHead.glorot(
        num_features=num_features, num_outputs=3, rank=2, generator=generator, dtype=torch.float64
    )


def selected(num_features: int = 16, *, group: Workers | None = None) -> Numbers:
    """The selection with pairs of frequencies, single ones, a bottleneck and a penalty."""
    settings: Numbers = {"num_features": num_features, "verbose": False, "group": group}
    rounds = {"rounds": 3, "rows_per_round": 120}
    cosine, rows = partial(drawn_map, form="cosine"), sources()[0]
    chosen = [
        select_features(drawn_map, zero_head, rows, SETTINGS, **settings, **rounds, generator=generator(4)),
        select_features(cosine, drawn_bottleneck, rows, SETTINGS, **settings, **rounds, generator=generator(5)),
        select_by_fobos(
            drawn_map, zero_head, rows, SETTINGS, **settings, num_drawn=32, num_rows=120, generator=generator(6)
        ),
    ]
    return {str(number): each.feature_map.frequencies().numpy() for number, each in enumerate(chosen)}


def linear_models(count: int = 4, *, group: Workers | None = None) -> list[Numbers]:
    """Cases for both kinds of division: optimizers with state, penalty, averaging, rate and preconditioner."""
    cases = [
        (linear(form="cosine"), replace(SETTINGS, learning_rate=1.0, alpha=1e-3)),
        (linear(), replace(SETTINGS, optimizer="momentum", learning_rate=1.0, preconditioner_rank=4, alpha=1e-3)),
        (linear(), replace(SETTINGS, learning_rate="auto", average=True, max_epochs=2)),
        (bottleneck(), replace(SETTINGS, optimizer="adam", learning_rate=0.05)),
    ]
    return [trained(model, settings, group) for model, settings in cases[:count]]


def two_models(group: Workers | None = None) -> list[Numbers]:
    return [selected(group=group), *linear_models(2, group=group)]


def divisible_models(group: Workers | None = None) -> list[Numbers]:
    return [selected(group=group), *linear_models(group=group)]


def all_models(group: Workers | None = None) -> list[Numbers]:
    return [*divisible_models(group), trained(network(), replace(SETTINGS, learning_rate=0.1), group)]


@pytest.fixture(scope="module")
def alone() -> list[Numbers]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)  # the models must have learned something to be compared
        return all_models()


@pytest.mark.parametrize(("processes", "features"), [(2, 1), (2, 2), (4, 2)])
def test_several_processes_make_the_model_of_one(
    processes: int, features: int, alone: list[Numbers], tmp_path: Path
) -> None:
    work = all_models if features == 1 else divisible_models if processes == 2 else two_models
    for found in run_ranks(work, processes, tmp_path, features=features):
        for mine, expected in zip(found, alone, strict=False):
            assert mine.keys() == expected.keys()
            for name, values in expected.items():
                np.testing.assert_allclose(mine[name], values, rtol=0, atol=1e-10, err_msg=name)


def refusals(group: Workers) -> list[str]:
    messages = []
    for work in (partial(train, network(), *sources(), SETTINGS, verbose=False), partial(selected, 14)):
        try:
            work(group=group)
        except ValueError as error:
            messages.append(str(error))
    return messages


def test_what_cannot_be_divided_by_features_is_refused(tmp_path: Path) -> None:
    """A network, and a number of frequencies (7, of selection) that is odd."""
    for messages in run_ranks(refusals, 2, tmp_path, features=2):
        assert "only a FourierMap with a head can be divided by features, got Network" in messages[0]
        assert "num_features must give each of 2 processes as many frequencies, got 14; use 16" in messages[1]
