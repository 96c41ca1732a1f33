"""A whole recipe on a minute of synthetic speech: what it leaves, and what it does not do twice."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from bochner.acoustic import contest as contest_module
from bochner.acoustic import opening
from bochner.acoustic.recipe import AsrRecipe, load_recipe
from bochner.acoustic.results import Results, Row, read_results
from bochner.acoustic.run import run_recipe
from bochner.acoustic.table import comparison

EASY = {"num_words": 12, "snr": [30, 40], "telephone": 0, "babble": 0}
TINY = {
    "corpus": {"kind": "synthetic", "language": "english", "hours": 0.02, "tokens": "phones", **EASY},
    "frontend": {"context": 2},
    "alignment": {"until": "monophone", "start": "known"},
    "models": {
        "few": {"kind": "kernel", "num_features": 2, "bandwidth": 10, "max_epochs": 1, "learning_rate": 1},
        "many": {"kind": "kernel", "num_features": 256, "bandwidth": 10, "max_epochs": 2, "learning_rate": 50},
        "network": {"kind": "network", "hidden": [16], "max_epochs": 2, "learning_rate": 0.3},
    },
}


class Ran(NamedTuple):
    recipe: AsrRecipe
    folder: Path
    results: Results


def tiny(folder: Path, **changes: Any) -> AsrRecipe:
    (folder / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    return load_recipe(folder / "tiny.yaml", changes=changes)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    pytest.importorskip("espeakng_loader")
    pytest.importorskip("kaldi_hmm_gmm")
    folder = tmp_path_factory.mktemp("asr")
    recipe = tiny(folder)
    return Ran(recipe, folder, run_recipe(recipe, folder))


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Names of functions that must not be called."""

    def refuse(*arguments: object, **settings: object) -> None:
        raise AssertionError("something is done again")

    def forbid(module: Any, *names: str) -> None:
        for name in names:
            monkeypatch.setattr(module, name, refuse)

    return forbid  # type: ignore[return-value]


def without_seconds(results: Results) -> list[Row]:
    return [replace(row, seconds=0.0) for row in results.rows]


def test_every_model_is_measured_and_decoded_and_only_the_chosen_are_tested(ran: Ran) -> None:
    rows = {row.model: row for row in ran.results.rows}
    assert list(rows) == ["few", "many", "network", "monophone GMM", "many + network"]
    assert all(0 <= row.dev["ter"] < 1 for row in rows.values())
    assert {name for name, row in rows.items() if row.test is None} == {"few"}
    assert rows["many"].dev["ter"] < rows["few"].dev["ter"]
    measures = rows["network"].heldout
    assert measures["erll"] == pytest.approx(measures["ce"] + measures["ent"])
    assert measures["perplexity_silence_collapsed"] <= measures["perplexity"]


def test_the_error_on_test_is_that_of_the_hypotheses_at_the_weights_of_dev(ran: Ran) -> None:
    for row in ran.results.rows:
        if row.test is not None:
            decoded = ran.folder / row.folder / "decoded" / "test"
            assert json.loads((decoded / "score.json").read_text())["rate"] == row.test["ter"]
            used = json.loads((decoded / "decoding.json").read_text())["inputs"]
            assert {name: used[name] for name in ("acoustic_weight", "word_penalty")} == {
                name: row.dev[name] for name in ("acoustic_weight", "word_penalty")
            }


def test_results_and_recipe_are_written(ran: Ran) -> None:
    written = [asdict(row) for row in read_results(ran.folder).rows]
    assert written == json.loads(json.dumps([asdict(row) for row in ran.results.rows]))
    assert json.loads((ran.folder / "recipe.json").read_text()) == ran.recipe.plain()
    history = json.loads((ran.folder / ran.results.rows[0].folder / "history.json").read_text())
    assert len(history) == 1


def test_the_chosen_models_have_names_that_stay_and_can_be_moved(ran: Ran, tmp_path: Path) -> None:
    from bochner.acoustic.model import AcousticModel

    kernel, network = ran.results.chosen("kernel")[0], ran.results.chosen("network")[0]
    shutil.copytree(ran.folder / "models" / "kernel", tmp_path / "moved")
    model = AcousticModel.load(tmp_path / "moved")
    assert model.about["name"] == "many"
    assert model.weights.acoustic_weight == kernel.dev["acoustic_weight"]
    best = AcousticModel.load(ran.folder / "models" / "best").about["name"]
    assert best == ("many" if kernel.dev["ter"] <= network.dev["ter"] else "network")


def test_the_same_again_does_nothing(ran: Ran, refusing: Callable[..., None]) -> None:
    refusing(opening, "align_corpus")
    refusing(contest_module, "train_model", "heldout_measures", "best_combination", "LabelledRows")
    refusing(contest_module.AcousticModel, "load")
    before = (ran.folder / "results.json").read_bytes()
    assert run_recipe(ran.recipe, ran.folder).rows == ran.results.rows
    assert (ran.folder / "results.json").read_bytes() == before


def test_a_wider_beam_decodes_anew_and_trains_nothing(ran: Ran, refusing: Callable[..., None]) -> None:
    refusing(opening, "align_corpus")
    refusing(contest_module, "train_model")
    wide = run_recipe(tiny(ran.folder, **{"decoding.beam": 20.0, "combine": False}), ran.folder)
    assert {row.folder for row in wide.rows}.isdisjoint(row.folder for row in ran.results.rows)
    assert [row.heldout for row in wide.rows] == [row.heldout for row in ran.results.rows[:4]]


def test_models_also_learn_from_train_at_other_speeds(ran: Ran) -> None:
    changes = {"frontend.speeds": [0.8], "models.few": None, "models.network": None}
    results = run_recipe(tiny(ran.folder, **changes), ran.folder)
    (faster,) = results.of_kind("kernel")
    (plain,) = (row for row in ran.results.rows if row.model == "many")
    assert faster.heldout["ce"] != plain.heldout["ce"]
    assert results.of_kind("gmm")[0].folder == ran.results.of_kind("gmm")[0].folder


def test_the_chosen_are_trained_once_more_on_states_of_their_own(ran: Ran) -> None:
    results = run_recipe(tiny(ran.folder, realign=True, combine=False), ran.folder)
    names = [row.model for row in results.rows]
    assert names == ["few", "many", "network", "monophone GMM", "many realigned", "network realigned"]
    first, second = (next(row for row in results.rows if row.model == name) for name in ("many", "many realigned"))
    assert second.heldout["ce"] != first.heldout["ce"]
    assert {row.model for row in results.chosen("kernel")} == {
        min((first, second), key=lambda row: row.dev["ter"]).model
    }


def test_the_chosen_are_trained_further_by_utterances(ran: Ran) -> None:
    """They are not confused with those they come from: each has a column of its own."""
    results = run_recipe(tiny(ran.folder, sequence="both", combine=False), ran.folder)
    columns = dict(zip(*comparison(results)[:2], strict=True))
    assert (columns["kernel MMI"], columns["network MMI"]) == ("many MMI", "network MMI")
    assert (columns["best kernel"], columns["best network"]) == ("many", "network")
    for kind in ("sequence", "network sequence"):
        (further,) = results.chosen(kind)
        history = json.loads((ran.folder / further.folder / "sequence.json").read_bytes())
        assert min(record["loss"] for record in history[1:]) < history[0]["loss"]
        assert further.test is not None


def test_true_is_still_the_kernel_model_and_finds_it_trained(ran: Ran, refusing: Callable[..., None]) -> None:
    both = run_recipe(tiny(ran.folder, sequence="both", combine=False), ran.folder)
    refusing(contest_module, "sequence_trained")
    kernel = run_recipe(tiny(ran.folder, sequence=True, combine=False), ran.folder)
    assert kernel.chosen("sequence") == both.chosen("sequence")
    assert kernel.chosen("network sequence") == []


def test_a_stopped_run_goes_on_with_the_model_it_was_at(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    """With another seed everything but the corpus and its alignment is new."""
    recipe, train, done = tiny(ran.folder, seeds=[1]), contest_module.train_model, list[str]()

    def stopping(settings: Any, *arguments: Any, **options: Any) -> Any:
        if settings.name == "network" and "network" not in done:
            done.append("network")
            raise KeyboardInterrupt
        done.append(settings.name)
        return train(settings, *arguments, **options)

    monkeypatch.setattr(contest_module, "train_model", stopping)
    with pytest.raises(KeyboardInterrupt):
        run_recipe(recipe, ran.folder)
    resumed = run_recipe(recipe, ran.folder)
    assert done == ["few", "many", "network", "network"]
    assert {row.seed for row in resumed.rows if row.kind != "gmm"} == {1}
    assert without_seconds(resumed) != without_seconds(ran.results)


def test_a_corpus_without_dev_is_refused(ran: Ran, tmp_path: Path) -> None:
    corpus = next((ran.folder / "corpus").iterdir())
    shutil.copytree(corpus, tmp_path / "corpus")
    manifest = tmp_path / "corpus" / "utterances.jsonl"
    lines = [line for line in manifest.read_text().splitlines() if '"part": "dev"' not in line]
    manifest.write_text("\n".join(lines) + "\n")
    recipe = tiny(tmp_path, corpus={"kind": "directory", "source": str(tmp_path / "corpus")})
    with pytest.raises(ValueError, match=r"must have the parts train, heldout, dev, test, but has no dev;"):
        run_recipe(recipe, tmp_path / "out")
