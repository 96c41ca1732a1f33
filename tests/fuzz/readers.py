"""A good file of every format, and what reads it."""

from __future__ import annotations

import io
import json
import struct
import wave
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import bochner
from bochner.data.sources import open_source
from bochner.kernels import Gaussian, Matern
from bochner.speech.align.ctm import read_ctm
from bochner.speech.align.exchange import read_kaldi_alignments
from bochner.speech.audio import read_samples
from bochner.speech.corpora.an4 import read_sphinx_cepstra
from bochner.speech.corpora.kaldi_directory import read_table
from bochner.speech.frames import FrameStore, write_frames
from bochner.speech.frontend.archives import read_matrix
from bochner.speech.lexicon import read_lexicon
from bochner.speech.lm.arpa import read_arpa
from bochner.speech.manifest import read_manifest
from bochner.speech.score.trn import read_trn

ROWS = 12


class Reader(NamedTuple):
    """`make` writes good files into a folder and returns the one that is then damaged; `read` reads all of it."""

    make: Callable[[Path], Path]
    read: Callable[[Path], object]
    words: tuple[bytes, ...] = ()


def read_rows(path: Path, **options: Any) -> int:
    """Every row of a source, each as wide as the source says."""
    source = open_source(path, **options)
    count = 0
    for shard, size in enumerate(source.shard_sizes):
        block = source.read(shard)
        assert block.X.shape == (size, source.num_inputs), "a block must have the rows and columns that were announced"
        assert len(block.y) == size
        count += size
    return count


def rows() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    drawn = np.random.default_rng(0)
    return drawn.normal(size=(ROWS, 3)).astype("float32"), drawn.integers(3, size=ROWS)


def written(name: str, content: bytes | str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return make


def npy(folder: Path) -> Path:
    X, y = rows()
    np.save(folder / "good.y.npy", y)
    np.save(folder / "good.X.npy", X)
    return folder / "good.X.npy"


def npz(folder: Path) -> Path:
    X, y = rows()
    np.savez(folder / "good.npz", X=X, y=y)
    return folder / "good.npz"


def table(suffix: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        import pyarrow
        from pyarrow import feather, parquet

        X, y = rows()
        columns = pyarrow.table({"a": X[:, 0], "b": X[:, 1], "y": y})
        path = folder / f"good{suffix}"
        (parquet.write_table if suffix == ".parquet" else feather.write_feather)(columns, path)
        return path

    return make


def safetensors(folder: Path) -> Path:
    bochner.save(0.5 * Gaussian(bandwidth=2.0) + Matern(scale=torch.ones(3)), folder / "good.safetensors")
    return folder / "good.safetensors"


def sound() -> bytes:
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes((1000 * np.sin(np.arange(400))).astype("<i2").tobytes())
    return content.getvalue()


def matrix() -> bytes:
    X, _ = rows()
    return b"\0BFM \4" + struct.pack("<i", ROWS) + b"\4" + struct.pack("<i", 3) + X.tobytes()


def vectors() -> bytes:
    counted = b"".join(b"\4" + struct.pack("<i", number) for number in range(5))
    return b"".join(name + b" \0B\4" + struct.pack("<i", 5) + counted for name in (b"ann-1", b"bob-1"))


def cepstra() -> bytes:
    return struct.pack(">i", 26) + np.arange(26, dtype=">f4").tobytes()


def manifest() -> str:
    said = {"id": "ann-1", "speaker": "ann", "part": "train", "text": "yes no", "audio": "1.wav", "rate": 8000}
    said |= {"start": 0.0, "duration": 1.5, "phones": [["Y", 0.0, 0.5], ["N", 0.5, 1.5]]}
    return "".join(json.dumps({**said, "id": name}) + "\n" for name in ("ann-1", "ann-2"))


ARPA = """\\data\\
ngram 1=4
ngram 2=2

\\1-grams:
-99\t<s>\t-0.3
-0.6\t</s>
-0.5\tyes\t-0.2
-0.4\tno\t-0.1

\\2-grams:
-0.2\t<s> yes
-0.3\tyes no

\\end\\
"""
LIBSVM = "".join(f"{i % 2} 1:{i}.5 3:-2e-1\n" for i in range(ROWS))
CSV = "age,hours,income\n" + "".join(f"{20 + i},{40 - i},{'>50K' if i % 3 else '<=50K'}\n" for i in range(ROWS))
CTM = "ann-1 1 0.00 0.50 yes\nann-1 1 0.50 0.25 no\n"


def frames(folder: Path) -> Path:
    write_frames(folder / "frames", [("ann-1", np.eye(4)), ("bob-1", np.ones((3, 4)))])
    return folder / "frames" / "00000000.npy"


def index(folder: Path) -> Path:
    return frames(folder).with_suffix(".jsonl")


def read_frames(path: Path) -> list[Any]:
    store = FrameStore(path.parent)
    return [store[name].sum() for name in store.ids]


READERS: dict[str, Reader] = {
    "npy": Reader(npy, read_rows, (b"(1000000000, 3)", b"'<f8'", b"'|O'", b"True")),
    "npz": Reader(npz, partial(read_rows, target="y")),
    "parquet": Reader(table(".parquet"), partial(read_rows, target="y")),
    "feather": Reader(table(".feather"), partial(read_rows, target="y")),
    "csv": Reader(written("good.csv", CSV), partial(read_rows, target="income")),
    "libsvm": Reader(written("good.libsvm", LIBSVM), read_rows, (b" 999999999:1", b"qid:1", b"#")),
    "safetensors": Reader(safetensors, bochner.load, (b"float32", b"Gaussian", b"bandwidth")),
    "kaldi matrix": Reader(
        written("good.ark", matrix()), lambda path: read_matrix(f"{path}:0"), (b"BCM ", b"BDM ", b"BFV ")
    ),
    "kaldi integers": Reader(written("ali.1.ark", vectors()), lambda path: list(read_kaldi_alignments(path.parent))),
    "kaldi table": Reader(written("wav.scp", "ann-1 a.wav\nbob-1 b.wav\n"), read_table, (b"ann-1", b"|")),
    "wav": Reader(written("good.wav", sound()), partial(read_samples, rate=8000), (b"RIFF", b"data", b"fmt ", b"LIST")),
    "sphinx cepstra": Reader(written("good.mfc", cepstra()), read_sphinx_cepstra),
    "manifest": Reader(
        written("utterances.jsonl", manifest()), lambda path: read_manifest(path.parent), (b"-1.5", b'"start": 9')
    ),
    "frames": Reader(frames, read_frames, (b"(1000000000, 4)", b"'|O'")),
    "frames' index": Reader(index, read_frames, (b"-3", b"1e9")),
    "arpa": Reader(written("good.arpa", ARPA), read_arpa, (b"ngram 3=1", b"\\3-grams:", b"<unk>", b"1=9")),
    "lexicon": Reader(written("lexicon.txt", "yes Y EH S\nno N OW\n"), read_lexicon, (b"SIL", b"#1")),
    "ctm": Reader(written("good.ctm", CTM), read_ctm),
    "trn": Reader(written("good.trn", "yes no (ann-1)\nno (bob-1)\n"), read_trn, (b"(", b")")),
}
