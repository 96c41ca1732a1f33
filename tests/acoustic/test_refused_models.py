"""What models refuse or leave out, by their attributes alone: none is trained here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from bochner.acoustic import adaptation
from bochner.acoustic.adaptation import ADAPTATION_ROUNDS
from bochner.acoustic.language import with_language, with_words
from bochner.acoustic.model import Combination, combine
from bochner.acoustic.online import transcribe_stream
from bochner.acoustic.sequence import sequence_trained
from bochner.acoustic.transcription import _without_last_word, transcribe
from bochner.speech.lexicon import Lexicon
from bochner.speech.lm import estimate
from bochner.speech.manifest import Segment

LEXICON = Lexicon({"no": [("n", "o")], "on": [("o", "n"), ("a", "n")]})


def made(**attributes: Any) -> Any:
    defaults = {"front_end": None, "prior": None, "adapted": False, "grammar": None, "module": None, "lexicon": LEXICON}
    return SimpleNamespace(**{**defaults, **attributes})


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: transcribe(made(), [Path("a.wav")]), "trained on frames provided by a corpus"),
        (lambda: next(transcribe_stream(made(), [])), "trained on frames provided by a corpus"),
        (lambda: next(transcribe_stream(made(front_end="mfcc"), [])), "no prior of speakers; settings.moments must be"),
        (lambda: with_language(made()), "no language model to add words to; give one with --lm"),
        (lambda: sequence_trained(made(), made()), "must be a kernel model or a network, got a GMM"),
        (lambda: Combination([], torch.ones(0)), r"shares must be \[0\], one for each model, got \(0,\)"),
        (lambda: Combination([nn.Identity()] * 2, torch.ones(3)), r"shares must be \[2\], .* got \(3,\)"),
        (
            lambda: combine([made(splicer=1, hmm=made(num_pdfs=n)) for n in (4, 5)]),
            "must have the same frames, context and states",
        ),
        (
            lambda: combine([made(splicer=n, hmm=made(num_pdfs=4)) for n in (1, 2)]),
            "must have the same frames, context and states",
        ),
    ],
)
def test_the_reason_is_given(use: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        use()


def test_words_that_a_language_model_has_are_not_added() -> None:
    grammar = estimate(["a b", "a"], order=1, fallback_discounts=(0.5, 1.0, 1.5))
    assert with_words(grammar, ["a", "b"]) is grammar


@pytest.mark.parametrize(
    ("phones", "words", "expected"),
    [
        ("n o a", "no on", [("no", 0.0, 0.2)]),  # the recording ends within "on"
        ("n", "no", []),
        ("n o o n n", "no on no", [("no", 0.0, 0.2), ("on", 0.2, 0.4)]),
    ],
)
def test_a_recording_that_ends_within_a_word(phones: str, words: str, expected: list[Any]) -> None:
    segments = [Segment(phone, place / 10, (place + 1) / 10) for place, phone in enumerate(phones.split())]
    timed = _without_last_word(segments, words.split(), LEXICON, ())
    assert [(word.label, word.start, pytest.approx(word.end)) for word in timed] == expected


@pytest.mark.parametrize(
    ("adapted", "paths", "rounds"), [(True, {"u": [1]}, ADAPTATION_ROUNDS), (False, {"u": [1]}, 0), (True, {}, 0)]
)
def test_only_an_adapted_model_estimates_transforms(
    adapted: bool, paths: dict[str, Any], rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor are there any without an utterance that could be aligned."""
    calls = []
    monkeypatch.setattr(adaptation, "_align", lambda *_: SimpleNamespace(paths=paths, skipped=[]))
    monkeypatch.setattr(adaptation, "tied_states", lambda hmm, path: path)
    monkeypatch.setattr(adaptation, "estimate_fmllr", lambda *_, **__: calls.append(1) or {"ann": "a transform"})
    stage = SimpleNamespace(viewed=lambda *_: Viewed({}), mixtures=None, silence_pdfs=())
    data = SimpleNamespace(cepstra={}, speaker_of={})
    aligned = adaptation.align_data(made(adapted=adapted, stage=stage, hmm=None), data)
    assert len(calls) == rounds
    assert aligned.transforms == ({"ann": "a transform"} if rounds else {})


@dataclass(frozen=True)
class Viewed:
    transforms: dict[str, Any]
