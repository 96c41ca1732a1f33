import dataclasses
import json
from importlib import import_module

import numpy as np
import pytest

from bochner.speech.align import compare_all, phone_segments
from bochner.speech.align import gmm as recipes
from bochner.speech.align.em import TrainingSet, adapt_to_speakers
from bochner.speech.align.forced import Search
from bochner.speech.align.gmm import STAGES, train_gmm
from bochner.speech.align.gmm_hmm import GmmHmm
from bochner.speech.align.gmm_recipe import Growth, LdaMllt, Monophone, Recipe, Sat, Tied
from bochner.speech.hmm.contexts import event_pdfs, frame_events
from tests.speech.align.conftest import SHIFT

SHORT = Growth(num_gaussians=60, iterations=4, grow_until=3, realign=(2,))
RECIPE = Recipe(
    monophone=Monophone(
        deltas=1,
        growth=Growth(num_gaussians=40, iterations=8, grow_until=7, realign=(2, 3, 4, 5, 6, 7), shared_variance=5),
    ),
    triphone=Tied(num_leaves=40, min_count=20, growth=SHORT),
    lda_mllt=LdaMllt(num_leaves=40, min_count=20, growth=SHORT, context=1, dim=6, adjust=(2, 3)),
    sat=Sat(num_leaves=40, min_count=20, growth=SHORT, adjust=(2, 3)),
    offset=0.0,
)


@pytest.fixture(scope="module")
def trained(made, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gmm")
    train_gmm(folder, made.lexicon, made.utterances, made.frames, recipe=RECIPE)
    return folder


def agreement(stage, made, paths=None):
    paths = stage.alignments.paths if paths is None else paths
    pairs = [
        (utterance.phones, phone_segments(stage.hmm, paths[utterance.id], frame_shift=SHIFT))
        for utterance in made.utterances
        if utterance.id in paths
    ]
    return compare_all(pairs, frame_shift=SHIFT)


@pytest.mark.parametrize("name", STAGES)
def test_every_stage_finds_the_phones(trained, made, name):
    stage = GmmHmm.load(trained / name)
    assert len(stage.alignments.paths) == len(made.utterances)
    assert not stage.alignments.skipped
    assert agreement(stage, made).boundaries_within > 0.95
    assert agreement(stage, made).frames_right > 0.9


def test_stages_have_the_shape_that_was_asked_for(trained, made):
    stages = {name: GmmHmm.load(trained / name) for name in STAGES}
    assert stages["monophone"].hmm.num_pdfs == 3 * len(made.lexicon.phones)
    assert stages["monophone"].hmm.context_width == 1
    assert stages["triphone"].hmm.num_pdfs == 40
    assert stages["triphone"].hmm.context_width == 3
    assert [stage.mixtures.dim for stage in stages.values()] == [12, 12, 6, 6]
    assert stages["lda_mllt"].view.matrix.shape == (6, 18)
    assert sorted(stages["sat"].transforms) == [f"speaker{number}" for number in range(4)]
    assert stages["triphone"].mixtures.num_gaussians > 40


def test_likelihood_rises_while_the_mixtures_grow(trained):
    history = GmmHmm.load(trained / "monophone").history
    assert len(history) == 8
    assert history[-1] > history[0] + 1


def test_adaptation_makes_speakers_likelier(trained, made):
    """Speakers of the artificial language differ by a shift, which SAT removes."""
    stage = GmmHmm.load(trained / "sat")
    speaker_of = {utterance.id: utterance.speaker for utterance in made.utterances}

    def likelihood(stage):
        scores = stage.scores(made.frames, speaker_of)
        return np.mean([scores.columns(name, path).max(axis=1).mean() for name, path in stage.labels.items()])

    plain = dataclasses.replace(stage, transforms={})
    assert likelihood(stage) > likelihood(plain)


def test_new_speakers_are_adapted_from_the_stage_before(trained, made):
    before, stage = GmmHmm.load(trained / "lda_mllt"), GmmHmm.load(trained / "sat")
    renamed = {utterance.id: f"new-{utterance.speaker}" for utterance in made.utterances}
    adapted = adapt_to_speakers(stage, made.frames, renamed, paths=before.alignments.paths, hmm=before.hmm)
    assert sorted(adapted.transforms) == sorted(set(renamed.values()))
    utterances = [utterance.replace(speaker=renamed[utterance.id]) for utterance in made.utterances]
    found = TrainingSet(made.lexicon, utterances, made.frames, Search()).align(adapted)
    assert agreement(adapted, made, found.paths).boundaries_within > 0.95


def test_tied_states_are_those_of_the_tree(trained):
    stage = GmmHmm.load(trained / "triphone")
    for path in list(stage.alignments.paths.values())[:5]:
        np.testing.assert_array_equal(event_pdfs(stage.hmm, frame_events(stage.hmm, path)), stage.hmm.table.pdf[path])


def test_what_is_there_is_not_trained_again(trained, made, monkeypatch):
    for name in ("train_monophone", "train_triphone", "train_lda_mllt", "train_sat"):
        monkeypatch.setattr(recipes, name, lambda *_: pytest.fail("trained again"))
    stage = train_gmm(trained, made.lexicon, made.utterances, made.frames, recipe=RECIPE)
    np.testing.assert_array_equal(stage.mixtures.means, GmmHmm.load(trained / "sat").mixtures.means)


def test_a_removed_stage_is_trained_to_the_same(trained, made, tmp_path):
    """Stopping after the first stage and continuing gives the same as one run."""
    for until in ("monophone", "triphone"):
        stage = train_gmm(tmp_path, made.lexicon, made.utterances, made.frames, recipe=RECIPE, until=until)
    np.testing.assert_array_equal(stage.mixtures.means, GmmHmm.load(trained / "triphone").mixtures.means)
    assert not (tmp_path / "lda_mllt").exists()


def test_other_settings_are_refused(trained, made):
    other = dataclasses.replace(RECIPE, triphone=dataclasses.replace(RECIPE.triphone, num_leaves=30))
    with pytest.raises(ValueError, match=r"triphone.*num_leaves.: 40.*num_leaves.: 30"):
        train_gmm(trained, made.lexicon, made.utterances, made.frames, recipe=other)
    later = dataclasses.replace(RECIPE, sat=dataclasses.replace(RECIPE.sat, num_leaves=30))
    train_gmm(
        trained, made.lexicon, made.utterances, made.frames, recipe=later, until="lda_mllt"
    )  # sat is not asked for


def test_an_interrupted_stage_leaves_nothing(made, tmp_path, monkeypatch):
    monkeypatch.setattr(import_module("bochner.speech.align.gmm_hmm"), "write_skipped", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train_gmm(tmp_path, made.lexicon, made.utterances[:8], made.frames, recipe=RECIPE, until="monophone")
    assert list(tmp_path.iterdir()) == []


def test_known_times_are_a_better_start(made, tmp_path):
    growth = Growth(num_gaussians=40, iterations=2, grow_until=1, realign=())
    known, equal = (
        train_gmm(
            tmp_path / start,
            made.lexicon,
            made.utterances,
            made.frames,
            recipe=Recipe(monophone=Monophone(deltas=1, start=start, growth=growth), offset=0.0),
            until="monophone",
        )
        for start in ("known", "equal")
    )
    assert agreement(known, made).frames_right > max(0.95, agreement(equal, made).frames_right)


def test_skipped_utterances_are_reported_and_kept(made, tmp_path):
    bad = made.utterances[0].replace(id="odd", text="unheard")
    utterances = [*made.utterances[:12], bad]
    frames = dict(made.frames, odd=made.frames["u00"])
    stage = train_gmm(tmp_path, made.lexicon, utterances, frames, recipe=RECIPE, until="monophone")
    assert [one.id for one in stage.alignments.skipped] == ["odd"]
    assert json.loads((tmp_path / "monophone" / "skipped.jsonl").read_text())["id"] == "odd"


def test_bad_arguments_are_named(made, tmp_path):
    arguments = (tmp_path, made.lexicon, made.utterances, made.frames)
    with pytest.raises(ValueError, match="until must be one of"):
        train_gmm(*arguments, until="dnn")
    with pytest.raises(ValueError, match="frames must be a FrameStore for workers 2, got dict"):
        train_gmm(*arguments, workers=2)
    with pytest.raises(ValueError, match="start must be one of"):
        Monophone(start="flat")
    with pytest.raises(
        ValueError, match=r"no utterance of 1 could be aligned: words missing from the lexicon \(what\)"
    ):
        train_gmm(tmp_path, made.lexicon, [made.utterances[0].replace(text="what")], made.frames, recipe=RECIPE)
    untimed = [made.utterances[0].replace(phones=())]
    settings = Recipe(monophone=Monophone(start="known"))
    with pytest.raises(ValueError, match="no times to start from"):
        train_gmm(tmp_path, made.lexicon, untimed, made.frames, recipe=settings)


def test_what_is_no_stage_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"stage\.json is missing"):
        GmmHmm.load(tmp_path)
    (tmp_path / "stage.json").write_text('{"version": 99}')
    with pytest.raises(ValueError, match="version 99"):
        GmmHmm.load(tmp_path)


def test_transforms_are_estimated_in_the_iterations_of_kaldis_scripts():
    """mllt_iters of train_lda_mllt.sh and fmllr_iters of train_sat.sh."""
    assert LdaMllt().adjust == Sat().adjust == (2, 4, 6, 12)
