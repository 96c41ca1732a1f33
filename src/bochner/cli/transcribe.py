"""`bochner transcribe`: the words of a recording."""

from __future__ import annotations

from pathlib import Path


def transcribe(model: Path, audio: Path, *, device: str = "cpu") -> None:
    """Print the words of a recording, and then each word with its start and end in seconds.

    Examples:

        bochner transcribe out/timit-like/models/best talk.wav
        bochner transcribe out/timit-like/models/best talk.flac --device cuda

    The directory of a model is self-contained: front end, transforms, classifier, HMM, lexicon and graph. The recording
    should be of one speaker; it is resampled to the rate of the model. Only words of the model's lexicon are
    recognised. Requires `pip install 'bochner[speech]'`.

    Args:
        model: The directory of a saved acoustic model.
        audio: A recording of one channel, .wav or .flac.
        device: The device of the classifier.
    """
    from bochner.acoustic.model import AcousticModel

    transcript = AcousticModel.load(model, device=device).transcribe(audio)
    print(transcript.text)
    for word in transcript.words:
        print(f"{word.start:8.2f} {word.end:8.2f}  {word.label}")
