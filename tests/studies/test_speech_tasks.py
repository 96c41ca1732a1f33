"""Systems of a task at equal budgets: the search, paired intervals, and a whole task of the smallest size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bochner.studies.costs import SPEEDS
from bochner.studies.speech_bottleneck import NETWORK, PLAIN, PRECONDITIONED, change
from bochner.studies.speech_bottleneck import cells as bottleneck_cells
from bochner.studies.speech_tasks import FINDINGS, PROTOCOLS, RECORDED, SIZES, Cell, candidates, cells, operations
from bochner.studies.study import run_study
from tests.studies.made_rows import speech_bottleneck, speech_tasks


def test_six_tasks_and_timit_by_both_protocols_with_three_seeds() -> None:
    paper = cells("paper")
    assert len({cell.data for cell in paper}) == 7
    assert {cell.protocol for cell in paper} == set(PROTOCOLS)
    assert all(len(cell.seeds) == 3 for cell in paper)
    assert set(RECORDED) < {cell.data for cell in paper}


def test_candidates_are_settings_of_recipes() -> None:
    recipe = pytest.importorskip("bochner.acoustic.recipe", reason="needs bochner[speech]")
    for protocol in PROTOCOLS:
        for kind, settings in candidates(protocol, "paper").items():
            models = [recipe.parse_model({**values, "kind": kind}, protocol, 4) for values in settings]
            assert len({model.title for model in models}) > len(models) // 2
            assert all(model.max_epochs > 1 for model in models)
    papers = recipe.parse_model({"kind": "kernel"}, "papers", 4)
    assert (papers.preconditioner_rank, papers.average, papers.max_halvings) == (0, False, 10)


def test_the_bottleneck_grid_is_that_of_the_question() -> None:
    paper = bottleneck_cells("paper")
    kernels = [cell for cell in paper if cell.model != NETWORK]
    assert {cell.rank for cell in paper} == {None, 250, 1000}
    assert {cell.training for cell in kernels} == {PLAIN, PRECONDITIONED}
    assert {(cell.num_features, cell.data) for cell in kernels} == {(100_000, "synthetic broadcast-like")}
    assert {cell.width for cell in paper if cell.model == NETWORK} == {1000, 2000}
    assert {cell.seed for cell in paper} == {0, 1, 2}


def test_a_change_by_a_bottleneck_compares_equal_trainings() -> None:
    rows = [{**vars(cell), **speech_bottleneck(cell)} for cell in bottleneck_cells("small")]
    assert change("gaussian", PLAIN)(rows) == pytest.approx(-1.0)
    for row in rows:
        row["ter"] += 0.1 * (row["training"] == PRECONDITIONED) * (row["rank"] is not None)
    assert change("gaussian", PLAIN)(rows) == pytest.approx(-1.0)
    assert change("gaussian", PRECONDITIONED)(rows) == pytest.approx(9.0)
    assert change("gaussian", PLAIN)([row for row in rows if row["rank"]]) is None


def test_a_finding_is_open_where_its_interval_holds_the_limit() -> None:
    papers = next(finding for finding in FINDINGS if "papers" in finding.claim)
    row: dict[str, Any] = {"data": "an4", "protocol": "papers", **speech_tasks(None)}
    for ends, holds in (((-0.02, 0.001), True), ((-0.02, 0.02), None), ((0.01, 0.02), False)):
        row["differences"] = {"kernel": (sum(ends) / 2, *ends)}
        decision = papers.decide([row], None)
        assert decision is not None
        assert decision.holds is holds
    assert papers.decide([{**row, "protocol": "modern"}], None) is None


def test_paired_intervals_are_narrower_than_those_of_the_rates() -> None:
    pytest.importorskip("kaldi_hmm_gmm")
    from bochner.speech.score import Protocol, score
    from bochner.studies.speech_training import differences

    random = np.random.default_rng(0)
    references = {str(i): "a b c d e f g h" for i in range(60)}

    def hypotheses(errors: np.ndarray[Any, Any]) -> dict[str, str]:
        return {name: " ".join(["x"] * count + [["a", "b", "c", "d", "e", "f", "g", "h"][i] for i in range(count, 8)])
                for name, count in zip(references, errors, strict=True)}  # fmt: skip

    errors = random.integers(0, 7, 60)
    worse = np.minimum(errors + 1, 8)
    systems = {
        "network": [score(references, hypotheses(worse), protocol=Protocol())] * 2,
        "kernel": [score(references, hypotheses(each), protocol=Protocol()) for each in (errors, worse)],
    }
    found = differences(systems, "network")
    assert set(found) == {"kernel"}
    value, low, high = found["kernel"]
    assert value == pytest.approx(-1 / 16)  # one error of eight tokens, in one draw of two
    assert low == pytest.approx(high) == pytest.approx(value)  # every utterance differs alike


def test_draws_of_a_corpus_are_pooled_and_their_speakers_resampled() -> None:
    """Of 12 speakers in two draws one is recognised worse: all errors of a replication come from drawing that one."""
    pytest.importorskip("kaldi_hmm_gmm")
    from bochner.speech.score import Protocol, score
    from bochner.studies.speech_training import differences, pooled

    def draw(speakers: list[str], wrong: str) -> Any:
        references = {f"{speaker}-{i}": "a b" for speaker in speakers for i in range(len(speakers))}
        hypotheses = {name: "x b" if name.startswith(wrong) else text for name, text in references.items()}
        return score(
            references, hypotheses, protocol=Protocol(), speakers={name: name.split("-")[0] for name in references}
        )

    names = [f"s{i:02}" for i in range(12)]
    draws = [names[:8], names[8:]]
    systems = {
        "network": [draw(speakers, "nobody") for speakers in draws],
        "kernel": [draw(speakers, "s03") for speakers in draws],
    }
    assert pooled(systems["kernel"]).rate == 8 / (2 * (8 * 8 + 4 * 4))  # not the mean of 1 / 16 and 0
    value, low, high = differences(systems, "network")["kernel"]
    assert value == pooled(systems["kernel"]).rate
    assert low == 0.0  # a third of the replications miss the speaker
    assert high > 2 * value  # and some have it three times


@pytest.mark.parametrize(
    ("kernels", "networks", "budget", "tried"),
    [
        ([4.0, 7.0, 5.0], [8.0, 3.0, 5.0], 10.0, (2, 2)),
        ([4.0, 7.0, 5.0], [5.0, 3.0, 5.0], 1.0, (1, 1)),  # 1 second less, but another model takes 4
        ([4.0, 4.0, 4.0, 4.0], [3.0, 17.0], 6.0, (4, 2)),
        ([3.0, 17.0], [4.0, 4.0, 4.0, 4.0], 6.0, (2, 4)),
        ([4.0, 5.0, 4.0, 4.0], [3.0, 11.0], 6.0, (3, 2)),  # 13 of 14 seconds
    ],
)
def test_the_search_ends_with_its_budget(
    kernels: list[float], networks: list[float], budget: float, tried: tuple[int, int]
) -> None:
    pytest.importorskip("kaldi_hmm_gmm")
    from bochner.studies.speech_training import search_models

    experiment: Any = SimpleNamespace(
        device="cpu", fit=lambda model, seed: SimpleNamespace(result={"cpu_seconds": model, "seconds": 99.0})
    )
    models: Any = {"kernel": kernels, "network": networks}
    trained = search_models(models, experiment, 0, budget=budget)
    assert tuple(len(models) for models, _ in trained.values()) == tried
    assert [seconds for _, seconds in trained.values()] == [sum(kernels[: tried[0]]), sum(networks[: tried[1]])]


def test_models_that_dev_cannot_tell_apart_are_compared_on_heldout_frames() -> None:
    pytest.importorskip("kaldi_hmm_gmm")
    from bochner.speech.score import Protocol, score
    from bochner.studies.speech_training import choose_model

    references = {str(i): "a b c d" for i in range(50)}

    def wrong(*errors: int) -> Any:
        hypotheses = {name: "x b c d" if int(name) in errors else text for name, text in references.items()}
        return score(references, hypotheses, protocol=Protocol())

    def row(score: Any, err: float) -> Any:
        return SimpleNamespace(dev={"ter": score.rate}, heldout={"err": err})

    scores = [wrong(1, 2, 3), wrong(1, 4, 5, 6), wrong(*range(30))]
    rows = [row(score, err) for score, err in zip(scores, (0.3, 0.2, 0.1), strict=True)]
    assert choose_model(rows, scores) is rows[1]
    assert choose_model([rows[0], rows[2]], [scores[0], scores[2]]) is rows[0]
    assert choose_model(rows[2:], scores[2:]) is rows[2]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_task_runs_from_scratch(protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("espeakng_loader")
    pytest.importorskip("kaldi_hmm_gmm")
    from bochner.studies import speech_tasks as module

    small = replace(SIZES["smoke"], budget=1000.0, seeds=(0, 1))
    kernel, network = (settings[0] for settings in candidates(protocol, "smoke").values())
    kernel = {**kernel, "adapt": None, "bandwidth": 8.0}
    models = {"kernel": [kernel, {**kernel, "num_features": 32}], "network": [network]}
    monkeypatch.setattr(module, "candidates", lambda *_: models)
    monkeypatch.setattr(module, "SIZES", {**SIZES, "smoke": small})
    monkeypatch.setattr(module, "PROTOCOLS", (protocol,))
    (study,) = module.STUDIES
    (row,) = run_study(study, tmp_path, tmp_path / "out", size="smoke").rows
    assert Cell(**{name: row[name] for name in ("data", "protocol", "effort", "seeds")}) == cells("smoke")[0]
    assert set(row["systems"]) == {"kernel", "network", "combination", "gmm"}
    assert [row["systems"][kind]["tried"] for kind in ("kernel", "network")] == [2, 1]
    assert (" + " in row["systems"]["kernel"]["model"]) == (protocol == "modern")  # of papers, a single model
    assert {system["seeds"] for system in row["systems"].values()} == {2}
    for value, low, high in row["differences"].values():
        assert low <= value <= high
    corpora = [path.read_text() for path in tmp_path.glob("out/cache/corpus/*/utterances.jsonl")]
    assert len(set(corpora)) == len(corpora) == 2  # one for each seed


@pytest.mark.parametrize(("size", "device"), [("small", "cpu"), ("paper", "cuda")])
def test_the_estimated_time_contains_the_budgets_of_both_sides(size: str, device: str) -> None:
    for cell in cells(size):
        assert operations(cell) / SPEEDS[device] >= 4 * SIZES[size].budget
