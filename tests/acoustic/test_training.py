"""Training of acoustic models on points of the plane with known states."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from bochner.acoustic.settings import KernelSettings, ModelSettings, NetworkSettings
from bochner.acoustic.training import MODULE, TrainedModel, frame_scores, train_model, tune_bandwidth
from bochner.data import ArraySource
from bochner.models.heads import BottleneckHead
from bochner.search import SelectionParams, fit
from bochner.search import kernel as search_kernel
from bochner.search.kernel import search_steps

QUICK = {"num_features": 128, "batch_size": 32, "max_epochs": 6}
KERNELS = [
    KernelSettings(**QUICK),
    KernelSettings(**QUICK, kernel="laplacian", rank=3, bandwidth=3.0, criterion="erll:1"),
    KernelSettings(**QUICK, kernel="sparse-gaussian", bandwidth=1.0, selection=SelectionParams(rounds=3)),
    KernelSettings(**QUICK, adapt="agop", bandwidth=2.0),
    KernelSettings(**QUICK, kernel="auto", preset="fast"),
    KernelSettings(**QUICK, adapt="uab", kernel="laplacian", bandwidth=3.0),
    KernelSettings(**QUICK, adapt="sab", kernel="sparse-gaussian", bandwidth=2.0),
    KernelSettings(**QUICK, adapt="dab", rank=3, bandwidth=2.0, learning_rate=1e-2),
]
BASES, TOGETHER = KERNELS[-3:-1], KERNELS[-1]
NETWORKS = [NetworkSettings(hidden=(16, 16), batch_size=16, max_epochs=30, improvement=0.0)]


@pytest.fixture
def briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bases are adapted by a few steps only."""
    monkeypatch.setattr(search_kernel, "BASIS", replace(search_kernel.BASIS, batches=8, max_epochs=2))


def rings(num_rows: int, seed: int, *, noise: int = 1) -> ArraySource:
    """Four states by radius and side; `noise` inputs carry no information."""
    X = torch.randn(num_rows, 2 + noise, generator=torch.Generator().manual_seed(seed))
    return ArraySource(X, (X[:, :2].norm(dim=1) > 1.2).long() + 2 * (X[:, 0] > 0))


def trained(settings: ModelSettings, output_dir: Path | None = None, *, seed: int = 0) -> TrainedModel:
    return train_model(settings, rings(800, 0), rings(400, 1), num_states=4, seed=seed, output_dir=output_dir)


@cache
def trained_once(settings: ModelSettings) -> TrainedModel:
    """For tests that only read the model; those of adapted bases all adapt them briefly."""
    return trained(settings)


@pytest.mark.usefixtures("briefly")
@pytest.mark.parametrize("settings", [*KERNELS, *NETWORKS], ids=lambda settings: settings.title)
def test_every_kind_of_model_learns(settings: ModelSettings) -> None:
    model = trained_once(settings)
    unseen = rings(400, 2).read(0)
    right = (model.module(unseen.X).argmax(dim=1) == unseen.y).float().mean()
    assert float(right) > 0.8  # the commonest state has 0.3
    assert {"epoch", "rate", "ce", "ent", "erll", "err", "perplexity"} <= set(model.history[-1])


def test_the_bottleneck_has_its_rank() -> None:
    head = trained_once(KERNELS[1]).module.head
    assert type(head) is BottleneckHead
    assert head.rank == 3


def test_selection_reports_survival_and_input_weights() -> None:
    facts = trained(KernelSettings(**QUICK, bandwidth=1.0, selection=SelectionParams(rounds=4))).selection
    assert facts is not None
    assert len(facts["survival"]) == len(facts["chance"]) == 3
    assert facts["input_weights"][2] == min(facts["input_weights"])  # the input without information


def test_the_bandwidth_is_the_best_of_those_tried() -> None:
    choices = trained_once(KERNELS[0]).choices
    best = min(choices["tried"], key=lambda multiple: choices["tried"][multiple])
    assert choices["bandwidth"] / choices["median"] == pytest.approx(float(best), rel=0.01)
    assert len(choices["tried"]) >= 3


@pytest.mark.usefixtures("briefly")
@pytest.mark.parametrize("settings", BASES, ids=lambda settings: settings.title)
def test_an_adapted_basis_improves_its_objective(settings: KernelSettings) -> None:
    adapted, random = trained_once(settings), trained(replace(settings, adapt=None))
    first, *later = adapted.choices["adapted"]
    assert min(later) < first
    assert "adapted" not in random.choices
    moved = (adapted.module.feature_map.frequencies() - random.module.feature_map.frequencies()).abs()
    assert 0 < float(moved.median()) < float(random.module.feature_map.frequencies().abs().max())


def test_few_features_adapted_to_the_loss_are_better() -> None:
    """Sixteen features, where six of eight inputs carry no information."""
    random = KernelSettings(num_features=16, bandwidth=3.0, batch_size=32, max_epochs=10)
    together = replace(random, adapt="dab", learning_rate=2e-2)
    parts, errors = (rings(2000, 0, noise=6), rings(800, 1, noise=6)), {}
    for settings in (random, together):
        model = train_model(settings, *parts, num_states=4, seed=0)
        errors[settings.adapt] = model.history[-1]["err"]
    assert errors["dab"] < errors[None] - 0.1


@pytest.mark.usefixtures("briefly")
def test_an_adapted_basis_is_not_adapted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted right after adaptation: the same model, without repeating a step of it."""
    undisturbed = trained_once(BASES[1])
    with monkeypatch.context() as stopping:
        stopping.setattr(fit, "train", None)
        with pytest.raises(TypeError):
            trained(BASES[1], tmp_path)
    monkeypatch.setattr(search_kernel, "fit_basis", None)
    resumed, X = trained(BASES[1], tmp_path), rings(50, 3).read(0).X
    assert torch.equal(resumed.module(X), undisturbed.module(X))
    assert resumed.choices == undisturbed.choices


@pytest.mark.parametrize("lowest", [-9, -2, 0, 1, 4, 9])
def test_the_search_finds_the_lowest_step_within_bounds(lowest: int) -> None:
    evaluated: list[int] = []

    def loss(step: int) -> float:
        evaluated.append(step)
        return abs(step - lowest)

    assert search_steps(loss, max_steps=5)[0] == max(-5, min(5, lowest))
    assert len(evaluated) == len(set(evaluated))
    assert len(evaluated) <= 7


def test_a_given_bandwidth_needs_no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_kernel, "search_steps", None)
    assert trained(KERNELS[1]).choices["bandwidth"] == 3.0


@pytest.mark.usefixtures("briefly")
@pytest.mark.parametrize(
    "settings", [KERNELS[1], KERNELS[2], TOGETHER, NETWORKS[0]], ids=lambda settings: settings.title
)
def test_a_finished_model_is_only_read(settings: ModelSettings, tmp_path: Path) -> None:
    first = trained(settings, tmp_path)
    before = (tmp_path / MODULE).stat().st_mtime_ns
    again = trained(settings, tmp_path)
    assert (tmp_path / MODULE).stat().st_mtime_ns == before
    X = rings(50, 3).read(0).X
    assert torch.equal(first.module(X), again.module(X))
    assert (again.history, again.choices, again.selection) == (first.history, first.choices, first.selection)


def test_interrupted_training_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted in the training of the head, after two epochs: bit-equal, and no earlier step is repeated."""
    undisturbed, real = trained_once(KERNELS[2]), fit.train
    seen: list[int] = []

    def watched(*arguments: object, **settings: object) -> object:
        def note(record: dict[str, int]) -> None:
            seen.append(record["epoch"])
            if seen == [1, 2, 3]:
                raise KeyboardInterrupt

        return real(*arguments, **{**settings, "callbacks": [note]})  # type: ignore[arg-type]

    monkeypatch.setattr(fit, "train", watched)
    with pytest.raises(KeyboardInterrupt):
        trained(KERNELS[2], tmp_path)
    assert not (tmp_path / MODULE).exists()
    monkeypatch.setattr(search_kernel, "select_features", None)
    resumed = trained(KERNELS[2], tmp_path)
    assert seen[3] == 3  # not written because of the interruption
    X = rings(50, 3).read(0).X
    assert torch.equal(resumed.module(X), undisturbed.module(X))
    assert resumed.history == undisturbed.history
    assert not (tmp_path / "checkpoint").exists()


def test_seeds_differ_and_repeat() -> None:
    X = rings(50, 3).read(0).X
    first = trained_once(KERNELS[1]).module(X)
    same, other = (trained(KERNELS[1], seed=seed).module(X) for seed in (0, 1))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("kernel", ["arc-cosine1", "matern32"])
def test_kernels_beyond_the_papers(kernel: str) -> None:
    model = trained(KernelSettings(**QUICK, kernel=kernel))
    assert model.history[-1]["err"] < 0.3


def test_blocks_are_trained_separately_and_averaged() -> None:
    blocks, whole = (trained(KernelSettings(**QUICK, bandwidth=2.0, num_blocks=n)) for n in (2, 1))
    X = rings(50, 3).read(0).X
    assert blocks.history[-1]["err"] < 0.3
    assert not torch.allclose(blocks.module(X), whole.module(X))


def test_the_bandwidth_can_be_searched_alone() -> None:
    choices = tune_bandwidth(KERNELS[0], rings(800, 0), rings(400, 1), num_states=4, seed=0)
    assert choices.items() <= trained_once(KERNELS[0]).choices.items()


def test_frame_scores_are_those_of_a_loop() -> None:
    draw = torch.Generator().manual_seed(0)
    X, y = torch.randn(50, 3, generator=draw), torch.randint(0, 4, (50,), generator=draw)
    module = nn.Linear(3, 4).double()
    scores = frame_scores(module, ArraySource(X, y), silence_states=[1, 3])
    ce = ent = collapsed = wrong = 0.0
    for x, label in zip(X.double(), y.tolist(), strict=True):
        p = np.exp(module(x).detach().numpy())
        p /= p.sum()
        ce -= math.log(p[label]) / 50
        ent -= float((p * np.log(p)).sum()) / 50
        wrong += float(p.argmax() != label) / 50
        collapsed -= math.log(p[1] + p[3] if label in (1, 3) else p[label]) / 50
    expected = {"ce": ce, "ent": ent, "erll": ce + ent, "err": wrong, "perplexity": math.exp(ce)}
    assert scores == pytest.approx({**expected, "perplexity_silence_collapsed": math.exp(collapsed)})


def test_without_silence_nothing_collapses() -> None:
    scores = frame_scores(nn.Linear(1, 3), ArraySource(torch.ones(4, 1), torch.tensor([0, 1, 2, 0])))
    assert scores["perplexity_silence_collapsed"] == pytest.approx(scores["perplexity"])
