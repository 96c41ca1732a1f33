"""Acoustic models of CMU Sphinx, read from their own files.

The en-us model of PocketSphinx is distributed under a BSD licence. Its context-independent states are used here: three
for each phone, phonetically tied mixtures over three streams of cepstra.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bochner.speech.frames import Array
from bochner.speech.frontend import Mfcc
from bochner.speech.hmm.model import Hmm, monophone_hmm
from bochner.speech.hmm.streams import StreamMixtures

END_OF_HEADER, BYTE_ORDER = b"endhdr\n", 0x11223344
LOG_BASE, SHIFT = np.log(1.0001), 10  # weights are stored as -log(w) / log(1.0001) / 2^10
MIN_VARIANCE, MIN_WEIGHT = 1e-4, 1e-7  # Sphinx's own floors
NAMES = {"+SPN+": "spn", "+NSN+": "nsn"}  # unintelligible speech, noise
SILENCE = "SIL"
FEATURES = {"-lowerf", "-upperf", "-nfilt", "-lifter", "-transform", "-feat", "-svspec"}


class SphinxModel(NamedTuple):
    """The HMM, the densities of its states and the front end of a model."""

    hmm: Hmm
    mixtures: StreamMixtures
    frontend: Mfcc


def read_sphinx(directory: Path) -> SphinxModel:
    """Read the context-independent part of a model with phonetically tied mixtures in three streams."""
    try:
        return _read(Path(directory))
    except FileNotFoundError as error:
        missing = Path(error.filename).name
        raise ValueError(f"{directory} must hold a model of PocketSphinx, but {missing} is missing.") from error
    except (struct.error, ValueError, KeyError, IndexError) as error:
        raise ValueError(f"{directory} does not hold a model that can be converted: {error}") from error


def _read(directory: Path) -> SphinxModel:
    names = _phones(directory / "mdef")
    means, variances = (_gaussians(directory / file).astype(np.float64) for file in ("means", "variances"))
    order = sorted(range(len(names)), key=lambda place: (names[place] != SILENCE, place))  # silence is phone 1
    pdfs = np.array([3 * place + state for place in order for state in range(3)])
    weights = np.maximum(_weights(directory / "sendump", means.shape[1])[pdfs], MIN_WEIGHT)
    mixtures = StreamMixtures(
        np.repeat(np.arange(len(names)), 3),
        weights / weights.sum(axis=-1, keepdims=True),
        means[order],
        np.maximum(variances[order], MIN_VARIANCE),
    )
    phones = [NAMES.get(names[place], names[place]) for place in order]
    hmm = monophone_hmm(phones=phones, silence=[SILENCE])
    return SphinxModel(_with_transitions(hmm, _transitions(directory)[order]), mixtures, _frontend(directory))


def _with_transitions(hmm: Hmm, transitions: Array) -> Hmm:
    """`transitions` [phones, 3, 4] are the probabilities of each state to go to each; entry i is phone i + 1."""
    table = hmm.table
    target = table.state + np.where(table.self_loop, 0, 1)
    probabilities = transitions[table.phone - 1, table.state, target]
    return hmm.with_log_probabilities(np.append(0.0, np.log(probabilities[1:])))


def _frontend(directory: Path) -> Mfcc:
    words = (directory / "feat.params").read_text().split()
    options = {name: value for name, value in zip(words[::2], words[1::2], strict=True) if name in FEATURES}
    kind = (options["-transform"], options["-feat"], options["-svspec"])
    if kind != ("dct", "1s_c_d_dd", "0-12/13-25/26-38"):
        raise ValueError(f"its features {kind} are not 13 cepstra with deltas in three streams")
    return Mfcc(
        rate=16000, frame_length=0.025625, num_bins=int(options["-nfilt"]), low=float(options["-lowerf"]),
        high=float(options["-upperf"]), lifter=float(options["-lifter"]), energy=False, dither=1.0,
    )  # fmt: skip


def _numbers(path: Path) -> tuple[bytes, int]:
    """The content of a file in Sphinx's format, and the place of the first number after its header."""
    content = path.read_bytes()
    start = content.index(END_OF_HEADER) + len(END_OF_HEADER)
    if struct.unpack_from("<I", content, start)[0] != BYTE_ORDER:
        raise ValueError(f"{path.name} is not little-endian")
    return content, start + 4


def _gaussians(path: Path) -> Array:
    """[codebooks, streams, Gaussians, d]"""
    content, start = _numbers(path)
    codebooks, streams, count = struct.unpack_from("<3i", content, start)
    lengths = struct.unpack_from(f"<{streams}i", content, start + 12)
    if len(set(lengths)) != 1:
        raise ValueError(f"the streams of {path.name} must be of one length, got {lengths}")
    shape = (codebooks, streams, count, lengths[0])
    return np.frombuffer(content, "<f4", int(np.prod(shape)), start + 16 + 4 * streams).reshape(shape)


def _transitions(directory: Path) -> Array:
    content, start = _numbers(directory / "transition_matrices")
    *shape, size = struct.unpack_from("<4i", content, start)
    counts = np.frombuffer(content, "<f4", size, start + 16).reshape(shape).astype(np.float64)
    return counts / counts.sum(axis=-1, keepdims=True)


def _phones(path: Path) -> list[str]:
    """The names of the context-independent phones of a binary model definition."""
    content = path.read_bytes()
    if content[:4] != b"BMDF":
        raise ValueError(f"{path.name} is not a binary model definition")
    (header,) = struct.unpack_from("<i", content, 8)
    phones, _, states, pdfs = struct.unpack_from("<4i", content, 12 + header)
    if states != 3 or pdfs != 3 * phones:
        raise ValueError(f"{path.name} must have three states for each phone, got {pdfs} for {phones} phones")
    return [name.decode() for name in content[12 + header + 40 :].split(b"\0", phones)[:phones]]


def _weights(path: Path, streams: int) -> Array:
    """[pdfs, streams, Gaussians]"""
    content, start = path.read_bytes(), 0
    while size := struct.unpack_from("<i", content, start)[0]:  # strings, the last one empty
        start += 4 + size
    rows, columns = struct.unpack_from("<2i", content, start + 4)
    stored = np.frombuffer(content, np.uint8, streams * rows * columns, start + 12).reshape(streams, rows, columns)
    return np.exp(-LOG_BASE * 2**SHIFT * stored.astype(np.float64)).transpose(2, 0, 1)
