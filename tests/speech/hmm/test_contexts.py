import numpy as np
import pytest

from bochner.speech.hmm.contexts import event_pdfs, frame_events, phone_starts, segment_events
from bochner.speech.hmm.model import monophone_hmm
from bochner.speech.manifest import Segment


@pytest.fixture
def hmm():
    return monophone_hmm(phones=["SIL", "a", "b"], silence=["SIL"], num_states=2, num_silence_states=1)


def ids_of(hmm, phone, state):
    """(self-loop, leaving) of a state."""
    rows = np.flatnonzero((hmm.table.phone == hmm.phone_ids[phone]) & (hmm.table.state == state))
    rows = rows[rows > 0]
    loops = hmm.table.self_loop[rows]
    return int(rows[loops][0]), int(rows[~loops][0])


def path(hmm, visits, *, leaving_first):
    found = []
    for phone, state, frames in visits:
        loop, leave = ids_of(hmm, phone, state)
        found += [leave] + [loop] * (frames - 1) if leaving_first else [loop] * (frames - 1) + [leave]
    return np.array(found)


VISITS = [("SIL", 0, 3), ("a", 0, 1), ("a", 1, 2), ("a", 0, 2), ("a", 1, 1), ("b", 0, 1), ("b", 1, 4)]


@pytest.mark.parametrize("leaving_first", [True, False])
def test_phones_begin_where_their_first_state_is_entered(hmm, leaving_first):
    assert phone_starts(hmm, path(hmm, VISITS, leaving_first=leaving_first)).tolist() == [0, 3, 6, 9]


def test_events_name_the_neighbours(hmm):
    events = frame_events(hmm, path(hmm, VISITS, leaving_first=True))
    assert events[0].tolist() == [0, 1, 0, 0]  # silence has no neighbours
    assert events[3].tolist() == [1, 2, 2, 0]
    assert events[4].tolist() == [1, 2, 2, 1]
    assert events[6].tolist() == [2, 2, 3, 0]
    assert events[-1].tolist() == [2, 3, 0, 1]


def test_events_from_known_times(hmm):
    phones = [Segment("SIL", 0.0, 0.03), Segment("a", 0.03, 0.07), Segment("b", 0.07, 0.08)]
    events = segment_events(hmm, phones, 9, frame_shift=0.01, offset=0.0)
    assert events[:, 1].tolist() == [1, 1, 1, 2, 2, 2, 2, 3, 3]  # the ninth frame lies after the last phone
    assert events[:, 3].tolist() == [0, 0, 0, 0, 0, 1, 1, 0, 1]
    assert events[3].tolist() == [1, 2, 3, 0]
    later = segment_events(hmm, phones, 9, frame_shift=0.01, offset=0.01)
    assert later[:, 1].tolist() == [1, 1, 2, 2, 2, 2, 3, 3, 3]


def test_monophones_ask_only_for_the_phone_itself(hmm):
    events = np.array([[1, 2, 3, 1], [0, 2, 0, 1], [1, 3, 0, 0]])
    pdfs = event_pdfs(hmm, events)
    assert pdfs[0] == pdfs[1] != pdfs[2]


def test_an_unknown_state_is_named(hmm):
    with pytest.raises(ValueError, match="no pdf for state 7 of phone 2"):
        event_pdfs(hmm, np.array([[0, 2, 0, 7]]))
