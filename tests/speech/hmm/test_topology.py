import pytest

from bochner.speech.hmm.model import write_topology
from bochner.speech.kaldi import kaldi_hmm_gmm


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
