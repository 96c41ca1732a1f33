"""A whole experiment on a minute of synthetic speech: its files, and that no stage is repeated."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from bochner.acoustic import experiment as experiment_module
from bochner.acoustic.decoding import tune_weights
from bochner.acoustic.experiment import Experiment, FinishedStage, run_recipe, run_stage, setup
from bochner.acoustic.model import AcousticModel
from bochner.acoustic.recipe import AsrRecipe, load_recipe
from bochner.acoustic.results import Results, Row, comparison, read_results
from bochner.speech.corpora.corpus_directory import SpeechCorpus
from bochner.speech.frames import FrameStore
from bochner.speech.frontend.postprocess import normalize
from bochner.speech.pipeline.alignment import Execution
from tests.acoustic import aligned_speech

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
    directory: Path
    results: Results


def tiny(directory: Path, **overrides: Any) -> AsrRecipe:
    (directory / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    return load_recipe(directory / "tiny.yaml", overrides=overrides)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    pytest.importorskip("espeakng_loader")
    pytest.importorskip("kaldi_hmm_gmm")
    directory = tmp_path_factory.mktemp("asr")
    recipe = tiny(directory)
    return Ran(recipe, directory, run_recipe(recipe, directory))


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Names of functions that must not be called."""

    def refuse(*arguments: object, **settings: object) -> None:
        raise AssertionError("a finished step is repeated")

    def forbid(module: Any, *names: str) -> None:
        for name in names:
            monkeypatch.setattr(module, name, refuse)

    return forbid  # type: ignore[return-value]


def without_seconds(results: Results) -> list[Row]:
    return [replace(row, seconds=0.0) for row in results.rows]


def test_every_model_is_measured_and_decoded_and_only_the_chosen_are_tested(ran: Ran) -> None:
    rows = {row.model: row for row in ran.results.rows}
    with_gmm = ["many + monophone GMM", "network + monophone GMM"]
    assert list(rows) == ["few", "many", "network", "monophone GMM", "many + network", *with_gmm]
    assert all(0 <= row.dev["ter"] < 1 for row in rows.values())
    worse = max(with_gmm[::-1], key=lambda name: rows[name].dev["ter"])
    assert {name for name, row in rows.items() if row.test is None} == {"few", worse}
    assert rows["many"].dev["ter"] < rows["few"].dev["ter"]
    scores = rows["network"].heldout
    assert scores["erll"] == pytest.approx(scores["ce"] + scores["ent"])
    assert scores["perplexity_silence_collapsed"] <= scores["perplexity"]


def test_the_error_on_test_is_that_of_the_hypotheses_at_the_weights_of_dev(ran: Ran) -> None:
    for row in ran.results.rows:
        if row.test is not None:
            decoded = ran.directory / row.directory / "decoded" / "test"
            assert json.loads((decoded / "score.json").read_text())["rate"] == row.test["ter"]
            used = json.loads((decoded / "decoding.json").read_text())["inputs"]
            assert {name: used[name] for name in ("acoustic_weight", "word_penalty")} == {
                name: row.dev[name] for name in ("acoustic_weight", "word_penalty")
            }


def test_results_and_recipe_are_written(ran: Ran) -> None:
    written = [asdict(row) for row in read_results(ran.directory).rows]
    assert written == json.loads(json.dumps([asdict(row) for row in ran.results.rows]))
    assert json.loads((ran.directory / "recipe.json").read_text()) == ran.recipe.to_dict()
    history = json.loads((ran.directory / ran.results.rows[0].directory / "history.json").read_text())
    assert len(history) == 1


def test_the_chosen_models_have_names_that_stay_and_can_be_moved(ran: Ran, tmp_path: Path) -> None:
    (kernel,) = ran.results.chosen("kernel")
    shutil.copytree(ran.directory / "models" / "kernel", tmp_path / "moved")
    model = AcousticModel.load(tmp_path / "moved")
    assert model.about["name"] == "many"
    assert model.weights.acoustic_weight == kernel.dev["acoustic_weight"]
    gmm = AcousticModel.load(ran.directory / "models" / "gmm")
    assert gmm.module is None
    least = min(row.dev["ter"] for row in ran.results.rows)
    about = AcousticModel.load(ran.directory / "models" / "best").about
    name = " + ".join(member["name"] for member in about.get("combination", [about]))
    assert [row.dev["ter"] for row in ran.results.rows if row.model == name] == [least]


def test_the_gmm_is_the_best_model_if_it_is_best_on_dev(ran: Ran, tmp_path: Path) -> None:
    rows = [replace(row, dev={**row.dev, "ter": 0.0 if row.kind == "gmm" else 0.5}) for row in ran.results.rows]
    for row in rows:
        shutil.copytree(ran.directory / row.directory, tmp_path / row.directory)
    experiment_module.link_chosen(replace(ran.results, rows=rows), tmp_path)
    assert AcousticModel.load(tmp_path / "models" / "best").about["kind"] == "gmm"


def test_the_combination_with_the_gmm_is_the_best_model_if_it_is_best_on_dev(ran: Ran, tmp_path: Path) -> None:
    name = ran.results.chosen("with gmm")[0].model
    rows = [replace(row, dev={**row.dev, "ter": 0.0 if row.model == name else 0.5}) for row in ran.results.rows]
    for row in rows:
        shutil.copytree(ran.directory / row.directory, tmp_path / row.directory)
    experiment_module.link_chosen(replace(ran.results, rows=rows), tmp_path)
    best = AcousticModel.load(tmp_path / "models" / "best")
    assert best.uses_mixtures
    assert best.module is not None
    assert " + ".join(member["name"] for member in best.about["combination"]) == name


def test_the_saved_gmm_decodes_as_the_gmm(ran: Ran) -> None:
    import numpy as np

    aligned = setup(ran.recipe, ran.directory, device="cpu").aligned
    name = aligned.ids("dev")[0]
    own = AcousticModel.load(ran.directory / "models" / "gmm").log_likelihoods(aligned.frames[name])
    difference = own - aligned.gmm_scores()(name)
    assert np.ptp(difference, axis=1).max() < 0.01  # log p(x | s) up to a constant for each frame


def test_a_repeated_run_does_nothing(ran: Ran, refusing: Callable[..., None]) -> None:
    refusing(experiment_module, "align_corpus")
    refusing(experiment_module, "train_model", "frame_scores", "best_combination", "SplicedFrames")
    refusing(experiment_module.AcousticModel, "load")
    before = (ran.directory / "results.json").read_bytes()
    assert run_recipe(ran.recipe, ran.directory).rows == ran.results.rows
    assert (ran.directory / "results.json").read_bytes() == before


def test_a_wider_beam_decodes_anew_and_trains_nothing(ran: Ran, refusing: Callable[..., None]) -> None:
    refusing(experiment_module, "align_corpus")
    refusing(experiment_module, "train_model")
    wide = run_recipe(tiny(ran.directory, **{"decoding.beam": 20.0, "combine": False}), ran.directory)
    assert {row.directory for row in wide.rows}.isdisjoint(row.directory for row in ran.results.rows)
    assert [row.heldout for row in wide.rows] == [row.heldout for row in ran.results.rows[:4]]


def test_models_also_learn_from_train_at_other_speeds(ran: Ran) -> None:
    changes = {"frontend.speeds": [0.8], "models.few": None, "models.network": None}
    results = run_recipe(tiny(ran.directory, **changes), ran.directory)
    (faster,) = results.of_kind("kernel")
    (plain,) = (row for row in ran.results.rows if row.model == "many")
    assert faster.heldout["ce"] != plain.heldout["ce"]
    assert results.of_kind("gmm")[0].directory == ran.results.of_kind("gmm")[0].directory


def test_recordings_transcribed_alone_have_decoding_weights_of_their_own(tmp_path: Path) -> None:
    """Those of least error on dev, each recording normalised by itself and decoded by the unadapted mixtures."""
    pytest.importorskip("kaldi_hmm_gmm")
    aligned, alignment = aligned_speech.aligned(), FinishedStage(tmp_path, "key", {"seconds": 0.0})
    models = []
    for alone in (True, False):
        recipe = tiny(tmp_path, **{"frontend.alone": alone, "alignment.until": "sat"})
        row = Experiment(recipe, tmp_path, alignment, aligned, Execution(), "cpu").gmm()
        models.append(AcousticModel.load(tmp_path / row.directory / "acoustic"))
    model, plain = models
    raw = FrameStore(aligned.directory / "raw")

    def scores(name: str) -> Any:
        frames = model.stage.view(normalize(raw[name], model.prior.moments([raw[name]])))
        return replace(model, stage=replace(model.stage, mixtures=model.unadapted)).log_likelihoods(frames)

    expected = tune_weights(scores, aligned, output_dir=tmp_path / "expected", execution=Execution())
    assert model.unadapted_weights == model.speaker_independent.weights == expected
    assert plain.unadapted_weights is None
    assert plain.speaker_independent.weights == plain.weights == model.weights


def test_chosen_models_are_retrained_on_their_own_alignments(ran: Ran) -> None:
    results = run_recipe(tiny(ran.directory, realign=True, combine=False), ran.directory)
    names = [row.model for row in results.rows]
    assert names == ["few", "many", "network", "monophone GMM", "many realigned", "network realigned"]
    first, second = (next(row for row in results.rows if row.model == name) for name in ("many", "many realigned"))
    assert second.heldout["ce"] != first.heldout["ce"]
    assert {row.model for row in results.chosen("kernel")} == {
        min((first, second), key=lambda row: row.dev["ter"]).model
    }


def test_chosen_models_are_trained_by_the_sequence_objective(ran: Ran) -> None:
    """They are listed separately from the models they come from, each in its own column."""
    results = run_recipe(tiny(ran.directory, sequence="both", combine=False), ran.directory)
    columns = dict(zip(*comparison(results)[:2], strict=True))
    assert (columns["kernel MMI"], columns["network MMI"]) == ("many MMI", "network MMI")
    assert (columns["best kernel"], columns["best network"]) == ("many", "network")
    for kind in ("sequence", "network sequence"):
        (further,) = results.chosen(kind)
        history = json.loads((ran.directory / further.directory / "sequence.json").read_bytes())
        assert min(record["loss"] for record in history[1:]) < history[0]["loss"]
        assert further.test is not None


def test_an_ensemble_averages_all_models_of_a_kind(ran: Ran, refusing: Callable[..., None]) -> None:
    import torch

    refusing(experiment_module, "train_model")
    results = run_recipe(tiny(ran.directory, ensemble=True, combine=False), ran.directory)
    (row,) = results.of_kind("kernel ensemble")
    assert results.of_kind("network ensemble") == []  # of a single network
    assert (row.model, row.seconds) == ("few + many", sum(r.seconds for r in ran.results.of_kind("kernel")))
    assert row.test is not None
    aligned = setup(ran.recipe, ran.directory, device="cpu").aligned
    frames = aligned.frames[aligned.ids("dev")[0]]
    members = [AcousticModel.load(ran.directory / r.directory / "acoustic") for r in ran.results.of_kind("kernel")]
    mean = sum(torch.from_numpy(member.log_posteriors(frames)) for member in members) / 2
    together = AcousticModel.load(ran.directory / row.directory / "acoustic").log_posteriors(frames)
    assert torch.allclose(torch.from_numpy(together), mean.log_softmax(dim=1), atol=1e-5)


def test_sequence_true_is_the_kernel_model(ran: Ran, refusing: Callable[..., None]) -> None:
    both = run_recipe(tiny(ran.directory, sequence="both", combine=False), ran.directory)
    refusing(experiment_module, "sequence_trained")
    kernel = run_recipe(tiny(ran.directory, sequence=True, combine=False), ran.directory)
    assert kernel.chosen("sequence") == both.chosen("sequence")
    assert kernel.chosen("network sequence") == []


def test_an_interrupted_run_continues_with_its_current_model(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    """With another seed everything except the corpus and its alignment is computed again."""
    recipe, train, done = tiny(ran.directory, seeds=[1]), experiment_module.train_model, list[str]()

    def stopping(settings: Any, *arguments: Any, **options: Any) -> Any:
        if settings.name == "network" and "network" not in done:
            done.append("network")
            raise KeyboardInterrupt
        done.append(settings.name)
        return train(settings, *arguments, **options)

    monkeypatch.setattr(experiment_module, "train_model", stopping)
    with pytest.raises(KeyboardInterrupt):
        run_recipe(recipe, ran.directory)
    resumed = run_recipe(recipe, ran.directory)
    assert done == ["few", "many", "network", "network"]
    assert {row.seed for row in resumed.rows if row.kind != "gmm"} == {1}
    assert without_seconds(resumed) != without_seconds(ran.results)


def test_the_corpus_is_read_once_and_alignments_are_not_exported(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    reads, read = [], SpeechCorpus.read
    monkeypatch.setattr(SpeechCorpus, "read", lambda directory: reads.append(directory) or read(directory))
    setup(ran.recipe, ran.directory, device="cpu")
    assert len(reads) == 1
    exported = [path.name for path in (ran.directory / "alignment").rglob("*") if path.name in ("rows", "phones.ctm")]
    assert exported == []


def test_a_corpus_without_dev_is_refused(ran: Ran, tmp_path: Path) -> None:
    corpus = next((ran.directory / "corpus").iterdir())
    shutil.copytree(corpus, tmp_path / "corpus")
    manifest = tmp_path / "corpus" / "utterances.jsonl"
    lines = [line for line in manifest.read_text().splitlines() if '"part": "dev"' not in line]
    manifest.write_text("\n".join(lines) + "\n")
    recipe = tiny(tmp_path, corpus={"kind": "directory", "source": str(tmp_path / "corpus")})
    with pytest.raises(ValueError, match=r"must have the parts train, heldout, dev, test, but has no dev;"):
        run_recipe(recipe, tmp_path / "out")


class Maker:
    """Counts how often it is called."""

    def __init__(self, result: Mapping[str, Any] | None = None) -> None:
        self.result, self.directories = result or {}, list[Path]()

    def __call__(self, directory: Path) -> Mapping[str, Any]:
        self.directories.append(directory)
        return self.result


def chain(root: Path, makers: Mapping[str, Maker], *, hours: float = 1.0, rank: int = 5) -> FinishedStage:
    corpus = run_stage(root, "corpus", "digits", {"hours": hours}, makers["corpus"])
    return run_stage(root, "models", "kernel", {"rank": rank}, makers["model"], after=[corpus])


@pytest.fixture
def makers() -> dict[str, Maker]:
    return {"corpus": Maker({"utterances": 3}), "model": Maker({"ce": 0.5})}


def test_a_finished_stage_is_not_repeated(tmp_path: Path, makers: dict[str, Maker]) -> None:
    first = chain(tmp_path, makers)
    again = chain(tmp_path, makers)
    assert first == again
    assert again.result["ce"] == 0.5
    assert [len(maker.directories) for maker in makers.values()] == [1, 1]


def test_a_changed_setting_repeats_only_dependent_stages(tmp_path: Path, makers: dict[str, Maker]) -> None:
    first = chain(tmp_path, makers)
    assert chain(tmp_path, makers, rank=6).directory != first.directory
    assert [len(maker.directories) for maker in makers.values()] == [1, 2]
    assert chain(tmp_path, makers, hours=2.0).directory not in (first.directory, makers["model"].directories[1])
    assert [len(maker.directories) for maker in makers.values()] == [2, 3]
    assert chain(tmp_path, makers).directory == first.directory  # the old one is still there
    assert [len(maker.directories) for maker in makers.values()] == [2, 3]


def test_a_stopped_stage_continues_in_its_directory(tmp_path: Path) -> None:
    def stopped(directory: Path) -> Mapping[str, Any]:
        (directory / "half").write_text("done")
        raise KeyboardInterrupt

    def resumed(directory: Path) -> Mapping[str, Any]:
        return {"kept": (directory / "half").read_text()}

    with pytest.raises(KeyboardInterrupt):
        run_stage(tmp_path, "models", "kernel", {}, stopped)
    assert run_stage(tmp_path, "models", "kernel", {}, resumed).result["kept"] == "done"


def test_stored_results_are_those_of_json(tmp_path: Path) -> None:
    made = run_stage(tmp_path, "corpus", "c", {}, lambda directory: {"shape": (1, 2)})
    again = run_stage(tmp_path, "corpus", "c", {}, Maker())
    assert made == again


def test_a_rank_above_the_number_of_states_is_no_bottleneck(ran: Ran, caplog: pytest.LogCaptureFixture) -> None:
    changes = {"models.many.rank": 1000, "models.few": None, "models.network": None}
    results = run_recipe(tiny(ran.directory, **changes), ran.directory)
    assert results.of_kind("kernel")[0].settings["rank"] is None
    assert "many: no bottleneck, since rank 1000 is not below" in caplog.text
