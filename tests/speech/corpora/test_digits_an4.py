"""AN4, yesno and spoken digits: artificial files, and the corpora themselves if available."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from bochner.speech.corpora.an4 import prepare_an4, read_sphinx_cepstra
from bochner.speech.corpora.digits import prepare_digits, prepare_yesno
from bochner.speech.lexicon import read_lexicon
from tests.speech.made import tone, write_wav


def mfc(path, frames):
    path.parent.mkdir(parents=True, exist_ok=True)
    content = np.asarray(frames, dtype=">f4").tobytes()
    path.write_bytes((len(content) // 4).to_bytes(4, "big") + content)


@pytest.fixture
def an4(tmp_path):
    folder = tmp_path / "an4"
    for part, speakers in (("train", [f"s{k}" for k in range(6)]), ("test", ["t0"])):
        names = [f"an4_{part}/{speaker}/u-{speaker}-b" for speaker in speakers]
        for name in names:
            mfc(folder / "feat" / f"{name}.mfc", np.full((20, 13), len(name)))
        (folder / "etc").mkdir(exist_ok=True)
        (folder / "etc" / f"an4_{part}.fileids").write_text("".join(f"{name}\n" for name in names))
        texts = "".join(f"YES ZERO (u-{speaker}-b)\n" for speaker in speakers)
        (folder / "etc" / f"an4_{part}.transcription").write_text(texts)
    (folder / "etc" / "an4.dic").write_text("YES  Y EH S\nZERO  Z IH R OW\nZERO(2)  Z IY R OW\n")
    return folder


def test_an4_keeps_frames_text_and_dictionary(an4, tmp_path):
    made = prepare_an4(an4, tmp_path / "corpus", heldout=1 / 6, dev=1 / 6)
    assert Counter(utterance.part for utterance in made.utterances) == {"train": 4, "heldout": 1, "dev": 1, "test": 1}
    utterance = made.utterances[0]
    assert (utterance.text, utterance.duration, utterance.audio) == ("YES ZERO", pytest.approx(0.2), None)
    frames = np.load(tmp_path / "corpus" / utterance.frames)
    assert frames.dtype == np.float32
    assert (frames == len("an4_train/s0/u-s0-b")).all()
    lexicon = read_lexicon(tmp_path / "corpus" / "lexicon.txt")
    assert lexicon["ZERO"] == (("Z", "IH", "R", "OW"), ("Z", "IY", "R", "OW"))


def test_an4_reports_broken_cepstra(an4, tmp_path):
    file = an4 / "feat" / "an4_train" / "s0" / "u-s0-b.mfc"
    file.write_bytes(file.read_bytes()[:-3])
    mfc(an4 / "feat" / "an4_train" / "s1" / "u-s1-b.mfc", np.full((20, 13), np.nan))
    mfc(an4 / "feat" / "an4_train" / "s2" / "u-s2-b.mfc", np.zeros((0, 13)))
    (an4 / "feat" / "an4_train" / "s3" / "u-s3-b.mfc").unlink()
    made = prepare_an4(an4, tmp_path / "corpus", heldout=0, dev=0)
    starts = ["broken cepstra", "NaN or infinite frames", "no frames", "[Errno 2]"]
    assert [one.reason.startswith(start) for one, start in zip(made.skipped, starts, strict=True)] == [True] * 4


def test_an4_transcripts_must_match_their_files(an4, tmp_path):
    (an4 / "etc" / "an4_test.transcription").write_text("YES (u-other-b)\n")
    with pytest.raises(ValueError, match=r"an4_test.transcription, line 1: expected words and \(u-t0-b\)"):
        prepare_an4(an4, tmp_path / "corpus")


def test_an4_mistakes_are_named(an4, tmp_path):
    with pytest.raises(ValueError, match=r"etc/an4_train\.fileids, got .*an4/feat"):
        prepare_an4(an4 / "feat", tmp_path / "corpus")
    (an4 / "etc" / "an4.dic").write_text("YES  Y EH S\n\nZERO  Z IH R OW\n")  # an empty line is skipped
    assert prepare_an4(tmp_path, tmp_path / "corpus").utterances  # the directory above is accepted
    assert set(read_lexicon(tmp_path / "corpus" / "lexicon.txt").words) == {"YES", "ZERO"}
    (an4 / "etc" / "an4_train.transcription").write_text("YES (u-s0-b)\n")
    with pytest.raises(ValueError, match=r"an4_train\.transcription must have a line for each of 6 files, got 1"):
        prepare_an4(an4, tmp_path / "other")


@pytest.mark.parametrize(("prepare", "example"), [(prepare_digits, "7_jackson_32"), (prepare_yesno, "0_1_1_0_1_0_0_1")])
def test_recordings_of_other_names_are_refused(prepare, example, tmp_path):
    with pytest.raises(ValueError, match=rf"named like {example}\.wav, got none under"):
        prepare(tmp_path, tmp_path / "corpus")


def test_yesno_reads_the_names(tmp_path):
    for k in range(20):
        write_wav(tmp_path / "w" / f"{'_'.join(f'{k:08b}')}.wav", tone(rate=8000), rate=8000)
    write_wav(tmp_path / "w" / "1_1.wav", tone()[:0])
    made = prepare_yesno(tmp_path / "w", tmp_path / "corpus")
    texts = {utterance.id: utterance.text for utterance in made.utterances}
    assert texts["0_0_0_0_0_1_1_0"] == "NO NO NO NO NO YES YES NO"
    assert {utterance.part for utterance in made.utterances} == {"train", "heldout", "dev", "test"}
    assert [(one.id, one.reason) for one in made.skipped] == [("1_1", "no samples")]


def test_digits_are_split_by_speaker(tmp_path):
    for speaker in ("ann", "bob", "cy", "dee", "eve_lyn", "flo"):
        for digit in (0, 7):
            write_wav(tmp_path / "w" / f"{digit}_{speaker}_3.wav", tone(rate=8000), rate=8000)
    made = prepare_digits(tmp_path / "w", tmp_path / "corpus")
    assert Counter(utterance.part for utterance in made.utterances) == {"train": 6, "heldout": 2, "dev": 2, "test": 2}
    utterance = next(utterance for utterance in made.utterances if utterance.id == "eve_lyn-7-03")
    assert (utterance.text, utterance.speaker) == ("seven", "eve_lyn")


def test_the_corpora_themselves(shared_data, tmp_path):
    an4 = prepare_an4(shared_data("an4_cepstra.zip"), tmp_path / "an4", heldout=0, dev=0)
    assert Counter(utterance.part for utterance in an4.utterances) == {"train": 948, "test": 130}
    assert len({utterance.speaker for utterance in an4.utterances}) == 84
    read_lexicon(tmp_path / "an4" / "lexicon.txt").require(
        token for utterance in an4.utterances for token in utterance.tokens
    )
    frames = sum(round(utterance.duration / utterance.frame_shift) for utterance in an4.utterances)
    assert frames == 289252
    assert read_sphinx_cepstra(tmp_path / "an4/source/an4/feat/an4_clstk/fash/an251-fash-b.mfc").shape[1] == 13
    yesno = prepare_yesno(shared_data("yesno.zip"), tmp_path / "yesno")
    assert len(yesno.utterances) == 60
    assert all(len(utterance.tokens) == 8 for utterance in yesno.utterances)
    assert not yesno.skipped
