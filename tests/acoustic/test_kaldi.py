"""Reading and writing of Kaldi's files; the test files are written by kaldiio and by hand."""

import gzip

import kaldiio
import numpy as np
import pytest
import torch

from bochner.acoustic.kaldi import KaldiFrames, read_kaldi_model, train_on_kaldi, write_archive, write_likelihoods
from bochner.acoustic.settings import KernelSettings
from bochner.speech.decode import log_priors
from bochner.speech.hmm import monophone_hmm
from bochner.speech.hmm.model import tree_bytes
from bochner.speech.kaldi_formats import read_matrix
from tests.speech.hmm.test_kaldi_exchange import written_model

SPEAKERS = [f"s{number}" for number in range(10)]
SMALL = KernelSettings(num_features=64, bandwidth=2.0, batch_size=32, max_epochs=3)


def utterance(generator, hmm):
    """Transition ids of some phones, and frames near the means of their states."""
    ids = []
    for phone in generator.choice(len(hmm.phones), size=6) + 1:
        for state in range(3):
            here = np.flatnonzero((hmm.table.phone == phone) & (hmm.table.state == state))
            leaving, loop = here[~hmm.table.self_loop[here]][0], here[hmm.table.self_loop[here]][0]
            ids += [leaving, *[loop] * generator.integers(1, 4)]
    places = np.random.default_rng(7).standard_normal((hmm.num_pdfs, 4))
    pdfs = hmm.table.pdf[ids]
    return np.array(ids, np.int32), places[pdfs] + 0.1 * generator.standard_normal((len(ids), 4))


@pytest.fixture
def kaldi(tmp_path):
    """data/ with feats.scp, utt2spk and cmvn.scp, and exp/ with an alignment; each speaker has a shift and a scale."""
    hmm, generator = monophone_hmm(phones=["SIL", "a", "b"], silence=["SIL"]), np.random.default_rng(0)
    data, exp = tmp_path / "data", tmp_path / "exp"
    data.mkdir()
    exp.mkdir()
    frames, paths, sums, speakers = {}, {}, {}, {}
    for number in range(30):
        speaker = SPEAKERS[number % len(SPEAKERS)]
        name = f"{speaker}-{number:02d}"
        speakers[name] = speaker
        paths[name], clean = utterance(generator, hmm)
        frames[name] = (3.0 + SPEAKERS.index(speaker) + (1 + SPEAKERS.index(speaker)) * clean).astype(np.float32)
        here = np.zeros((2, 5))
        here[0, :-1], here[1, :-1], here[0, -1] = (
            frames[name].sum(0),
            (frames[name].astype(float) ** 2).sum(0),
            len(clean),
        )
        sums[speaker] = sums.get(speaker, 0) + here
    kaldiio.save_ark(str(data / "feats.ark"), frames, scp=str(data / "feats.scp"))
    kaldiio.save_ark(str(data / "cmvn.ark"), sums, scp=str(data / "cmvn.scp"))
    (data / "utt2spk").write_text("".join(f"{name} {speaker}\n" for name, speaker in speakers.items()))
    lines = "".join(f"{name} {' '.join(map(str, path))}\n" for name, path in list(paths.items())[:-1])
    (exp / "ali.1.gz").write_bytes(gzip.compress(lines.encode()))
    (exp / "tree").write_bytes(b"\0B" + tree_bytes(hmm.tree))
    (exp / "phones.txt").write_text("<eps> 0\nSIL 1\na 2\nb 3\n")
    (exp / "final.mdl").write_bytes(written_model(hmm, kind="Tuples"))
    return tmp_path, hmm, frames, paths


def test_frames_are_normalised_as_apply_cmvn_does(kaldi):
    folder, _, frames, _ = kaldi
    read = KaldiFrames(folder / "data")
    assert list(read) == list(frames)
    of_speaker = np.concatenate([read[name] for name in read if read.speaker_of[name] == "s3"])
    np.testing.assert_allclose(of_speaker.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(of_speaker.std(0), 1, atol=1e-4)
    (folder / "data" / "cmvn.scp").unlink()
    np.testing.assert_array_equal(KaldiFrames(folder / "data")["s3-03"], frames["s3-03"])


def test_a_model_learns_the_pdfs_and_gives_archives_that_kaldi_reads(kaldi, caplog):
    folder, hmm, _, paths = kaldi
    places = {"data": folder / "data", "alignments": folder / "exp", "output_dir": folder / "model"}
    with caplog.at_level("INFO", "bochner.acoustic.kaldi"):
        model = train_on_kaldi(SMALL, **places, context=1)
    assert "29 of 30 utterances are aligned, with 9 pdfs" in caplog.text
    frames = KaldiFrames(folder / "data")
    ark = write_likelihoods(model, frames, folder / "out" / "likes")
    read = dict(kaldiio.load_ark(str(ark)))
    assert list(read) == list(frames)
    unaligned = list(frames)[-1]
    likes, pdfs = read[unaligned], hmm.table.pdf[paths[unaligned]]
    assert likes.shape == (len(pdfs), hmm.num_pdfs)
    assert np.mean(likes.argmax(1) == pdfs) > 0.9
    place = dict(line.split() for line in ark.with_suffix(".scp").read_text().splitlines())[unaligned]
    np.testing.assert_array_equal(read_matrix(place), likes)


def test_likelihoods_are_posteriors_over_priors_of_the_train_part(kaldi):
    folder, hmm, _, paths = kaldi
    places = {"data": folder / "data", "alignments": folder / "exp", "output_dir": folder / "model"}
    model = train_on_kaldi(SMALL, **places, context=1, heldout=0.2, seed=1)
    frames = KaldiFrames(folder / "data")
    scores = model(torch.from_numpy(frames["s0-00"]))
    total = (scores + model.log_priors).logsumexp(dim=1)
    torch.testing.assert_close(total, torch.zeros_like(total), atol=1e-5, rtol=0)
    aligned = list(paths)[:-1]
    every = log_priors(np.concatenate([hmm.table.pdf[paths[name]] for name in aligned]), num_pdfs=9)
    assert np.abs(model.log_priors.numpy() - every).max() > 1e-3  # heldout speakers are not counted
    again = train_on_kaldi(SMALL, **places, context=1, heldout=0.2, seed=1)
    torch.testing.assert_close(again(torch.from_numpy(frames["s0-00"])), scores, rtol=0, atol=0)


def test_archives_are_written_atomically(tmp_path):
    def broken():
        yield "a", np.zeros((1, 2))
        raise RuntimeError("out of frames")

    with pytest.raises(RuntimeError, match="out of frames"):
        write_archive(tmp_path / "likes", broken())
    assert list(tmp_path.iterdir()) == []


def test_errors_name_what_is_missing(kaldi):
    folder, *_ = kaldi
    (folder / "exp" / "ali.1.gz").write_bytes(gzip.compress(b"someone-else 1 2 2\n"))
    with pytest.raises(ValueError, match="alignments must be those of utterances in"):
        train_on_kaldi(SMALL, data=folder / "data", alignments=folder / "exp", output_dir=folder / "model")
    with pytest.raises(FileNotFoundError):
        read_kaldi_model(folder)
    (folder / "data" / "cmvn.scp").write_text("s0 nowhere.ark:3\n")
    with pytest.raises(ValueError, match=r"cmvn\.scp must contain the statistics of each speaker, got none for 's3'"):
        KaldiFrames(folder / "data")["s3-03"]
    (folder / "data" / "utt2spk").write_text("s0-00 s0\n")
    with pytest.raises(ValueError, match=r"must name the speaker of each utterance, got none for \['s1-01'"):
        KaldiFrames(folder / "data")
