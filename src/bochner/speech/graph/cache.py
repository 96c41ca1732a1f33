"""Graphs kept on disk under a hash of all that went into them."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from pathlib import Path

import numpy as np

from bochner.speech.graph.compose import compose_graph
from bochner.speech.graph.decoding import DecodingGraph
from bochner.speech.hmm.model import Hmm, tree_bytes
from bochner.speech.lexicon import Lexicon
from bochner.speech.lm.model import NgramModel

FORMAT_VERSION = 1  # to be raised when compose_graph makes another graph of the same parts


def cached_graph(
    directory: str | os.PathLike[str],
    *,
    hmm: Hmm,
    lexicon: Lexicon,
    grammar: NgramModel,
    silence_probability: float = 0.5,
    transition_scale: float = 1.0,
    self_loop_scale: float = 0.1,
) -> DecodingGraph:
    """What `compose_graph` gives, read from `directory` where the same parts have been composed before.

    A graph lies in a folder named by the hash of its parts, put there whole or not at all; any of them may be deleted.
    """
    scales = (silence_probability, transition_scale, self_loop_scale)
    folder = Path(directory) / _fingerprint(hmm, lexicon, grammar, scales)
    if folder.exists():
        return DecodingGraph.load(folder)
    graph = compose_graph(
        hmm=hmm,
        lexicon=lexicon,
        grammar=grammar,
        silence_probability=silence_probability,
        transition_scale=transition_scale,
        self_loop_scale=self_loop_scale,
    )
    _keep(graph, folder)
    return graph


def _fingerprint(hmm: Hmm, lexicon: Lexicon, grammar: NgramModel, scales: tuple[float, ...]) -> str:
    total = hashlib.sha256(repr((FORMAT_VERSION, scales, hmm.phones, hmm.topology)).encode())
    total.update(repr((lexicon.silence, list(lexicon.pairs()), grammar.words)).encode())
    total.update(tree_bytes(hmm.tree))
    total.update(np.asarray(hmm.transitions.log_probs, dtype=np.float64).tobytes())
    for level in grammar.levels:
        for column in (level.context, level.word, level.log_prob, level.back_off):
            total.update(np.ascontiguousarray(column).tobytes())
    return total.hexdigest()[:24]


def _keep(graph: DecodingGraph, folder: Path) -> None:
    temporary = folder.with_name(f"{folder.name}.{secrets.token_hex(8)}.part")
    try:
        graph.save(temporary)
        temporary.rename(folder)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        if not folder.exists():  # else another process put the same graph there first
            raise
