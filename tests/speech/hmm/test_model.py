from __future__ import annotations

import pickle

import numpy as np
import pytest

from bochner.speech.hmm.contexts import count_transitions, transition_weights, update_transitions
from bochner.speech.hmm.model import Hmm, make_hmm, monophone_hmm, tree_bytes, tree_from_bytes, write_topology
from bochner.speech.kaldi import kaldi_hmm_gmm


@pytest.fixture
def hmm() -> Hmm:
    return monophone_hmm(phones=["SIL", "a", "b"], silence=["SIL"])


def test_timits_49_phones_have_147_states():
    phones = ["sil", *[f"p{number}" for number in range(48)]]
    assert monophone_hmm(phones=phones, silence=["sil"]).num_pdfs == 147


def test_the_table_says_what_kaldi_says(hmm):
    ids = range(1, hmm.num_transition_ids + 1)
    assert hmm.table.pdf[1:].tolist() == [hmm.transitions.transition_id_to_pdf(number) for number in ids]
    assert hmm.table.phone[1:].tolist() == [hmm.transitions.transition_id_to_phone(number) for number in ids]
    assert hmm.table.self_loop[1:].tolist() == [hmm.transitions.is_self_loop(number) for number in ids]
    assert hmm.states_of.tolist() == [0, 3, 3, 3]


def test_transitions_become_shares_of_counts(hmm):
    counts = np.full(hmm.num_transition_ids + 1, 1.0)
    counts[1:3] = 30.0, 10.0  # the first state: stay, leave
    learned = update_transitions(hmm, counts)
    probabilities = np.exp(learned.transitions.log_probs)
    np.testing.assert_allclose(probabilities[1:3], [0.75, 0.25], atol=1e-6)
    np.testing.assert_allclose(probabilities[3:5], np.exp(hmm.transitions.log_probs)[3:5])  # seen twice only


def test_updating_leaves_the_first_model_alone(hmm):
    before = list(hmm.transitions.log_probs)
    update_transitions(hmm, np.arange(hmm.num_transition_ids + 1.0) * 10)
    assert hmm.transitions.log_probs == before


def test_weights_scale_staying_and_going_apart():
    hmm = monophone_hmm(phones=["SIL", "a"], silence=["SIL"], num_silence_states=5)
    log_p = np.array(hmm.transitions.log_probs)
    np.testing.assert_allclose(transition_weights(hmm, self_loop_scale=1.0), log_p, atol=1e-6)
    weights = transition_weights(hmm, transition_scale=2.0, self_loop_scale=0.1)
    for number in range(1, hmm.num_transition_ids + 1):
        leaving = hmm.transitions.non_self_loop_log_probs[hmm.transitions.id2state[number]]
        if hmm.transitions.is_self_loop(number):
            expected = 0.1 * log_p[number]
        else:
            expected = 0.1 * leaving + 2.0 * (log_p[number] - leaving)
        assert weights[number] == pytest.approx(expected, abs=1e-6)


def test_counts(hmm):
    assert count_transitions(hmm, np.array([2, 1, 2]))[:3].tolist() == [0, 1, 2]


def test_saved_and_loaded(hmm, tmp_path):
    learned = update_transitions(hmm, np.arange(hmm.num_transition_ids + 1.0) * 10)
    learned.save(tmp_path)
    loaded = Hmm.load(tmp_path)
    assert (loaded.phones, loaded.silence) == (hmm.phones, hmm.silence)
    assert tree_bytes(loaded.tree) == tree_bytes(hmm.tree)
    np.testing.assert_allclose(loaded.transitions.log_probs, learned.transitions.log_probs, rtol=1e-6)
    np.testing.assert_allclose(
        loaded.transitions.non_self_loop_log_probs, learned.transitions.non_self_loop_log_probs, atol=1e-6
    )
    assert (tmp_path / "phones.txt").read_text().splitlines() == ["<eps> 0", "SIL 1", "a 2", "b 3"]


def test_it_can_be_sent_to_another_process(hmm):
    again = pickle.loads(pickle.dumps(hmm))
    assert again.transitions.log_probs == hmm.transitions.log_probs


def test_missing_files_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"phones\.txt is missing"):
        Hmm.load(tmp_path)


def test_what_is_no_tree_is_named():
    with pytest.raises(ValueError, match=r"must be in Kaldi's binary format, got content that begins b'nonsense'"):
        tree_from_bytes(b"nonsense")


def test_silence_must_be_a_phone():
    with pytest.raises(ValueError, match=r"contain silence \['SIL'\]"):
        monophone_hmm(phones=["a"], silence=["SIL"])


def test_wrong_number_of_probabilities_is_named(hmm):
    with pytest.raises(ValueError, match=r"log_probabilities must be \[19\], got \[2\]"):
        hmm.with_log_probabilities(np.zeros(2))


def test_make_hmm_starts_from_the_topology(hmm):
    again = make_hmm(phones=hmm.phones, silence=hmm.silence, topology=hmm.topology, tree=hmm.tree)
    np.testing.assert_allclose(np.exp(again.transitions.log_probs[1:3]), [0.5, 0.5], atol=1e-6)  # silence moves freely


def parsed(**settings):
    topology = kaldi_hmm_gmm.HmmTopology()
    topology.read(write_topology(**settings))
    topology.check()
    return topology


def test_phones_pass_through_all_their_states():
    topology = parsed(num_phones=4, silence=[1])
    assert topology.phones == [1, 2, 3, 4]
    assert [topology.min_length(phone) for phone in topology.phones] == [3, 3, 3, 3]
    assert topology.get_phone_to_num_pdf_classes() == [-1, 3, 3, 3, 3]


@pytest.mark.parametrize(("num_states", "shortest"), [(1, 1), (2, 2), (3, 3), (5, 3)])
def test_silence_of_five_states_moves_freely_in_its_middle(num_states, shortest):
    topology = parsed(num_phones=2, silence=[2], num_silence_states=num_states)
    assert topology.min_length(2) == shortest
    assert topology.num_pdf_classes(2) == num_states


def test_only_silence():
    assert parsed(num_phones=1, silence=[1]).phones == [1]


def test_unknown_silence_is_named():
    with pytest.raises(ValueError, match=r"silence must be among the phones 1\.\.3, got \[7\]"):
        write_topology(num_phones=3, silence=[7])
