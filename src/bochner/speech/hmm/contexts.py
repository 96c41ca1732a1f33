"""Transition weights, frames labelled by phone and context, and Gaussian statistics of such events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from bochner.speech.frames import Array
from bochner.speech.hmm.model import Hmm
from bochner.speech.kaldi import kaldi_hmm_gmm
from bochner.speech.manifest import Segment


def transition_weights(hmm: Hmm, *, transition_scale: float = 1.0, self_loop_scale: float = 0.1) -> Array:
    """What each transition id [1 + ids] adds to a path's log score.

    log p splits into staying or leaving, scaled by `self_loop_scale`, and where to go on leaving, scaled by
    `transition_scale`; frames already say how long a state lasts, so the first counts little.

    Source: Kaldi's `GetScaledTransitionLogProb`.
    """
    log_probabilities = np.array(hmm.transitions.log_probs)
    leaving = np.array(hmm.transitions.non_self_loop_log_probs)[hmm.table.source]
    moved = self_loop_scale * leaving + transition_scale * (log_probabilities - leaving)
    return np.where(hmm.table.self_loop, self_loop_scale * log_probabilities, moved)


def update_transitions(hmm: Hmm, counts: Array, *, floor: float = 0.01, min_count: float = 5.0) -> Hmm:
    """The transition probabilities that counts [1 + ids] of transition ids make most likely.

    A state seen less than `min_count` times keeps its probabilities; none falls below `floor`.
    """
    learned = hmm.with_log_probabilities(np.array(hmm.transitions.log_probs))  # a copy: the update is in place
    settings = kaldi_hmm_gmm.MleTransitionUpdateConfig(floor=floor, mincount=min_count)
    learned.transitions.mle_update(np.asarray(counts, dtype=np.float64), settings)
    return learned


def count_transitions(hmm: Hmm, transition_ids: Array) -> Array:
    return np.bincount(transition_ids, minlength=hmm.num_transition_ids + 1)


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


class EventStatistics(NamedTuple):
    """For each event that was seen, `events` [E, 4], the sums [E, 1 + 2 d] of 1, x and x^2 over its frames.

    A fifth column of `events`, where there is one, is the group of speakers that the frames are of.
    """

    events: Array
    sums: Array

    @property
    def counts(self) -> Array:
        return self.sums[:, 0]


def collect_events(utterances: Iterable[tuple[Array, Array]], *, block: int = 100_000) -> EventStatistics:
    """Sums over pairs of frames [T, d] and their events [T, 4]; about `block` frames are held at a time.

    >>> found = collect_events([(np.array([[1.0], [3.0]]), np.array([[0, 1, 2, 0], [0, 1, 2, 0]]))])
    >>> found.events.tolist(), found.sums.tolist()
    ([[0, 1, 2, 0]], [[2.0, 4.0, 10.0]])
    """
    found: list[EventStatistics] = []
    held: list[tuple[Array, Array]] = []
    for pair in utterances:
        held.append(pair)
        if sum(len(frames) for frames, _ in held) >= block:
            found.append(_sum_block(held))
            held = []
    if held:
        found.append(_sum_block(held))
    if not found:
        raise ValueError("utterances must hold at least one with frames, got none.")
    return _merge(np.concatenate([one.events for one in found]), np.concatenate([one.sums for one in found]))


def gaussian_log_likelihood(sums: Array, *, min_variance: float = 0.01) -> Array:
    """The log likelihood of frames under the Gaussian fitted to them, from their sums [..., 1 + 2 d].

    -n/2 sum_i (1 + log 2 pi v_i), with v_i = E x_i^2 - (E x_i)^2 >= min_variance; 0 for no frames.
    """
    counts = sums[..., 0]
    dim = (sums.shape[-1] - 1) // 2
    means = sums[..., 1:] / np.maximum(counts, 1e-10)[..., None]
    variances = np.maximum(means[..., dim:] - means[..., :dim] ** 2, min_variance)
    return -0.5 * counts * (1.0 + np.log(2 * np.pi * variances)).sum(axis=-1)


def heldout_log_likelihood(sums: Array, prior: Array, *, min_variance: float = 0.01) -> Array:
    """The log likelihood of K groups of frames, each under the Gaussian of the others, from sums [..., K, 1 + 2 d].

    Each Gaussian hears the frame `prior` [1 + 2 d] as well, so that it is there where all frames are of one group.
    Source: Shinozaki, 2006.

    >>> here, there = np.array([2.0, 0.0, 2.0]), np.array([2.0, 6.0, 20.0])  # -1, 1 and 2, 4
    >>> float(heldout_log_likelihood(np.stack([here, there]), np.zeros(3)).round(2))  # both are far from the other
    -23.68
    >>> float(gaussian_log_likelihood(here + there).round(2))
    -8.03
    """
    dim = (sums.shape[-1] - 1) // 2
    others = sums.sum(axis=-2, keepdims=True) - sums + prior
    counts = np.maximum(others[..., :1], 1e-10)
    means = others[..., 1 : dim + 1] / counts
    variances = np.maximum(others[..., dim + 1 :] / counts - means**2, min_variance)
    own, first, second = sums[..., :1], sums[..., 1 : dim + 1], sums[..., dim + 1 :]
    squares = second - 2 * means * first + means**2 * own
    return -0.5 * (own * np.log(2 * np.pi * variances) + squares / variances).sum(axis=(-2, -1))


def _sum_block(held: list[tuple[Array, Array]]) -> EventStatistics:
    frames = np.concatenate([frames for frames, _ in held]).astype(np.float64)
    ones = np.ones((len(frames), 1))
    return _merge(np.concatenate([events for _, events in held]), np.hstack([ones, frames, frames**2]))


def _merge(events: Array, sums: Array) -> EventStatistics:
    unique, group = np.unique(events, axis=0, return_inverse=True)
    group = group.reshape(-1)
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(len(unique)))
    return EventStatistics(unique, np.add.reduceat(sums[order], starts, axis=0))
