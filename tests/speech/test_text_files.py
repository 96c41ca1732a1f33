"""Excessively nested JSON in every file of the pipeline: an error that names the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("kaldi_hmm_gmm")

from bochner.acoustic.model import AcousticModel
from bochner.speech.align.gmm_hmm import read_description
from bochner.speech.decode import decode_utterances, read_hypotheses
from bochner.speech.graph import DecodingGraph, compose_graph
from bochner.speech.hmm.model import monophone_hmm
from bochner.speech.lexicon import Lexicon
from bochner.speech.lm import uniform
from bochner.speech.pipeline.decoding import read_tuning
from bochner.speech.text_files import read_skipped
from bochner.stages import read_record


def decode_nothing(folder: Path) -> object:
    lexicon = Lexicon({"no": [["n", "o"]]})
    hmm = monophone_hmm(phones=lexicon.phones)
    graph = compose_graph(hmm=hmm, lexicon=lexicon, grammar=uniform(lexicon.words))
    return decode_utterances(folder, graph=graph, likelihoods=lambda name: [], ids=[])


READERS: dict[str, Callable[[Path], object]] = {
    "stage.json": read_description,
    "labels.json": DecodingGraph.load,
    "hypotheses.jsonl": read_hypotheses,
    "decoding.json": decode_nothing,
    "model.json": AcousticModel.load,
    "skipped.jsonl": read_skipped,
    "tuning.json": lambda folder: read_tuning(folder / "tuning.json"),
    "step.json": lambda folder: read_record(folder / "step.json"),
}


@pytest.mark.parametrize("name", READERS)
def test_nesting_without_end_is_an_error_that_names_the_file(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("[" * 100_000 + "\n")
    with pytest.raises(ValueError, match=str(tmp_path)):
        READERS[name](tmp_path)
