"""The graph that a decoder walks, with what it needs to know about its labels."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bochner.speech.json_text import parse_json
from bochner.speech.kaldi import kaldifst
from bochner.storage import write_atomically

FST, LABELS = "HCLG.fst", "labels.json"


@dataclass(frozen=True, eq=False)
class DecodingGraph:
    """From transition ids to words.

    fst: kaldifst.StdVectorFst; words: those of labels 1, 2, ...; pdfs [ids]: those of transition ids 1, 2, ...
    """

    fst: Any
    words: tuple[str, ...]
    pdfs: NDArray[np.int32]

    @property
    def num_pdfs(self) -> int:
        """The least number of columns that log likelihoods must have."""
        return int(self.pdfs.max()) + 1

    def spelled(self, labels: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.words[label - 1] for label in labels)

    def with_word_penalty(self, penalty: float) -> Self:
        """The same graph with `penalty` added to the cost of every word: above 0 gives fewer words."""
        if not math.isfinite(penalty):
            raise ValueError(f"penalty must be a finite number, got {penalty}.")
        if penalty == 0.0:
            return self
        fst = kaldifst.StdVectorFst(self.fst)
        kaldifst.arcsort(fst, "olabel")
        return replace(self, fst=kaldifst.StdVectorFst(kaldifst.compose(fst, _toll(len(self.words), penalty))))

    def fingerprint(self) -> str:
        """A hash of all that is in the graph."""
        with tempfile.TemporaryDirectory() as folder:
            self.save(folder)
            return _hash(Path(folder) / LABELS)  # which holds that of the FST

    def save(self, directory: str | os.PathLike[str]) -> None:
        """HCLG.fst in OpenFst's format and labels.json, in an existing or new directory."""
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        if not self.fst.write(str(folder / FST)):
            raise OSError(f"{folder / FST} could not be written; is there space left?")
        labels = {"words": self.words, "pdfs": self.pdfs.tolist(), "fst_sha256": _hash(folder / FST)}
        write_atomically(folder / LABELS, json.dumps(labels, ensure_ascii=False).encode("utf-8"))

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> DecodingGraph:
        folder = Path(directory)
        try:
            stored = parse_json((folder / LABELS).read_bytes())
            words, pdfs = tuple(stored["words"]), np.array(stored["pdfs"], dtype=np.int32)
            if _hash(folder / FST) != stored["fst_sha256"]:  # a label out of range would end the process
                raise ValueError(f"{FST} is not what was saved")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{directory} does not hold a whole decoding graph: {error!r}; delete it.") from error
        return cls(kaldifst.StdVectorFst.read(str(folder / FST)), words, pdfs)


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _toll(num_words: int, cost: float) -> Any:
    """An acceptor of any words that asks `cost` for each."""
    fst = kaldifst.StdVectorFst()
    fst.start = fst.add_state()
    fst.set_final(fst.start, 0.0)
    for label in range(1, num_words + 1):
        fst.add_arc(fst.start, kaldifst.StdArc(label, label, cost, fst.start))
    return fst
