"""Files of speech: recordings, frames, texts, and files of other toolkits."""

from __future__ import annotations

import gzip
import io
import json
import struct
import wave
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bochner.speech.align.labels import read_ctm
from bochner.speech.audio import read_samples
from bochner.speech.corpora.an4 import read_sphinx_cepstra
from bochner.speech.corpora.kaldi_directory import read_table
from bochner.speech.corpora.lhotse import prepare_lhotse
from bochner.speech.decode import read_hypotheses
from bochner.speech.frames import FrameStore, write_frames
from bochner.speech.hmm.model import Hmm, monophone_hmm, read_kaldi_hmm, tree_bytes
from bochner.speech.kaldi_formats import read_kaldi_alignments, read_matrix
from bochner.speech.lexicon import read_lexicon
from bochner.speech.lm.ngram import read_arpa
from bochner.speech.manifest import read_manifest
from bochner.speech.score.report import read_trn
from bochner.speech.text_files import Skipped, write_skipped
from tests.fuzz.reader import Reader, written
from tests.fuzz.rows import ROWS, rows

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
CTM = "ann-1 1 0.00 0.50 yes\nann-1 1 0.50 0.25 no\n"


def sound() -> bytes:
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes((1000 * np.sin(np.arange(400))).astype("<i2").tobytes())
    return content.getvalue()


def matrix() -> bytes:
    X, _ = rows()
    return b"\0BFM \4" + struct.pack("<i", ROWS) + b"\4" + struct.pack("<i", 3) + X.tobytes()


def short_matrix() -> bytes:
    """Kaldi's compressed format: two bytes per number, between a minimum and a maximum."""
    numbers = np.arange(3 * ROWS, dtype="<u2")
    return b"\0BCM2 " + struct.pack("<ffii", -1.0, 2.0, ROWS, 3) + numbers.tobytes()


def vectors() -> bytes:
    counted = b"".join(b"\4" + struct.pack("<i", number) for number in range(5))
    return b"".join(name + b" \0B\4" + struct.pack("<i", 5) + counted for name in (b"ann-1", b"bob-1"))


def cepstra() -> bytes:
    return struct.pack(">i", 26) + np.arange(26, dtype=">f4").tobytes()


def manifest() -> str:
    utterance = {"id": "ann-1", "speaker": "ann", "part": "train", "text": "yes no", "audio": "1.wav", "rate": 8000}
    utterance |= {"start": 0.0, "duration": 1.5, "phones": [["Y", 0.0, 0.5], ["N", 0.5, 1.5]]}
    return "".join(json.dumps({**utterance, "id": name}) + "\n" for name in ("ann-1", "ann-2"))


def frames(folder: Path) -> Path:
    write_frames(folder / "frames", [("ann-1", np.eye(4)), ("bob-1", np.ones((3, 4)))])
    return folder / "frames" / "00000000.npy"


def index(folder: Path) -> Path:
    return frames(folder).with_suffix(".jsonl")


def read_frames(path: Path) -> list[Any]:
    store = FrameStore(path.parent)
    return [store[name].sum() for name in store.ids]


def lhotse(damaged: str) -> Callable[[Path], Path]:
    recording = {"id": "r", "sources": [{"type": "file", "channels": [0], "source": "r.wav"}], "sampling_rate": 8000}
    recording |= {"num_samples": 400, "duration": 0.05}
    supervision = {"id": "r-1", "recording_id": "r", "start": 0.0, "duration": 0.05, "text": "yes no", "speaker": "ann"}
    supervision |= {"custom": {"part": "train"}, "alignment": {"word": [["yes", 0.0, 0.02], ["no", 0.02, 0.03]]}}

    def make(folder: Path) -> Path:
        (folder / "recordings.jsonl").write_text(json.dumps(recording) + "\n")
        (folder / "supervisions.jsonl").write_text(json.dumps(supervision) + "\n")
        return folder / f"{damaged}.jsonl"

    return make


def read_lhotse(path: Path) -> object:
    folder = path.parent
    return prepare_lhotse(folder / "recordings.jsonl", folder / "supervisions.jsonl", folder / "made")


def hypotheses(folder: Path) -> Path:
    write_skipped(folder, [Skipped("bob-1", "no samples")])
    hypotheses = ({"id": name, "words": ["yes", "no"]} for name in ("ann-1", "ann-2"))
    return written("hypotheses.jsonl", "".join(json.dumps(one) + "\n" for one in hypotheses))(folder)


def kaldi_model(damaged: str) -> Callable[[Path], Path]:
    """A Kaldi experiment directory, its final.mdl as Kaldi's sources write it."""

    def make(folder: Path) -> Path:
        from tests.speech.hmm.test_kaldi_exchange import written_model

        hmm = monophone_hmm(phones=["SIL", "a", "b"], silence=["SIL"], num_silence_states=5)
        (folder / "tree").write_bytes(b"\0B" + tree_bytes(hmm.tree))
        (folder / "phones.txt").write_text("<eps> 0\nSIL 1\na 2\nb 3\n#0 4\n#1 5\n")
        (folder / "final.mdl").write_bytes(written_model(hmm, kind="Tuples"))
        return folder / damaged

    return make


def hmm_file(damaged: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        monophone_hmm(phones=["SIL", "a", "b"], silence=["SIL"]).save(folder)
        return folder / damaged

    return make


SPEECH_READERS: dict[str, Reader] = {
    "kaldi matrix": Reader(
        written("good.ark", matrix()), lambda path: read_matrix(f"{path}:0"), (b"BCM ", b"BDM ", b"BFV ")
    ),
    "kaldi short matrix": Reader(
        written("good.ark", short_matrix()), lambda path: read_matrix(f"{path}:0"), (b"BCM ", b"BCM3 ")
    ),
    "kaldi alignments": Reader(written("ali.1.ark", vectors()), lambda path: list(read_kaldi_alignments(path.parent))),
    "kaldi alignments.gz": Reader(
        written("ali.1.gz", gzip.compress(vectors(), mtime=0)), lambda path: list(read_kaldi_alignments(path.parent))
    ),
    "kaldi phones": Reader(kaldi_model("phones.txt"), lambda path: read_kaldi_hmm(path.parent), (b"a 2", b"9", b"#2")),
    "kaldi model": Reader(kaldi_model("final.mdl"), lambda path: read_kaldi_hmm(path.parent), (b"FV ", b"<Tuples> ")),
    "kaldi tree": Reader(
        kaldi_model("tree"), lambda path: read_kaldi_hmm(path.parent), (b"TE ", b"CE ", b"SE ", b"NULL ")
    ),
    "hmm's topology": Reader(hmm_file("topo"), lambda path: Hmm.load(path.parent), (b"<State> 9", b"<Transition> 7 2")),
    "hmm's phones": Reader(hmm_file("phones.txt"), lambda path: Hmm.load(path.parent)),
    "kaldi table": Reader(written("wav.scp", "ann-1 a.wav\nbob-1 b.wav\n"), read_table, (b"ann-1", b"|")),
    "wav": Reader(written("good.wav", sound()), partial(read_samples, rate=8000), (b"RIFF", b"data", b"fmt ", b"LIST")),
    "sphinx cepstra": Reader(written("good.mfc", cepstra()), read_sphinx_cepstra),
    "manifest": Reader(
        written("utterances.jsonl", manifest()), lambda path: read_manifest(path.parent), (b"-1.5", b'"start": 9')
    ),
    "lhotse recordings": Reader(lhotse("recordings"), read_lhotse, (b"-1", b'"channels": []', b"[]", b"{}")),
    "lhotse supervisions": Reader(lhotse("supervisions"), read_lhotse, (b"-1", b'"custom": 3', b"[]", b"{}")),
    "frames": Reader(frames, read_frames, (b"(1000000000, 4)", b"'|O'")),
    "frames' index": Reader(index, read_frames, (b"-3", b"1e9")),
    "hypotheses": Reader(hypotheses, lambda path: read_hypotheses(path.parent), (b'"words": 3', b"[]", b"{}")),
    "arpa": Reader(written("good.arpa", ARPA), read_arpa, (b"ngram 3=1", b"\\3-grams:", b"<unk>", b"1=9")),
    "arpa.gz": Reader(written("good.arpa.gz", gzip.compress(ARPA.encode(), mtime=0)), read_arpa),
    "lexicon": Reader(written("lexicon.txt", "yes Y EH S\nno N OW\n"), read_lexicon, (b"SIL", b"#1")),
    "ctm": Reader(written("good.ctm", CTM), read_ctm),
    "trn": Reader(written("good.trn", "yes no (ann-1)\nno (bob-1)\n"), read_trn, (b"(", b")")),
}
