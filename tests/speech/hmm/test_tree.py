import itertools

import numpy as np
import pytest

from bochner.speech.align.em import tie_states
from bochner.speech.hmm.contexts import (
    CENTRE,
    FAR_LEFT,
    LEFT,
    RIGHT,
    STATE,
    EventStatistics,
    collect_events,
    event_pdfs,
    gaussian_log_likelihood,
    heldout_log_likelihood,
)
from bochner.speech.hmm.model import make_hmm, monophone_hmm, write_topology
from bochner.speech.hmm.tree import Leaf, Split, Table, cluster_phones, context_dependency, grow_tree

SILENCE, PHONES = 1, (2, 3, 4, 5)
STATES = {1: 3, 2: 3, 3: 3, 4: 3, 5: 3}


@pytest.fixture(scope="module")
def statistics() -> EventStatistics:
    """Phones 2, 3 and 4, 5 sound alike; the left neighbour's kind shifts the first state, the right one's the last."""
    generator = np.random.default_rng(0)
    rows = []
    for left, centre, right in itertools.product((0, 1, *PHONES), PHONES, (0, 1, *PHONES)):
        rows += [(left, centre, right, state) for state in range(3)]
    rows += [(0, SILENCE, 0, state) for state in range(3)]
    events = np.repeat(np.array(rows), 20, axis=0)
    kind = lambda phones: np.where(phones >= 4, 1.0, -1.0)  # noqa: E731
    frames = generator.standard_normal((len(events), 3))
    frames[:, 0] += 4 * kind(events[:, CENTRE]) + 0.5 * events[:, CENTRE]
    frames[events[:, CENTRE] == SILENCE, 0] -= 20
    frames[:, 1] += 3 * kind(events[:, LEFT]) * (events[:, STATE] == 0)
    frames[:, 2] += 2 * kind(events[:, RIGHT]) * (events[:, STATE] == 2)
    return collect_events([(frames, events)])


def grown(statistics, num_leaves, **settings):
    settings = {"roots": [[phone] for phone in PHONES], "untied": [SILENCE], "states_of": STATES, **settings}
    return grow_tree(statistics, cluster_phones(statistics), num_leaves=num_leaves, **settings)


def asked(node, event):
    while not isinstance(node, Leaf):
        value = int(event[node.column])
        node = node.branches[value] if isinstance(node, Table) else node.yes if value in node.values else node.no
    return node.pdf


def test_sums_by_event_are_plain_sums():
    generator = np.random.default_rng(1)
    frames, events = generator.standard_normal((50, 2)), generator.integers(0, 2, (50, 4))
    found = collect_events([(frames[:20], events[:20]), (frames[20:], events[20:])], block=10)
    for event, sums in zip(found.events, found.sums, strict=True):
        here = frames[(events == event).all(axis=1)]
        np.testing.assert_allclose(sums, [len(here), *here.sum(axis=0), *(here**2).sum(axis=0)])
    assert found.counts.sum() == 50


def test_likelihood_of_sums_is_that_of_the_frames():
    frames = np.random.default_rng(2).standard_normal((40, 3)) * [1.0, 2.0, 3.0]
    sums = np.concatenate([[40], frames.sum(axis=0), (frames**2).sum(axis=0)])
    mean, variance = frames.mean(axis=0), frames.var(axis=0)
    expected = -0.5 * np.sum(np.log(2 * np.pi * variance) + (frames - mean) ** 2 / variance)
    assert gaussian_log_likelihood(sums) == pytest.approx(expected)
    assert gaussian_log_likelihood(np.zeros(7)) == 0.0


def test_heldout_likelihood_is_that_of_each_group_under_the_others():
    generator = np.random.default_rng(3)
    groups = [generator.normal(mean, 2.0, (size, 3)) for mean, size in ((0, 30), (1, 20), (2, 1))]
    prior = np.array([1.0, 0.5, 0.5, 0.5, 4.0, 4.0, 4.0])
    sums = np.stack([[len(rows), *rows.sum(axis=0), *(rows**2).sum(axis=0)] for rows in groups])
    expected = 0.0
    for k, rows in enumerate(groups):
        count, *moments = sums[[i for i in range(3) if i != k]].sum(axis=0) + prior
        mean = np.array(moments[:3]) / count
        variance = np.array(moments[3:]) / count - mean**2
        expected += -0.5 * np.sum(np.log(2 * np.pi * variance) + (rows - mean) ** 2 / variance)
    assert heldout_log_likelihood(sums, prior) == pytest.approx(expected)
    assert heldout_log_likelihood(np.stack([sums, 0 * sums]), prior)[1] == 0.0


def test_splits_that_only_tell_speakers_apart_are_not_made():
    """Each left neighbour occurs with one speaker only, and frames depend on speakers, not on neighbours."""
    generator = np.random.default_rng(4)
    speaker = np.repeat(np.arange(3), 200)
    right = generator.choice(PHONES, size=600)
    frames = generator.standard_normal((600, 2))
    frames[:, 0] += np.array([-3.0, 0.0, 3.0])[speaker]
    frames[:, 1] += np.where(right >= 4, 6.0, -6.0)  # a context that all speakers share
    events = np.column_stack([np.array(PHONES)[speaker], np.full(600, 2), right, np.zeros(600, dtype=int), speaker])
    settings = {"roots": [[2]], "states_of": {2: 1}, "num_leaves": 50, "min_count": 20.0}
    questions = [frozenset({phone}) for phone in PHONES] + [frozenset({2, 3}), frozenset({4, 5})]
    blind = grow_tree(collect_events([(frames, events[:, :4])]), questions, **settings)
    careful = grow_tree(collect_events([(frames, events)]), questions, **settings)
    assert blind.num_pdfs > 10
    assert careful.num_pdfs == 2
    assert careful.root.branches[2].column == RIGHT
    assert careful.root.branches[2].values in (frozenset({2, 3}), frozenset({4, 5}))


def test_phones_that_sound_alike_are_asked_for_together(statistics):
    questions = cluster_phones(statistics)
    assert frozenset({2, 3}) in questions
    assert frozenset({4, 5}) in questions
    assert {frozenset({phone}) for phone in PHONES} <= set(questions)
    assert frozenset({3, 4}) not in questions


def test_mergers_lose_the_least_likelihood_each_time(statistics):
    """The first merger is the best of all pairs."""
    questions = cluster_phones(statistics)
    middle = {
        phone: statistics.sums[(statistics.events[:, CENTRE] == phone) & (statistics.events[:, STATE] == 1)].sum(axis=0)
        for phone in (SILENCE, *PHONES)
    }
    loss = lambda a, b: (  # noqa: E731
        gaussian_log_likelihood(middle[a])
        + gaussian_log_likelihood(middle[b])
        - gaussian_log_likelihood(middle[a] + middle[b])
    )
    best = min(itertools.combinations(middle, 2), key=lambda pair: loss(*pair))
    assert questions[len(middle)] == frozenset(best)


def test_the_first_split_gains_most_of_all(statistics):
    tree = grown(statistics, 8, roots=[PHONES])  # silence has 3 leaves, the one root grows to 5
    questions = cluster_phones(statistics)
    is_speech = statistics.events[:, CENTRE] != SILENCE
    events, sums = statistics.events[is_speech], statistics.sums[is_speech]
    gains = {}
    candidates = [(column, values) for column in (LEFT, CENTRE, RIGHT) for values in questions]
    for column, values in [*candidates, (STATE, frozenset({0})), (STATE, frozenset({0, 1}))]:
        yes = np.isin(events[:, column], list(values))
        if yes.any() and not yes.all():
            parts = gaussian_log_likelihood(sums[yes].sum(axis=0)) + gaussian_log_likelihood(sums[~yes].sum(axis=0))
            gains[column, values] = parts
    root = tree.root.branches[2]
    assert isinstance(root, Split)
    assert gains[root.column, root.values] == pytest.approx(max(gains.values()))


@pytest.mark.parametrize("num_leaves", [7, 12, 30])
def test_any_number_of_leaves(statistics, num_leaves):
    assert grown(statistics, num_leaves).num_pdfs == num_leaves


def test_never_fewer_than_the_roots(statistics):
    assert grown(statistics, 1).num_pdfs == 7  # three states of silence, four phones


def test_leaves_keep_enough_frames(statistics):
    tree = grown(statistics, 1000, min_count=200)
    pdfs = np.array([asked(tree.root, event) for event in statistics.events])
    counts = np.bincount(pdfs, weights=statistics.counts)
    assert tree.num_pdfs > 12
    assert counts[3:].min() >= 200


def test_growth_stops_where_nothing_is_gained(statistics):
    few = grown(statistics, 1000, min_gain=500.0).num_pdfs
    assert few < grown(statistics, 1000, min_gain=0.0).num_pdfs


def test_kaldi_gives_the_same_answers(statistics):
    phones = ["SIL", "a", "b", "c", "d"]
    tree = grown(statistics, 25)
    start = monophone_hmm(phones=phones, silence=["SIL"])
    hmm = make_hmm(phones=phones, silence=["SIL"], topology=start.topology, tree=context_dependency(tree))
    assert (hmm.num_pdfs, hmm.context_width) == (25, 3)
    expected = [asked(tree.root, event) for event in statistics.events]
    assert event_pdfs(hmm, statistics.events).tolist() == expected
    assert len(set(expected)) == 25


def test_silence_has_one_pdf_for_each_state(statistics):
    tree = grown(statistics, 20)
    silent = {asked(tree.root, (left, SILENCE, right, 1)) for left in range(6) for right in range(6)}
    assert len(silent) == 1


def test_pooled_roots_share_pdfs(statistics):
    tree = grown(statistics, 5, roots=[[2, 3], [4, 5]])
    assert asked(tree.root, (0, 2, 0, 0)) == asked(tree.root, (0, 3, 0, 0)) != asked(tree.root, (0, 4, 0, 0))


def test_no_frames_are_an_error():
    with pytest.raises(ValueError, match="at least one"):
        collect_events([])


def test_quinphones_ask_about_the_neighbours_of_neighbours():
    """The frames depend on the second phone before: only a tree over five phones can represent this."""
    generator = np.random.default_rng(0)
    phones = (0, *PHONES)
    combined = itertools.product(phones, PHONES, phones, range(3), phones, phones)
    events = np.array(list(combined))  # left, centre, right, state, far left, far right
    frames = generator.standard_normal((len(events), 2))
    frames[:, 0] += 3.0 * np.isin(events[:, FAR_LEFT], (2, 3))
    far = collect_events([(frames, events)])
    assert far.context_width == 5
    tree = grow_tree(far, [frozenset({2, 3}), frozenset({4, 5})], roots=[PHONES], states_of=STATES, num_leaves=2)
    node = tree.root.branches[2]
    assert (node.column, node.values) == (FAR_LEFT, frozenset({2, 3}))
    near = collect_events([(frames, events[:, :4])])
    assert near.context_width == 3
    tree = grown(far, 30)
    hmm = make_hmm(
        phones=["SIL", "a", "b", "c", "d"],
        silence=["SIL"],
        topology=write_topology(num_phones=5, silence=[1]),
        tree=context_dependency(tree),
    )
    assert hmm.context_width == 5
    assert event_pdfs(hmm, far.events).tolist() == [asked(tree.root, event) for event in far.events]


def test_phones_that_differ_in_a_digit_share_states_until_it_helps_to_separate_them(statistics):
    hmm = monophone_hmm(phones=["SIL", "aa1", "aa2", "oo1", "oo2"], silence=["SIL"], num_silence_states=3)
    middle = np.array([[0, phone, 0, 1] for phone in PHONES])

    def pdfs(num_leaves: int, *, shared: bool) -> list[int]:
        tied = tie_states(hmm, statistics, num_leaves=num_leaves, min_count=20, shared_roots=shared)
        return event_pdfs(tied, middle).tolist()

    aa1, aa2, oo1, oo2 = pdfs(9, shared=True)
    assert aa1 == aa2 != oo1 == oo2
    assert len(set(pdfs(9, shared=False))) == 4
    assert len(set(pdfs(100, shared=True))) == 4
