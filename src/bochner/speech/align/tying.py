"""Where a stage starts: states tied over the last alignment, one Gaussian each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.speech.align.views import ViewedFrames
from bochner.speech.hmm.contexts import GROUP, event_pdfs, frame_events
from bochner.speech.hmm.events import EventStatistics, collect_events
from bochner.speech.hmm.mixtures import Mixtures
from bochner.speech.hmm.model import Hmm, make_hmm
from bochner.speech.hmm.questions import cluster_phones
from bochner.speech.hmm.tree import grow_tree
from bochner.speech.hmm.treefile import context_dependency

Array = NDArray[Any]
Paths = Mapping[str, Array]
Events = Mapping[str, Array]
MIN_VARIANCE = 1e-3


def path_events(hmm: Hmm, paths: Paths) -> dict[str, Array]:
    """The events [T, 4] of each path [T] of transition ids of `hmm`."""
    return {name: frame_events(hmm, path) for name, path in paths.items()}


def labels_of(hmm: Hmm, events: Events) -> dict[str, Array]:
    """The pdf of each frame by the tree of `hmm`."""
    return {name: event_pdfs(hmm, rows) for name, rows in events.items()}


def statistics_of(events: Events, frames: ViewedFrames, *, num_groups: int = 1) -> EventStatistics:
    """Sums by event, and by group of speakers where there is more than one."""
    if num_groups == 1:
        return collect_events((frames[name], rows) for name, rows in events.items())
    groups = speaker_groups({name: frames.speaker_of.get(name, name) for name in events}, num_groups=num_groups)
    return collect_events((frames[name], np.insert(rows, GROUP, groups[name], axis=1)) for name, rows in events.items())


def speaker_groups(speaker_of: Mapping[str, str], *, num_groups: int) -> dict[str, int]:
    """The group of each utterance, all of a speaker in one; of a single speaker, utterances are dealt out instead.

    >>> speaker_groups({"a1": "ann", "a2": "ann", "b1": "bob", "c1": "cy"}, num_groups=2)
    {'a1': 0, 'a2': 0, 'b1': 1, 'c1': 0}
    """
    if len(set(speaker_of.values())) == 1:
        speaker_of = {name: name for name in speaker_of}
    place = {speaker: number for number, speaker in enumerate(sorted(set(speaker_of.values())))}
    return {name: place[speaker] % num_groups for name, speaker in speaker_of.items()}


def tie_states(hmm: Hmm, statistics: EventStatistics, *, num_leaves: int, min_count: float) -> Hmm:
    """The same phones with states tied by a tree grown over the statistics; each spoken phone has its own root."""
    silence = [hmm.phone_ids[name] for name in hmm.silence]
    tree = grow_tree(
        statistics,
        cluster_phones(statistics),
        roots=[[number] for number in hmm.phone_ids.values() if number not in silence],
        untied=silence,
        states_of={number: int(hmm.states_of[number]) for number in hmm.phone_ids.values()},
        num_leaves=num_leaves,
        min_count=min_count,
    )
    return make_hmm(phones=hmm.phones, silence=hmm.silence, topology=hmm.topology, tree=context_dependency(tree))


def single_gaussians(hmm: Hmm, statistics: EventStatistics, *, min_count: float = 10.0) -> Mixtures:
    """One Gaussian for each pdf, fitted to its frames; pdfs with fewer than `min_count` get that of all frames."""
    sums = np.zeros((hmm.num_pdfs, statistics.sums.shape[1]))
    np.add.at(sums, event_pdfs(hmm, statistics.events[:, :GROUP]), statistics.sums)
    sums[sums[:, 0] < min_count] = statistics.sums.sum(axis=0)
    first, second = np.split(sums[:, 1:] / sums[:, :1], 2, axis=1)
    variances = np.maximum(second - first**2, MIN_VARIANCE)
    return Mixtures(np.ones(len(sums), dtype=np.int64), np.ones(len(sums)), first, variances)
