"""Artificial audio and utterances for the speech tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from bochner.speech.manifest import Utterance


def tone(seconds: float = 0.5, rate: int = 16000, amplitude: float = 0.3) -> np.ndarray:
    return (amplitude * np.sin(2 * np.pi * 440 * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def write_wav(path: Path, samples: np.ndarray | None = None, rate: int = 16000, subtype: str = "PCM_16") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, tone(rate=rate) if samples is None else samples, rate, subtype=subtype)
    return path


def utterance(**changes: Any) -> Utterance:
    fields = {"id": "ann-1", "speaker": "ann", "part": "train", "text": "yes no", "audio": "1.wav", "rate": 16000}
    return Utterance(**{**fields, "duration": 0.5, **changes})
