"""Pre-trained models that come with the package: acoustic model, pronunciations and grapheme-to-phoneme rules.

A model is a directory of `model.json` (what it is, its licence, the SHA-256 of every file), `acoustic.safetensors`,
`lexicon.txt.xz` and `g2p.npz`; nothing in it is code.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bochner.speech.frames import Array, new_directory
from bochner.speech.frontend import Mfcc
from bochner.speech.g2p import G2p
from bochner.speech.hmm.model import Hmm, monophone_hmm
from bochner.speech.hmm.streams import DELTA_REACH, StreamMixtures, stream_frames
from bochner.speech.lexicon import Lexicon, Pronunciation
from bochner.speech.text_files import FilePath, parse_json
from bochner.storage import read_tensors, write_tensors

DIRECTORY = Path(__file__).parent
RECORD, ACOUSTIC, LEXICON, G2P = "model.json", "acoustic.safetensors", "lexicon.txt.xz", "g2p.npz"
LICENCE = "LICENCE.txt"
VERSION = 1
UNKNOWN_PHONE = "spn"
SILENCE_MARGIN = 1.0  # of the first cepstrum, about 1 dB


@dataclass(frozen=True, eq=False)
class PretrainedModel:
    """A model that aligns recordings with their words; `load_model` reads it, `about` is its model.json."""

    directory: Path
    about: Mapping[str, Any]
    hmm: Hmm
    mixtures: StreamMixtures
    frontend: Mfcc

    @property
    def offset(self) -> float:
        """Frame t covers offset + frame_shift [t, t + 1) seconds."""
        return (self.frontend.frame_length - self.frontend.frame_shift) / 2

    def with_frame_shift(self, seconds: float) -> PretrainedModel:
        """The model with frames at other intervals; the windows of frames have the same length."""
        return replace(self, frontend=replace(self.frontend, frame_shift=seconds))

    @cached_property
    def boundary_offsets(self) -> Array:
        """Seconds [phones, phones] from the true to the aligned boundary between two phones, on average; 0 if unknown.

        By classes of phones: `boundary_offsets` in model.json holds the `classes` and rows of `milliseconds`.
        """
        stored = self.about.get("boundary_offsets")
        if stored is None:
            return np.zeros((len(self.hmm.phones), len(self.hmm.phones)))
        places = {phone: place for place, phones in enumerate(stored["classes"].values()) for phone in phones}
        table = np.pad(np.array(stored["milliseconds"]) / 1000, (0, 1))  # phones of no class: 0
        rows = [places.get(phone, -1) for phone in self.hmm.phones]
        return table[np.ix_(rows, rows)]

    @cached_property
    def gradual(self) -> Array:
        """Whether one phone passes gradually into the next [phones, phones], as vowels and liquids do: `sonorants`."""
        sonorant = np.isin(self.hmm.phones, self.about.get("sonorants", []))
        return np.logical_and.outer(sonorant, sonorant)

    @cached_property
    def pronunciations(self) -> dict[str, tuple[Pronunciation, ...]]:
        """The words of the model's own lexicon, in lower case."""
        entries: dict[str, tuple[Pronunciation, ...]] = {}
        for line in lzma.decompress((self.directory / LEXICON).read_bytes()).decode("utf-8").splitlines():
            word, *phones = line.split()
            entries[word] = (*entries.get(word, ()), tuple(phones))
        return entries

    @cached_property
    def g2p(self) -> G2p:
        """Pronounces words that the lexicon lacks."""
        return G2p.load(self.directory / G2P)

    @property
    def has_g2p(self) -> bool:
        """False for languages that are written in characters."""
        return G2P in self.about["files"]

    def cepstra(self, blocks: Iterable[Array]) -> Array:
        """Cepstra float32 [T, d] of samples at the model's rate in consecutive blocks, centred.

        Their mean is that of all frames with a sound: digital silence, with which editors pad recordings and which
        noise gates leave between words, says nothing about the speaker and the microphone.
        """
        cepstra = self.frontend.of_blocks(blocks)
        sounds = cepstra[:, 0] > self._silence_level
        mean = cepstra[sounds].mean(axis=0, dtype=np.float64) if sounds.any() else cepstra.mean(axis=0)
        cepstra -= mean.astype(np.float32)
        return cepstra

    @cached_property
    def _silence_level(self) -> float:
        """Above the first cepstrum of digital silence, to which the front end adds noise of one bit."""
        silence = self.frontend(np.zeros(self.frontend.rate // 2, np.float32))
        return float(silence[:, 0].max()) + SILENCE_MARGIN

    def scores(self, cepstra: Array, start: int = 0, stop: int | None = None, pdfs: Array | None = None) -> Array:
        """log p(x_t | state) float32 [stop - start, states] of the frames from `start` to `stop`; default: of all.

        With `pdfs`, of these states only.
        """
        stop = len(cepstra) if stop is None else min(stop, len(cepstra))
        first = max(start - DELTA_REACH, 0)
        frames = stream_frames(cepstra[first : stop + DELTA_REACH])
        return self.mixtures.log_likelihoods(frames[start - first : stop - first], pdfs)


def list_models() -> list[str]:
    """The names of the models that come with the package.

    >>> list_models()
    ['bn', 'en', 'yue']
    """
    return sorted(path.parent.name for path in DIRECTORY.glob(f"*/{RECORD}"))


def model_directory(name: str) -> Path:
    """The directory of a model of the package by its name, or `name` itself if it is the directory of a model."""
    known = list_models()
    if name in known:
        return DIRECTORY / name
    if (Path(name) / RECORD).is_file():
        return Path(name)
    raise ValueError(f"model must be one of {', '.join(known)} or a directory with {RECORD}, got {name!r}.")


def is_pretrained(name: str) -> bool:
    """Whether `name` is that of a model of the package or the directory of such a model, not of an `AcousticModel`.

    >>> is_pretrained("en"), is_pretrained("out/own/models/best")
    (True, False)
    """
    return name in list_models() or (Path(name) / ACOUSTIC).is_file()


def describe_model(name: str) -> dict[str, Any]:
    """What model.json says about a model."""
    path = model_directory(name) / RECORD
    try:
        about: dict[str, Any] = parse_json(path.read_bytes())
        if about["version"] != VERSION:
            raise ValueError(f"version {about['version']!r}, this bochner reads {VERSION}")
        return about
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not the description of a model: {error!r}.") from error


def verify_model(name: str) -> dict[str, bool]:
    """Whether each file of a model has the SHA-256 of its model.json.

    >>> all(verify_model("en").values())
    True
    """
    directory, files = model_directory(name), describe_model(name)["files"]
    return {file: (directory / file).is_file() and _hash(directory / file) == digest for file, digest in files.items()}


def load_model(name: str = "en") -> PretrainedModel:
    """Read a model by its name or directory."""
    directory, about = model_directory(name), describe_model(name)
    tensors, _ = read_tensors(directory / ACOUSTIC)
    arrays = {key: tensor.numpy().astype(np.float64) for key, tensor in tensors.items()}
    hmm = monophone_hmm(phones=about["phones"], silence=about["silence"])
    mixtures = StreamMixtures(
        arrays["codebooks"].astype(np.int64), np.exp(arrays["log_weights"]), arrays["means"],
        np.exp(arrays["log_variances"]),
    )  # fmt: skip
    hmm = hmm.with_log_probabilities(arrays["log_probabilities"])
    return PretrainedModel(directory, about, hmm, mixtures, Mfcc(**about["frontend"]))


def save_model(
    directory: FilePath,
    *,
    about: Mapping[str, Any],
    hmm: Hmm,
    mixtures: StreamMixtures,
    frontend: Mfcc,
    lexicon: Lexicon,
    g2p: G2p | None,
    licence: str,
) -> None:
    """Write a model completely or, after an error, not at all; Gaussians and weights in 16 bits."""
    half = {
        "means": mixtures.means, "log_variances": np.log(mixtures.variances), "log_weights": np.log(mixtures.weights)
    }  # fmt: skip
    tensors = {name: torch.from_numpy(array.astype(np.float16)) for name, array in half.items()}
    tensors["codebooks"] = torch.from_numpy(mixtures.codebooks.astype(np.int16))
    tensors["log_probabilities"] = torch.tensor(hmm.transitions.log_probs, dtype=torch.float64)
    words = "".join(f"{word} {' '.join(phones)}\n" for word, phones in lexicon.pairs())
    front_end = {key: value for key, value in frontend.options().items() if key != "name"}
    with new_directory(Path(directory)) as partial:
        partial.mkdir(parents=True, exist_ok=True)
        write_tensors(partial / ACOUSTIC, tensors, {"streams": VERSION})
        (partial / LEXICON).write_bytes(lzma.compress(words.encode("utf-8"), preset=9 | lzma.PRESET_EXTREME))
        if g2p is not None:
            g2p.save(partial / G2P)
        (partial / LICENCE).write_text(licence, encoding="utf-8")
        files = {path.name: _hash(path) for path in sorted(partial.iterdir())}
        record = {
            **about, "version": VERSION, "phones": hmm.phones, "silence": hmm.silence, "words": len(lexicon),
            "frontend": front_end, "files": files,
        }  # fmt: skip
        (partial / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
