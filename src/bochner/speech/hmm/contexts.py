"""Transition weights, frames labelled by phone and context, and Gaussian statistics of such events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from bochner.speech.frames import Array
from bochner.speech.hmm.model import Hmm
from bochner.speech.kaldi import kaldi_hmm_gmm
from bochner.speech.manifest import Segment

MIN_VARIANCE = 0.01  # of frames normalised to unit variance
# The columns of events [T, 4]; those of quinphones [T, 6] have the neighbours' neighbours as well. In statistics one
# more column, the last, may be the group of speakers.
LEFT, CENTRE, RIGHT, STATE, FAR_LEFT, FAR_RIGHT = range(6)


def transition_weights(hmm: Hmm, *, transition_scale: float = 1.0, self_loop_scale: float = 0.1) -> Array:
    """The term that each transition id [1 + ids] adds to the log score of a path.

    log p is the sum of log p(stay or leave), scaled by `self_loop_scale`, and log p(target | leave), scaled by
    `transition_scale`. The acoustic scores already determine durations, so the first scale is small.

    Source: Kaldi's `GetScaledTransitionLogProb`.
    """
    log_probabilities = np.array(hmm.transitions.log_probs)
    leaving = np.array(hmm.transitions.non_self_loop_log_probs)[hmm.table.source]
    moved = self_loop_scale * leaving + transition_scale * (log_probabilities - leaving)
    return np.where(hmm.table.self_loop, self_loop_scale * log_probabilities, moved)


def update_transitions(hmm: Hmm, counts: Array) -> Hmm:
    """Maximum likelihood transition probabilities from counts [1 + ids] of transition ids, with Kaldi's limits.

    A state that occurs fewer than 5 times keeps its probabilities; none falls below 0.01.
    """
    updated = hmm.with_log_probabilities(np.array(hmm.transitions.log_probs))  # a copy: the update is in place
    settings = kaldi_hmm_gmm.MleTransitionUpdateConfig(floor=0.01, mincount=5.0)
    updated.transitions.mle_update(np.asarray(counts, dtype=np.float64), settings)
    return updated


def count_transitions(hmm: Hmm, transition_ids: Array) -> Array:
    return np.bincount(transition_ids, minlength=hmm.num_transition_ids + 1)


def phone_starts(hmm: Hmm, transition_ids: Array) -> Array:
    """The frames at which phones begin.

    A phone begins where its first state is entered. By default, here and in Kaldi, the transition that leaves a state
    is that of its first frame, before the self-loops; the other order is recognised as well.
    """
    ids = np.asarray(transition_ids)
    state, loops, source = hmm.table.state[ids], hmm.table.self_loop[ids], hmm.table.source[ids]
    same = np.concatenate([[False], source[1:] == source[:-1]])
    leaving_first = bool((~loops | same).all())
    entered = ~loops if leaving_first else np.concatenate([[True], ~loops[:-1]])
    return np.flatnonzero(entered & (state == 0))


def frame_events(hmm: Hmm, transition_ids: Array, *, context_width: int = 3) -> Array:
    """[T, 4]: the ids of the phone before, the phone itself and the phone after, and the state within it.

    0 is the edge of the utterance. Silence is context-independent: its neighbours are 0. For a `context_width` of 5,
    [T, 6]: followed by the phone two before and the phone two after.

    >>> from bochner.speech.hmm.model import monophone_hmm
    >>> hmm = monophone_hmm(phones=["a", "b"], num_states=1)
    >>> frame_events(hmm, np.array([2, 1, 4])).tolist()  # a a b
    [[0, 1, 2, 0], [0, 1, 2, 0], [1, 2, 0, 0]]
    """
    ids = np.asarray(transition_ids)
    starts = phone_starts(hmm, ids)
    rows = _neighbourhoods(hmm, hmm.table.phone[ids[starts]], context_width)
    lengths = np.diff([*starts, len(ids)])
    return np.insert(np.repeat(rows, lengths, axis=0), STATE, hmm.table.state[ids], axis=1)


def event_pdfs(hmm: Hmm, events: Array) -> Array:
    """The pdf of each event [N, 4 or 6] by the tree of `hmm`, which is evaluated once for each distinct event."""
    unique, group = np.unique(events, axis=0, return_inverse=True)
    answers = [_ask(hmm, [int(value) for value in event]) for event in unique]
    return np.array(answers, dtype=np.int32)[group.reshape(-1)]


def _ask(hmm: Hmm, event: list[int]) -> int:
    windows = {1: [CENTRE], 3: [LEFT, CENTRE, RIGHT], 5: [FAR_LEFT, LEFT, CENTRE, RIGHT, FAR_RIGHT]}
    known, pdf = hmm.tree.compute([event[column] for column in windows[hmm.context_width]], event[STATE])
    if not known:
        left, centre, right, state = event[: STATE + 1]
        raise ValueError(f"the tree has no pdf for state {state} of phone {centre} between {left} and {right}.")
    return int(pdf)


def segment_events(hmm: Hmm, phones: Sequence[Segment], num_frames: int, *, frame_shift: float, offset: float) -> Array:
    """[T, 4] like `frame_events`, from timed phones; the frames of a phone are divided equally among its states.

    Frame t is at the time offset + frame_shift (t + 1/2). Frames before the first phone or after the last belong to
    these.
    """
    middles = offset + frame_shift * (np.arange(num_frames) + 0.5)
    place = np.searchsorted([segment.start for segment in phones[1:]], middles, side="right")
    numbers = np.array([hmm.phone_ids[segment.label] for segment in phones])
    first = np.searchsorted(place, np.arange(len(phones)))
    length = np.bincount(place, minlength=len(phones))
    states = hmm.states_of[numbers[place]] * (np.arange(num_frames) - first[place]) // length[place]
    return np.column_stack([_neighbourhoods(hmm, numbers)[place], states])


def _neighbourhoods(hmm: Hmm, phones: Array, context_width: int = 3) -> Array:
    """[n, 3]: each phone between its neighbours; [n, 5] for quinphones: then the phones two before and two after."""
    padded = np.concatenate([[0, 0], phones, [0, 0]])
    offsets = (-1, 0, 1) if context_width < 5 else (-1, 0, 1, -2, 2)
    rows = np.stack([padded[2 + offset : 2 + offset + len(phones)] for offset in offsets], axis=1)
    rows[np.isin(phones, [hmm.phone_ids[name] for name in hmm.silence])] *= [offset == 0 for offset in offsets]
    return rows


class EventStatistics(NamedTuple):
    """For each distinct event, a row of `events` [E, 4 or 6], the sums [E, 1 + 2 d] of 1, x and x^2 over its frames.

    An optional last column of `events` is the group of speakers of the frames.
    """

    events: Array
    sums: Array

    @property
    def counts(self) -> Array:
        return self.sums[:, 0]

    @property
    def context_width(self) -> int:
        """3 for triphones, 5 for quinphones."""
        return 3 if self.events.shape[1] <= STATE + 2 else 5

    @property
    def groups(self) -> Array | None:
        """The groups of speakers [E], or None."""
        return self.events[:, -1] if self.events.shape[1] % 2 else None


def collect_events(utterances: Iterable[tuple[Array, Array]], *, block: int = 100_000) -> EventStatistics:
    """Sums over pairs of frames [T, d] and their events [T, 4]; about `block` frames are in memory at a time.

    >>> statistics = collect_events([(np.array([[1.0], [3.0]]), np.array([[0, 1, 2, 0], [0, 1, 2, 0]]))])
    >>> statistics.events.tolist(), statistics.sums.tolist()
    ([[0, 1, 2, 0]], [[2.0, 4.0, 10.0]])
    """
    sums: list[EventStatistics] = []
    pending: list[tuple[Array, Array]] = []
    for pair in utterances:
        pending.append(pair)
        if sum(len(frames) for frames, _ in pending) >= block:
            sums.append(_sum_block(pending))
            pending = []
    if pending:
        sums.append(_sum_block(pending))
    if not sums:
        raise ValueError("utterances must hold at least one with frames, got none.")
    return _merge(*(np.concatenate(columns) for columns in zip(*sums, strict=True)))


def gaussian_log_likelihood(sums: Array) -> Array:
    """The log likelihood of frames under the Gaussian fitted to them, from their sums [..., 1 + 2 d].

    -n/2 sum_i (1 + log 2 pi v_i), with v_i = E x_i^2 - (E x_i)^2, at least 0.01; 0 for no frames.
    """
    counts = sums[..., 0]
    dim = (sums.shape[-1] - 1) // 2
    means = sums[..., 1:] / np.maximum(counts, 1e-10)[..., None]
    variances = np.maximum(means[..., dim:] - means[..., :dim] ** 2, MIN_VARIANCE)
    return -0.5 * counts * (1.0 + np.log(2 * np.pi * variances)).sum(axis=-1)


def heldout_log_likelihood(sums: Array, prior: Array) -> Array:
    """The log likelihood of K groups of frames, each under the Gaussian of the others, from sums [..., K, 1 + 2 d].

    The pseudo-frame `prior` [1 + 2 d] is added to each Gaussian, which makes it defined if all frames are of one group.
    Source: Shinozaki, 2006.

    >>> first, second = np.array([2.0, 0.0, 2.0]), np.array([2.0, 6.0, 20.0])  # frames -1, 1 and 2, 4
    >>> float(heldout_log_likelihood(np.stack([first, second]), np.zeros(3)).round(2))  # each is far from the other
    -23.68
    >>> float(gaussian_log_likelihood(first + second).round(2))
    -8.03
    """
    dim = (sums.shape[-1] - 1) // 2
    others = sums.sum(axis=-2, keepdims=True) - sums + prior
    counts = np.maximum(others[..., :1], 1e-10)
    means = others[..., 1 : dim + 1] / counts
    variances = np.maximum(others[..., dim + 1 :] / counts - means**2, MIN_VARIANCE)
    own, first, second = sums[..., :1], sums[..., 1 : dim + 1], sums[..., dim + 1 :]
    squares = second - 2 * means * first + means**2 * own
    return -0.5 * (own * np.log(2 * np.pi * variances) + squares / variances).sum(axis=(-2, -1))


def _sum_block(pairs: list[tuple[Array, Array]]) -> EventStatistics:
    frames, events = (np.concatenate(arrays) for arrays in zip(*pairs, strict=True))
    X = frames.astype(np.float64)
    return _merge(events, np.hstack([np.ones((len(X), 1)), X, X**2]))


def _merge(events: Array, sums: Array) -> EventStatistics:
    unique, group = np.unique(events, axis=0, return_inverse=True)
    group = group.reshape(-1)
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(len(unique)))
    return EventStatistics(unique, np.add.reduceat(sums[order], starts, axis=0))
