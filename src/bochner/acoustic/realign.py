"""States of frames by a trained acoustic model, for a second training pass."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from bochner.acoustic.model import AcousticModel
from bochner.speech.align import FunctionScores, Search, align_utterances, tied_states
from bochner.speech.frames import FrameStore, write_frames
from bochner.speech.pipeline.aligned_corpus import AlignedCorpus
from bochner.speech.pipeline.alignment import Execution

logger = logging.getLogger(__name__)

Array = NDArray[Any]


def realign(
    model: AcousticModel,
    aligned: AlignedCorpus,
    *,
    folder: Path,
    parts: Sequence[str] = ("train", "heldout"),
    search: Search | None = None,
    work: Execution | None = None,
) -> AlignedCorpus:
    """The corpus with the states that `model` gives the frames of `parts` by forced alignment; the others keep theirs.

    An utterance that the model cannot align keeps its states too. The new ones are kept in `folder`/states, and found
    there when asked for again. Source: Bourlard & Morgan 1994 (embedded Viterbi training).
    """
    work, kept = work or Execution(), folder / "states"
    if not kept.exists():
        said = [one for part in parts for one in aligned.corpus.part(part) if one.id in aligned.frames]
        found = align_utterances(
            model.hmm,
            model.lexicon,
            said,
            FunctionScores(model.scores(aligned.frames)),
            search=search,
            verbose=work.verbose,
        )
        states = {name: tied_states(model.hmm, path) for name, path in found.paths.items()}
        logger.info(f"realigned: {len(states):,} utterances, {100 * _moved(states, aligned):.1f} % of frames moved")
        write_frames(kept, states.items(), about={"labels": "tied states"})
    return aligned.with_states({**aligned.states, **FrameStore(kept)})


def _moved(states: dict[str, Array], aligned: AlignedCorpus) -> float:
    """The share of frames whose state is another than before."""
    changed = sum(int((y != aligned.states[name]).sum()) for name, y in states.items() if name in aligned.states)
    return changed / max(1, sum(map(len, states.values())))
