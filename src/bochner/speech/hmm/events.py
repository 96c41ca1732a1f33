"""Gaussian statistics of frames by event: a state of a phone between two others. What trees are grown from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


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
