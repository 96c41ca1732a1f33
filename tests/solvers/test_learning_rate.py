"""The search of the learning rate: reasonable with few validation rows, and not repeated."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from sklearn.datasets import load_digits

from bochner.data import ArraySource
from bochner.features import FourierMap
from bochner.kernels import Gaussian
from bochner.models.heads import FeatureModel, LinearHead
from bochner.solvers import learning_rate
from bochner.solvers import sgd as loop
from bochner.solvers.learning_rate import find_rate
from bochner.solvers.optimizers import SGDSettings
from bochner.solvers.sgd import train
from bochner.solvers.step import evaluate
from tests.solvers.runs import generator, model, sources, weights

DIGITS = SGDSettings(batch_size=1024, preconditioner_rank="auto", average=True, max_epochs=12)


def digits(seed: int) -> tuple[ArraySource, ArraySource, ArraySource]:
    """1,320 training, 27 validation and 450 test rows."""
    X, y = (torch.as_tensor(each) for each in load_digits(return_X_y=True))
    order = torch.randperm(len(X), generator=generator(seed))
    parts = (order[:1320], order[1320:1347], order[1347:])
    return tuple(ArraySource(X[rows].float() / 16, y[rows]) for rows in parts)  # type: ignore[return-value]


def classifier() -> FeatureModel:
    z = FourierMap.draw(Gaussian(bandwidth=2.0), num_inputs=64, num_features=1024, generator=generator())
    return FeatureModel(z, LinearHead.zeros(num_features=1024, num_outputs=10))


@pytest.mark.parametrize("seed", range(3))
def test_a_few_rows_that_are_all_right_do_not_ask_for_a_huge_rate(seed: int) -> None:
    rows, heldout, test = digits(seed)
    trained = classifier()
    history = train(trained, rows, heldout, DIGITS, verbose=False)
    assert history[-1]["err"] == 0
    assert evaluate(trained, test, loss="softmax").summary()["ce"] < 0.1


class StoppedError(Exception):
    pass


def stop(*arguments: object, **more: object) -> None:
    raise StoppedError


@pytest.mark.parametrize("complete", range(1, 5))
def test_an_interrupted_search_continues_with_untried_rates(
    complete: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One rate at a time; the search goes beyond its first rates."""
    monkeypatch.setattr(learning_rate, "SIDE_BY_SIDE", 1)
    monkeypatch.setattr(learning_rate, "WINDOW", range(-5, -3))
    search = partial(find_rate, model(), *sources(), SGDSettings(batch_size=32, max_epochs=2))
    tried: list[float] = []
    limit, steps = 10**9, learning_rate.take_steps

    def take_steps(shared: object, learners: list[Any], *arguments: Any, **more: Any) -> None:
        rate = learners[0].optimizer.param_groups[0]["lr"]
        if rate not in tried:
            if len(tried) == limit:
                raise StoppedError
            tried.append(rate)
        steps(shared, learners, *arguments, **more)

    monkeypatch.setattr(learning_rate, "take_steps", take_steps)
    expected, all_rates = search(), list(tried)
    assert len(all_rates) > 4
    tried.clear()
    limit = complete
    with pytest.raises(StoppedError):
        search(checkpoint_dir=tmp_path, fingerprint={"seed": 0})
    tried.clear()
    limit = 10**9
    assert search(checkpoint_dir=tmp_path, fingerprint={"seed": 0}) == expected
    assert tried == all_rates[complete:]
    with pytest.raises(ValueError, match="seed: 0 there, 1 here"):
        search(checkpoint_dir=tmp_path, fingerprint={"seed": 1})


def test_a_rate_is_searched_once_even_if_the_run_stops_before_its_first_step(tmp_path: Path) -> None:
    settings = SGDSettings(batch_size=32, max_epochs=2)
    whole, resumed = model(), model()
    expected = train(whole, *sources(), settings, verbose=False)
    with patch.object(loop, "run_steps", stop), pytest.raises(StoppedError):
        train(model(), *sources(), settings, checkpoint_dir=tmp_path, verbose=False)
    with patch.object(loop, "find_rate", stop):
        assert train(resumed, *sources(), settings, checkpoint_dir=tmp_path, verbose=False) == expected
    assert all(torch.equal(a, b) for a, b in zip(weights(resumed), weights(whole), strict=True))
