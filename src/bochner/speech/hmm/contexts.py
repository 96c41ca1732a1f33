"""Which phone, in which neighbourhood, each frame of an alignment belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.speech.hmm.model import Hmm
from bochner.speech.manifest import Segment

Array = NDArray[Any]
LEFT, CENTRE, RIGHT, STATE, GROUP = range(5)  # the columns of events; the last, whose frames, only in statistics


def phone_starts(hmm: Hmm, transition_ids: Array) -> Array:
    """The frames at which phones begin.

    A phone begins where its first state is entered. In alignments made here, and by Kaldi unless told otherwise, the
    transition that leaves a state stands on its first frame, before the self-loops; the other order is read as well.
    """
    ids = np.asarray(transition_ids)
    state, loops, source = hmm.table.state[ids], hmm.table.self_loop[ids], hmm.table.source[ids]
    same = np.concatenate([[False], source[1:] == source[:-1]])
    leaving_first = bool((~loops | same).all())
    entered = ~loops if leaving_first else np.concatenate([[True], ~loops[:-1]])
    return np.flatnonzero(entered & (state == 0))


def frame_events(hmm: Hmm, transition_ids: Array) -> Array:
    """[T, 4]: the ids of the phone before, the phone itself and the phone after, and the state within it.

    0 stands for the edge of the utterance. Silence sounds the same everywhere: its own neighbours are given as 0.

    >>> from bochner.speech.hmm.model import monophone_hmm
    >>> hmm = monophone_hmm(phones=["a", "b"], num_states=1)
    >>> frame_events(hmm, np.array([2, 1, 4])).tolist()  # a a b
    [[0, 1, 2, 0], [0, 1, 2, 0], [1, 2, 0, 0]]
    """
    ids = np.asarray(transition_ids)
    starts = phone_starts(hmm, ids)
    rows = _neighbourhoods(hmm, hmm.table.phone[ids[starts]])
    lengths = np.diff([*starts, len(ids)])
    return np.column_stack([np.repeat(rows, lengths, axis=0), hmm.table.state[ids]])


def event_pdfs(hmm: Hmm, events: Array) -> Array:
    """The pdf of each event [N, 4] by the tree of `hmm`; every distinct event is asked once."""
    unique, group = np.unique(events, axis=0, return_inverse=True)
    answers = [_ask(hmm, *map(int, event)) for event in unique]
    return np.array(answers, dtype=np.int32)[group.reshape(-1)]


def _ask(hmm: Hmm, left: int, centre: int, right: int, state: int) -> int:
    known, pdf = hmm.tree.compute([left, centre, right] if hmm.context_width == 3 else [centre], state)
    if not known:
        raise ValueError(f"the tree has no pdf for state {state} of phone {centre} between {left} and {right}.")
    return int(pdf)


def segment_events(hmm: Hmm, phones: Sequence[Segment], num_frames: int, *, frame_shift: float, offset: float) -> Array:
    """[T, 4] like `frame_events`, from phones with known times; a phone's frames are shared out among its states.

    Frame t stands for the time offset + frame_shift (t + 1/2). Frames before the first phone or after the last belong
    to these.
    """
    middles = offset + frame_shift * (np.arange(num_frames) + 0.5)
    place = np.searchsorted([segment.start for segment in phones[1:]], middles, side="right")
    numbers = np.array([hmm.phone_ids[segment.label] for segment in phones])
    first = np.searchsorted(place, np.arange(len(phones)))
    length = np.bincount(place, minlength=len(phones))
    states = hmm.states_of[numbers[place]] * (np.arange(num_frames) - first[place]) // length[place]
    return np.column_stack([_neighbourhoods(hmm, numbers)[place], states])


def _neighbourhoods(hmm: Hmm, phones: Array) -> Array:
    """[n, 3]: each phone between its neighbours."""
    padded = np.concatenate([[0], phones, [0]])
    rows = np.stack([padded[:-2], phones, padded[2:]], axis=1)
    rows[np.isin(phones, [hmm.phone_ids[name] for name in hmm.silence])] *= [0, 1, 0]
    return rows
