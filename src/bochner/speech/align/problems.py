"""Problems of recordings with texts: what a pre-trained model cannot align, pronounces by rule, or aligns badly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bochner.speech.align.recordings import AlignedRecording, Recording, align_files, find_recordings, tokens_of
from bochner.speech.pretrained import load_model
from bochner.speech.text_files import FilePath
from bochner.speech.truncation import truncation

# By model: the confidence of a recording below which its text may be that of another. Nine of ten wrong texts of
# TIMIT's sample are below, see `AlignedRecording.confidence`. It was measured for English only.
MIN_CONFIDENCE = {"en": 0.4}


class Problem(NamedTuple):
    """An utterance, the kind of problem (recording, audio, words, transcript), and a description."""

    id: str
    kind: str
    detail: str


def is_doubtful(recording: AlignedRecording, model: str) -> bool:
    """Whether a recording aligned by the model of this name may have another text."""
    return recording.confidence < MIN_CONFIDENCE.get(model, 0.0)


def find_problems(
    audio: FilePath | Sequence[FilePath], *, model: str = "en", verbose: bool = False
) -> tuple[int, list[Problem]]:
    """The number of recordings, and the problems of each, by aligning them with a pre-trained model.

    Problems are recordings that `align_files` skips, for its reasons (recording); truncated files (audio); words that
    are not in the dictionary of the model (words); and, if the model is English, texts that do not match (transcript).
    `audio` and `model` are those of `align_files`.
    """
    loaded = load_model(model)
    aligned = align_files(audio, model=loaded, verbose=verbose)
    found = find_recordings(audio, None, tier=None, skipped=[])
    problems = [Problem(entry.id, "recording", entry.reason) for entry in aligned.skipped]
    problems += [Problem(r.name, "audio", reason) for r in found if (reason := truncation(r.path)) is not None]
    by_character = loaded.about.get("tokens") == "characters"
    guessed, unknown = aligned.guessed, set(aligned.unknown)
    for recording in found:
        words = _words(recording, by_character)
        details = [f"{word} (by rule: {' '.join(guessed[word])})" for word in words if word in guessed]
        details += [f"{word} (no pronunciation)" for word in words if word in unknown]
        if details:
            problems.append(Problem(recording.name, "words", f"not in the dictionary: {', '.join(details)}"))
    for result in aligned.recordings:
        if is_doubtful(result, model):
            detail = f"may not match (confidence {result.confidence:.2f}, below {MIN_CONFIDENCE[model]})"
            problems.append(Problem(result.name, "transcript", detail))
    names = {recording.name for recording in found} | {entry.id.partition(", part ")[0] for entry in aligned.skipped}
    return len(names), problems


def _words(recording: Recording, by_character: bool) -> list[str]:
    """The distinct words of a recording's text, and the parts of compounds or, of such a language, the characters."""
    words: dict[str, None] = {}
    for part in recording.parts:
        for token in tokens_of(part.text):
            words.update(dict.fromkeys([token, *(token if by_character else token.split("-"))]))
    return list(words)
