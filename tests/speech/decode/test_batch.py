"""Decoding of many utterances: resumed, in several processes, and with errors that name utterances."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bochner.speech import runtime
from bochner.speech.decode import Search, decode_utterances, read_hypotheses
from tests.processes import forked_workers

__all__ = ["forked_workers"]

SENTENCES = {f"u{i}": text for i, text in enumerate(["no on", "moon noon nun", "on", "nun no", "noon", "on moon"])}


@pytest.fixture
def asked():
    return []


@pytest.fixture
def settings(recogniser, asked):
    def likelihoods(name):
        asked.append(name)
        return recogniser.likelihoods(SENTENCES[name])

    return {"graph": recogniser.graph, "likelihoods": likelihoods, "ids": list(SENTENCES), "acoustic_weight": 1.0}


def test_words_of_each_utterance(tmp_path, settings):
    decoded = decode_utterances(tmp_path, **settings)
    assert {name: " ".join(words) for name, words in decoded.words.items()} == SENTENCES
    assert decoded.skipped == []
    assert read_hypotheses(tmp_path) == decoded


def test_a_killed_run_goes_on(tmp_path, settings, asked):
    whole = decode_utterances(tmp_path, **settings)
    file = tmp_path / "hypotheses.jsonl"
    content = file.read_bytes()
    file.write_bytes(b"".join(content.splitlines(keepends=True)[:3]) + b'{"id": "u3", "wor')
    asked.clear()
    assert decode_utterances(tmp_path, **settings) == whole
    assert asked == ["u3", "u4", "u5"]
    assert file.read_bytes() == content


def test_an_interrupt_loses_nothing_that_was_decoded(tmp_path, settings, asked):
    first = settings["likelihoods"]

    def interrupted(name):
        if name == "u2":
            raise KeyboardInterrupt
        return first(name)

    with pytest.raises(KeyboardInterrupt):
        decode_utterances(tmp_path, **{**settings, "likelihoods": interrupted})
    asked.clear()
    assert len(decode_utterances(tmp_path, **settings).words) == 6
    assert asked == ["u2", "u3", "u4", "u5"]


@pytest.mark.parametrize("change", [{"acoustic_weight": 0.5}, {"word_penalty": 1.0}, {"search": Search(beam=9.0)}])
def test_other_settings_in_the_same_directory_are_an_error(tmp_path, settings, change):
    decode_utterances(tmp_path, **settings)
    with pytest.raises(ValueError, match=r"decoding\.json .*there, .* here"):
        decode_utterances(tmp_path, **{**settings, **change})


def test_another_graph_in_the_same_directory_is_an_error(tmp_path, settings, recogniser):
    decode_utterances(tmp_path, **settings)
    with pytest.raises(ValueError, match="graph: "):
        decode_utterances(tmp_path, **{**settings, "graph": recogniser.graph.with_word_penalty(0.5)})


@pytest.mark.usefixtures("forked_workers")
def test_what_cannot_be_decoded_is_skipped_with_its_reason_in_one_process_or_two(tmp_path, settings, monkeypatch):
    monkeypatch.setattr(runtime, "MIN_SECONDS", 1e-9)  # processes also for little work
    good = settings["likelihoods"]
    bad = {"u1": np.zeros((0, 18)), "u3": np.full((9, 18), np.nan), "u4": np.zeros((9, 2))}

    def likelihoods(name):
        if name == "u5":
            raise KeyError(name)
        return bad[name] if name in bad else good(name)

    one = decode_utterances(tmp_path / "one", **{**settings, "likelihoods": likelihoods})
    assert list(one.words) == ["u0", "u2"]
    assert [skipped.id for skipped in one.skipped] == ["u1", "u3", "u4", "u5"]
    reasons = ["no frames", "NaN", "[T, 18]", "no likelihoods ('u5')"]
    assert all(reason in skipped.reason for reason, skipped in zip(reasons, one.skipped, strict=True))
    two = decode_utterances(tmp_path / "two", **{**settings, "likelihoods": likelihoods}, workers=2)
    assert two == one
    for name in ("hypotheses.jsonl", "skipped.jsonl"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_broken_lines_and_double_ids_are_named(tmp_path, settings):
    decode_utterances(tmp_path, **settings)
    (tmp_path / "hypotheses.jsonl").write_text(json.dumps({"id": "u0", "words": []}) + "\n[]\n")
    with pytest.raises(ValueError, match=r"hypotheses\.jsonl, line 2: not a hypothesis"):
        decode_utterances(tmp_path, **settings)
    with pytest.raises(ValueError, match="ids must differ"):
        decode_utterances(tmp_path / "other", **{**settings, "ids": ["u0", "u0"]})


@pytest.mark.parametrize("change", [{"acoustic_weight": 0.0}, {"word_penalty": float("nan")}, {"workers": 0}])
def test_wrong_settings_are_no_reason_to_skip(tmp_path, settings, change):
    with pytest.raises(ValueError, match="must be"):
        decode_utterances(tmp_path, **{**settings, **change})


def test_each_hypothesis_is_on_disk_before_the_next_is_begun(tmp_path, settings):
    """A kill loses at most one utterance."""
    file, there = tmp_path / "hypotheses.jsonl", []

    def likelihoods(name):
        there.append(len(file.read_text().splitlines()))
        return good(name)

    good = settings["likelihoods"]
    decode_utterances(tmp_path, **{**settings, "likelihoods": likelihoods})
    assert there == [0, 1, 2, 3, 4, 5]
