"""Cells of the smallest size: what is measured and stored, and which models are evaluated on test."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bochner.studies import feature_selection
from bochner.studies.results_file import Result
from bochner.studies.speech import prepare, prepare_best
from bochner.studies.speech_cells import CE, ERLL, BestCell, Cell, best_cells, network_cells
from bochner.studies.workers import Context

pytest.importorskip("espeakng_loader")
pytest.importorskip("kaldi_hmm_gmm")

from bochner.acoustic import experiment as experiment_module
from bochner.studies import speech_training
from bochner.studies.speech_training import set_up_task, settings_of, tuned

DATA = "synthetic timit-like"
KERNEL = Cell(DATA, "gaussian", False, False, CE, 128, 0, 0, "smoke", 0)
WORSE = Cell(DATA, "gaussian", False, True, ERLL, 32, 0, 0, "smoke", 0)


class Ran(NamedTuple):
    directory: Path
    kernel: Result
    worse: Result


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    directory = tmp_path_factory.mktemp("speech")
    measure = prepare(Context(directory, cache_dir=directory))
    return Ran(directory, measure(KERNEL), measure(WORSE))


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **settings: Any) -> None:
        raise AssertionError("a finished model is trained again")

    monkeypatch.setattr(experiment_module, "train_model", refuse)


def test_metrics_agree_where_they_are_the_same(ran: Ran) -> None:
    for row in (ran.kernel, ran.worse):
        assert row["erll"] == pytest.approx(row["ce"] + row["ent"])
        for name in ("erll:0", "capped:0", "topk:1"):
            assert row["metrics"][name] == pytest.approx(row["ce"])
        assert row["metrics"]["erll:1"] == pytest.approx(row["erll"])
        assert row["metrics"]["topk:0.5"] < row["ce"]
    assert ran.kernel["ter"] < ran.worse["ter"]


def test_features_are_selected_on_the_same_frames(ran: Ran) -> None:
    parts = feature_selection._aligned_speech(Context(ran.directory, cache_dir=ran.directory), "smoke")
    assert parts.train.num_inputs % 5 == 0  # two neighbours on each side
    size = feature_selection.Size(16, 3, 500, 2, 64, (1.0,), (4.0,))
    rows = feature_selection.run(
        parts, size=size, kernels=["laplacian"], selections=["algorithm 1"], seeds=[0], verbose=False
    )
    assert len(rows[0]["survival"]) == 2
    assert len(rows[0]["input_weights"]) == parts.train.num_inputs


def test_the_error_rate_is_that_of_dev(ran: Ran) -> None:
    scores = [
        json.loads(path.read_text())["rate"] for path in (ran.directory / "models").glob("*/decoded/dev/score.json")
    ]
    assert sorted(scores) == sorted([ran.kernel["ter"], ran.worse["ter"]])


def test_settings_are_those_of_the_cell(ran: Ran) -> None:
    experiment = set_up_task(DATA, "smoke", ran.directory, device="cpu")
    settings = settings_of(replace(WORSE, selection=True), experiment)
    assert (settings.rank, settings.criterion, settings.num_features) == (32, ERLL, 32)  # type: ignore[union-attr]
    assert settings.selection.rounds == 3  # type: ignore[union-attr]
    network = settings_of(network_cells("smoke")[0], experiment)
    assert network.hidden == (64,) * 4  # type: ignore[union-attr]


def test_the_shared_bandwidth_is_what_a_model_would_choose_itself(ran: Ran) -> None:
    experiment = set_up_task(DATA, "smoke", ran.directory, device="cpu")
    alone = replace(settings_of(replace(KERNEL, num_features=256), experiment), bandwidth=None, max_epochs=1)  # type: ignore[call-arg]
    trained = experiment_module.train_model(
        alone, experiment.train_rows, experiment.heldout_rows, num_states=experiment.aligned.num_states, seed=0
    )
    shared = tuned(KERNEL, experiment)
    for name in ("bandwidth", "median", "tried"):
        assert trained.choices[name] == shared[name]
    assert len(shared["tried"]) > 1


def test_only_the_best_model_on_dev_is_tested_and_nothing_is_retrained(
    ran: Ran, no_training: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speech_training, "all_cells", lambda effort: [WORSE, KERNEL])
    best = prepare_best(Context(ran.directory, cache_dir=ran.directory))(BestCell(DATA, "kernel", "smoke", (0,)))
    assert (best["model"], best["models"], best["ter"]) == ("gaussian 128", 2, ran.kernel["ter"])
    assert best["ent"] == min(ran.kernel["ent"], ran.worse["ent"])
    (read,) = (ran.directory / "models").glob("*/decoded/test/score.json")
    assert json.loads(read.read_text())["rate"] == best["test_ter"]


def test_both_kinds_are_among_the_best() -> None:
    assert [(cell.kind, cell.seeds) for cell in best_cells("smoke")] == [("kernel", (0,)), ("network", (0,))]
    assert {cell.seeds for cell in best_cells("paper")} == {(0, 1, 2)}
