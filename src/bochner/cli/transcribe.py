"""`bochner transcribe`: what is said in a recording."""

from __future__ import annotations

from pathlib import Path


def transcribe(model: Path, audio: Path, *, device: str = "cpu") -> None:
    """Print what is said in a recording, and then each word with the seconds at which it begins and ends.

    Examples:

        bochner transcribe out/timit-like/models/best talk.wav
        bochner transcribe out/timit-like/models/best talk.flac --device cuda

    The directory of a model holds all that is needed: front end, transforms, classifier, HMM, lexicon and graph. The
    recording is taken for one speaker's, and brought to the model's sampling rate; words are those of the model's
    lexicon. It needs `pip install 'bochner[speech]'`.

    Args:
        model: The directory of a saved acoustic model.
        audio: A recording of one channel, .wav or .flac.
        device: Where the classifier computes.
    """
    from bochner.acoustic.model import AcousticModel

    heard = AcousticModel.load(model, device=device).transcribe(audio)
    print(heard.text)
    for word in heard.words:
        print(f"{word.start:8.2f} {word.end:8.2f}  {word.label}")
