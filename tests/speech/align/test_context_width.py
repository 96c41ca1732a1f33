"""Context-independent states and quinphones: trained, aligned, adapted and decoded like triphones."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from bochner.speech.align.gmm import STAGES, train_gmm
from bochner.speech.align.gmm_hmm import GmmHmm
from bochner.speech.align.gmm_recipe import Recipe, recipe_for
from bochner.speech.decode import decode
from bochner.speech.graph import compose_graph
from bochner.speech.hmm.contexts import event_pdfs, frame_events
from bochner.speech.lm import uniform
from tests.speech.align.conftest import Made
from tests.speech.align.test_gmm import RECIPE, agreement


def recipe(context_width: int) -> Recipe:
    tied = {name: dataclasses.replace(getattr(RECIPE, name), context_width=context_width) for name in STAGES[1:]}
    return dataclasses.replace(RECIPE, **tied)


@pytest.fixture(scope="module", params=[1, 5])
def stages(request: pytest.FixtureRequest, made: Made, tmp_path_factory: pytest.TempPathFactory) -> dict[str, GmmHmm]:
    directory: Path = tmp_path_factory.mktemp("gmm")
    train_gmm(directory, made.lexicon, made.utterances, made.frames, recipe=recipe(request.param))
    return {name: GmmHmm.load(directory / name) for name in STAGES}


def test_states_are_untied_or_tied_in_a_window_of_five(stages: dict[str, GmmHmm], made: Made) -> None:
    width = stages["sat"].hmm.context_width
    for name in STAGES[1:]:
        assert stages[name].hmm.context_width == width
        if width == 1:
            assert stages[name].hmm.num_pdfs == 3 * len(made.lexicon.phones)
        else:  # at most, since splits must help held-out speakers
            assert len(made.lexicon.phones) < stages[name].hmm.num_pdfs <= 40
        assert agreement(stages[name], made).boundaries_within > 0.95


def test_paths_of_kaldis_graphs_have_the_states_of_the_tree(stages: dict[str, GmmHmm]) -> None:
    """Also at the edges of utterances, where the window has no phones, and beside silence."""
    for name in STAGES[1:]:
        hmm = stages[name].hmm
        for path in stages[name].alignments.paths.values():
            events = frame_events(hmm, path, context_width=hmm.context_width)
            np.testing.assert_array_equal(event_pdfs(hmm, events), hmm.table.pdf[path])


def test_utterances_are_decoded(stages: dict[str, GmmHmm], made: Made) -> None:
    stage = stages["triphone"]
    graph = compose_graph(hmm=stage.hmm, lexicon=made.lexicon, grammar=uniform(made.lexicon.words))
    frames = stage.viewed(made.frames, {utterance.id: utterance.speaker for utterance in made.utterances})
    for utterance in made.utterances[:5]:
        scores = stage.mixtures.log_likelihoods(frames[utterance.id])
        assert " ".join(decode(graph, scores).words) == utterance.text


def test_sizes_are_at_most_those_of_kaldi() -> None:
    settings = recipe_for(
        10**8, num_phones=49, start="equal", num_leaves=None, num_gaussians=None, silence=(), shift=0.01, offset=0.0075,
        seed=0,
    )  # fmt: skip
    assert settings.monophone.growth.num_gaussians == 1000
    assert {(stage.num_leaves, stage.growth.num_gaussians) for stage in (settings.triphone, settings.sat)} == {
        (2000, 10_000)
    }


def test_the_width_of_a_recipe_reaches_all_tied_stages() -> None:
    settings = recipe_for(
        30_000, num_phones=49, start="equal", num_leaves=None, num_gaussians=None, silence=(), shift=0.005,
        offset=0.01, seed=0, context_width=5,
    )  # fmt: skip
    assert {getattr(settings, name).context_width for name in STAGES[1:]} == {5}
    assert settings.frame_shift == 0.005
    with pytest.raises(ValueError, match=r"context_width must be one of .*1, 3, 5.*, got 2"):
        dataclasses.replace(RECIPE.triphone, context_width=2)
