"""Tuning reads only dev, and finds the best setting."""

from __future__ import annotations

import numpy as np
import pytest

from bochner.speech import runtime
from bochner.speech.decode import decode, tune
from bochner.speech.manifest import Utterance

SENTENCES = {"u1": "no on", "u2": "moon noon nun", "u3": "on"}


def utterances(part="dev"):
    return [
        Utterance(id=name, speaker="s", part=part, text=text, duration=1.0, audio="a.wav", rate=8000)
        for name, text in SENTENCES.items()
    ]


def wrong_words(references, hypotheses):
    return sum(
        abs(len(r) - len(h)) + sum(a != b for a, b in zip(r, h, strict=False))
        for r, h in zip(references, hypotheses, strict=True)
    )


@pytest.fixture
def likelihoods(recogniser):
    return lambda name: recogniser.likelihoods(SENTENCES[name], height=3.0, noise=1.5, seed=5)


def test_the_errors_are_those_of_decoding_each_setting(recogniser, likelihoods):
    weights, penalties = (0.01, 0.2, 1.0), (0.0, 30.0)
    found = tune(
        recogniser.graph,
        likelihoods,
        utterances(),
        error=wrong_words,
        acoustic_weights=weights,
        word_penalties=penalties,
    )
    for (weight, penalty), error in found.errors.items():
        graph = recogniser.graph.with_word_penalty(penalty)
        words = [decode(graph, likelihoods(name), acoustic_weight=weight).words for name in SENTENCES]
        assert error == wrong_words([tuple(text.split()) for text in SENTENCES.values()], words)
    assert set(found.errors) == {(w, p) for w in weights for p in penalties}
    assert found.error == min(found.errors.values()) < max(found.errors.values())
    assert found.errors[found.acoustic_weight, found.word_penalty] == found.error


def test_equal_errors_take_the_first_setting(recogniser, likelihoods):
    found = tune(
        recogniser.graph,
        likelihoods,
        utterances(),
        error=lambda r, h: 0.0,
        acoustic_weights=(0.3, 0.2),
        word_penalties=(1.0, 0.0),
    )
    assert (found.acoustic_weight, found.word_penalty) == (0.3, 1.0)


@pytest.mark.parametrize("part", ["test", "train", "heldout"])
def test_other_parts_are_refused_before_anything_is_read(recogniser, part):
    def never(name):
        raise AssertionError

    with pytest.raises(ValueError, match=f"must be of part dev, but u1 is of part {part}"):
        tune(recogniser.graph, never, utterances(part), error=wrong_words)


def test_utterances_without_likelihoods_are_reported(recogniser, likelihoods):
    def some(name):
        return np.zeros((0, 18)) if name == "u2" else likelihoods(name)

    found = tune(recogniser.graph, some, utterances(), error=lambda r, h: len(r), acoustic_weights=(0.1,))
    assert found.error == 2
    assert found.skipped == [("u2", "no frames.")]


def test_nothing_to_tune_on_is_an_error(recogniser, likelihoods):
    with pytest.raises(ValueError, match="at least one utterance of part dev"):
        tune(recogniser.graph, likelihoods, [], error=wrong_words)
    with pytest.raises(ValueError, match="no utterance of 3 could be decoded; the first: no frames"):
        tune(recogniser.graph, lambda name: np.zeros((0, 18)), utterances(), error=wrong_words, acoustic_weights=(0.1,))
    with pytest.raises(ValueError, match="got NaN"):
        tune(recogniser.graph, likelihoods, utterances(), error=lambda r, h: float("nan"), acoustic_weights=(0.1,))


def test_wrong_settings_are_named(recogniser, likelihoods):
    with pytest.raises(ValueError, match="acoustic_weights must be a positive finite number, got 0"):
        tune(recogniser.graph, likelihoods, utterances(), error=wrong_words, acoustic_weights=(0.1, 0.0))
    with pytest.raises(ValueError, match="at least one number each"):
        tune(recogniser.graph, likelihoods, utterances(), error=wrong_words, word_penalties=())


def test_the_number_of_processes_does_not_change_the_result(recogniser, likelihoods, monkeypatch):
    monkeypatch.setattr(runtime, "MIN_SECONDS", 1e-9)  # processes also for little work
    settings = {"error": wrong_words, "acoustic_weights": (0.2, 1.0), "word_penalties": (0.0, 5.0)}

    def unknown_first(name):
        return likelihoods(name) if name != "u1" else np.zeros((3, 1))

    for scores in (likelihoods, unknown_first):
        one, two = (tune(recogniser.graph, scores, utterances(), **settings, workers=n) for n in (1, 2))
        assert one == two
    assert [entry.id for entry in two.skipped] == ["u1"]
