"""Kaldi's files, written as Kaldi's sources write them."""

import gzip
import re
import struct

import kaldiio
import numpy as np
import pytest

from bochner.speech.hmm.contexts import update_transitions
from bochner.speech.hmm.model import monophone_hmm, read_kaldi_hmm, tree_bytes
from bochner.speech.kaldi_formats import read_kaldi_alignments


def integer(value):
    return struct.pack("<bi", 4, value)


def integers(values):
    return struct.pack(f"<bi{len(values)}i", 4, len(values), *values)


def written_model(hmm, *, kind):
    topology = hmm.transitions.topo
    entries = {}
    for phone in topology.phones:
        entries.setdefault(len(topology.topology_for_phone(phone)), []).append(phone)
    entry_of = [-1] * (len(hmm.phones) + 1)
    content = b"<Topology> " + integers(topology.phones)
    states = b""
    for number, phones in enumerate(entries.values()):
        shape = topology.topology_for_phone(phones[0])
        states += integer(len(shape))
        for state in shape:
            states += integer(state.forward_pdf_class) + integer(len(state.transitions))
            states += b"".join(
                integer(to) + struct.pack("<bf", 4, probability) for to, probability in state.transitions
            )
        for phone in phones:
            entry_of[phone] = number
    content += integers(entry_of) + integer(len(entries)) + states + b"</Topology> "
    tuples = [one.__getstate__() for one in hmm.transitions.tuples]
    width = {"Triples": 3, "Tuples": 4}[kind]
    content += f"<{kind}> ".encode() + integer(len(tuples))
    content += b"".join(integer(value) for row in tuples for value in row[:width]) + f"</{kind}> ".encode()
    log_probabilities = np.array(hmm.transitions.log_probs, "<f4")
    content += b"<LogProbs> FV " + integer(len(log_probabilities)) + log_probabilities.tobytes() + b"</LogProbs> "
    return b"\0B<TransitionModel> " + content + b"</TransitionModel> <DIMENSION> and so on"


@pytest.fixture(params=["Triples", "Tuples"])
def experiment(request, tmp_path):
    hmm = monophone_hmm(phones=["SIL", "a", "b"], silence=["SIL"], num_silence_states=5)
    hmm = update_transitions(hmm, np.arange(hmm.num_transition_ids + 1.0) * 5)
    (tmp_path / "tree").write_bytes(b"\0B" + tree_bytes(hmm.tree))
    (tmp_path / "phones.txt").write_text("<eps> 0\nSIL 1\na 2\nb 3\n#0 4\n#1 5\n")
    (tmp_path / "final.mdl").write_bytes(written_model(hmm, kind=request.param))
    return tmp_path, hmm


def test_a_model_is_read(experiment):
    folder, hmm = experiment
    found = read_kaldi_hmm(folder)
    assert (found.phones, found.silence, found.num_pdfs) == (hmm.phones, ("SIL",), hmm.num_pdfs)
    np.testing.assert_array_equal(found.table.pdf, hmm.table.pdf)
    np.testing.assert_allclose(found.transitions.log_probs, hmm.transitions.log_probs, rtol=1e-6)


def test_alignments_become_pdfs(experiment):
    folder, hmm = experiment
    paths = {"u1": np.array([2, 1, 1, 4], np.int32), "u2": np.array([6, 5], np.int32)}
    for number, (name, ids) in enumerate(paths.items(), start=1):
        kaldiio.save_ark(str(folder / "plain.ark"), {name: ids})
        with gzip.open(folder / f"ali.{number}.gz", "wb") as file:
            file.write((folder / "plain.ark").read_bytes())
    found = dict(read_kaldi_alignments(folder))
    assert list(found) == ["u1", "u2"]
    for name, ids in paths.items():
        np.testing.assert_array_equal(found[name], ids)
        np.testing.assert_array_equal(read_kaldi_hmm(folder).table.pdf[found[name]], hmm.table.pdf[ids])


def test_a_tree_of_another_model_is_noticed(experiment):
    folder, _ = experiment
    other = monophone_hmm(phones=["SIL", "a", "b"], silence=["SIL"], num_silence_states=5, num_states=3)
    swapped = tree_bytes(other.tree).replace(b"CE \x04\x07\x00", b"CE \x04\x06\x00")
    (folder / "tree").write_bytes(swapped)
    with pytest.raises(ValueError, match="does not belong to"):
        read_kaldi_hmm(folder)


@pytest.mark.parametrize("broken", [b"<TransitionModel> text", b"\0B<Nnet3> ", b"\0B<TransitionModel> <Topology> \x04"])
def test_broken_models_are_named(experiment, broken):
    folder, _ = experiment
    (folder / "final.mdl").write_bytes(broken)
    with pytest.raises(ValueError, match="must hold a binary tree and final"):
        read_kaldi_hmm(folder)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (rb"<T(rip|up)les> ", b"<Quads> ", "expected <Triples> or <Tuples>, got <Quads>"),
        (rb"\x04\x02\0\0\0(?=\x04[\x05\x06])", integer(-1), r"self-loops have pdfs of their own \(chain models\)"),
    ],
)
def test_models_of_another_kind_are_named(experiment, old, new, message):
    folder, _ = experiment
    content, count = re.subn(old, new, (folder / "final.mdl").read_bytes(), count=1, flags=re.DOTALL)
    assert count == 1
    (folder / "final.mdl").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_kaldi_hmm(folder)


def test_phones_are_numbered_without_gaps(experiment):
    folder, _ = experiment
    (folder / "phones.txt").write_text("<eps> 0\nSIL 1\na 2\nb 4\n")
    with pytest.raises(ValueError, match=r"phones\.txt must number its phones from 1 without gaps, got \[1, 2, 4\]"):
        read_kaldi_hmm(folder)


def test_no_alignments_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="must hold alignments"):
        list(read_kaldi_alignments(tmp_path))


def test_a_broken_archive_is_named(tmp_path):
    (tmp_path / "ali.1.gz").write_bytes(b"not gzip")
    with pytest.raises(ValueError, match=r"ali\.1\.gz cannot be read"):
        list(read_kaldi_alignments(tmp_path))
