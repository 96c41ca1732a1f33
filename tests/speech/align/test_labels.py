import numpy as np
import pytest

from bochner.speech.align.agreement import compare_all, compare_segments
from bochner.speech.align.labels import (
    count_pronunciations,
    phone_segments,
    phone_states,
    read_ctm,
    tied_states,
    word_segments,
)
from bochner.speech.hmm.model import monophone_hmm
from bochner.speech.lexicon import Lexicon
from bochner.speech.manifest import Segment


def test_states_of_phones_are_numbered_in_a_row():
    hmm = monophone_hmm(phones=["SIL", "a", "b"], silence=["SIL"], num_states=3, num_silence_states=5)
    ids = np.arange(1, hmm.num_transition_ids + 1)
    np.testing.assert_array_equal(phone_states(hmm, ids), tied_states(hmm, ids))  # monophones: the same thing
    assert phone_states(hmm, ids).max() == 5 + 3 + 3 - 1
    assert phone_states(hmm, ids).dtype == tied_states(hmm, ids).dtype == np.int32


def test_segments_in_seconds():
    hmm = monophone_hmm(phones=["a", "b"], num_states=1)
    path = np.array([2, 1, 1, 4, 2, 1])
    segments = phone_segments(hmm, path, frame_shift=0.01, offset=0.0075)
    assert segments == (Segment("a", 0.0, 0.0375), Segment("b", 0.0375, 0.0475), Segment("a", 0.0475, 0.0675))


def letters_of(text):
    return [Segment(label, float(place), place + 1.0) for place, label in enumerate(text.split())]


LEXICON = Lexicon({"ab": [("a", "b")], "a": [("a",), ("a", "b")], "b": [("b",)], "bc": [("b", "c")]})


@pytest.mark.parametrize(
    ("phones", "tokens", "spans"),
    [
        ("SIL a b SIL", "ab", [(1, 3)]),
        ("a SIL b c", "a bc", [(0, 1), (2, 4)]),
        ("a b b c", "a bc", [(0, 2), (2, 4)]),  # the longer pronunciation of a
        ("a b c", "a bc", [(0, 1), (1, 3)]),
        ("SIL a SIL a SIL", "a a", [(1, 2), (3, 4)]),
    ],
)
def test_words_cover_their_phones(phones, tokens, spans):
    found = word_segments(letters_of(phones), tokens.split(), LEXICON, silence=["SIL"])
    assert [(one.start, one.end) for one in found] == spans
    assert [one.label for one in found] == tokens.split()


def test_phones_that_spell_something_else_are_an_error():
    with pytest.raises(ValueError, match="do not spell 'bc'"):
        word_segments(letters_of("a b"), ["bc"], LEXICON, silence=["SIL"])


KNOWN = [Segment("a", 0.0, 0.1), Segment("b", 0.1, 0.2), Segment("c", 0.2, 0.3)]


def test_the_same_agrees_in_all():
    agreement = compare_segments(KNOWN, KNOWN)
    assert (agreement.boundaries, agreement.boundaries_within) == (2, 1.0)
    assert (agreement.frames, agreement.frames_right) == (30, 1.0)


@pytest.mark.parametrize(("late", "within"), [(0.02, 1.0), (0.021, 0.5), (-0.02, 1.0), (-0.03, 0.5)])
def test_a_boundary_counts_up_to_the_tolerance(late, within):
    found = [KNOWN[0], Segment("b", 0.1 + late, 0.2), KNOWN[2]]
    assert compare_segments(KNOWN, found, tolerance=0.02).boundaries_within == within


def test_other_phones_are_matched_by_their_labels():
    found = [KNOWN[0], Segment("x", 0.1, 0.15), Segment("b", 0.15, 0.2), KNOWN[2]]
    agreement = compare_segments(KNOWN, found)
    assert (agreement.boundaries, agreement.found_boundaries) == (2, 1)
    assert agreement.right_frames == 25
    left_out = compare_segments(KNOWN, [KNOWN[0], Segment("c", 0.1, 0.3)])
    assert (left_out.boundaries, left_out.found_boundaries, left_out.right_frames) == (2, 0, 20)


def test_frames_of_another_phone_are_wrong():
    aligned = [Segment("a", 0.0, 0.1), Segment("B", 0.1, 0.2), Segment("c", 0.2, 0.3)]
    assert compare_segments(KNOWN, aligned).frames_right == pytest.approx(2 / 3)


def test_agreement_adds_up():
    total = compare_all([(KNOWN, KNOWN), (KNOWN, [KNOWN[0], Segment("b", 0.15, 0.2), KNOWN[2]])])
    assert (total.boundaries, total.found_boundaries) == (4, 3)


def test_a_broken_ctm_line_is_named(tmp_path):
    path = tmp_path / "words.ctm"
    path.write_text("u1 1 0.0 0.5 yes\nu1 1 half 0.5 no\n")
    with pytest.raises(ValueError, match=r"words\.ctm, line 2"):
        read_ctm(path)


def test_pronunciations_are_counted_by_word() -> None:
    lexicon = Lexicon({"a": [("ah",), ("ey",)], "b": [("b", "iy")]})
    sounds = [["SIL", "ey", "b", "iy"], ["ah", "SIL", "ey", "ey"]]
    phones = [[Segment(label, k, k + 1) for k, label in enumerate(row)] for row in sounds]
    counts = count_pronunciations(phones, [["a", "b"], ["a", "a", "a"]], lexicon, silence=["SIL"])
    assert counts == {("a", ("ey",)): 3, ("a", ("ah",)): 1, ("b", ("b", "iy")): 1}
