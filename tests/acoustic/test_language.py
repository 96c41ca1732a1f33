"""Replacing the language model of a saved acoustic model, and adding words to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("kaldi_hmm_gmm")

from bochner.acoustic.language import read_language_model, with_language, with_words
from bochner.speech.lm import estimate, uniform, write_arpa
from tests.acoustic.test_model import aligned, model

TEXTS = ["a b", "b a a", "a"]


def test_new_words_share_the_probability_of_unknown_ones() -> None:
    grammar = estimate(TEXTS, order=2, fallback_discounts=(0.5, 1.0, 1.5))
    wider = with_words(grammar, ["c", "a", "d"])
    words = [word for word in wider.words if word != "<s>"]
    assert sum(10 ** wider.log_prob(word, ["a"]) for word in words) == pytest.approx(1.0)
    assert wider.log_prob("c") == wider.log_prob("d") == wider.log_prob("<unk>")
    assert wider.log_prob("a", ["b"]) == grammar.log_prob("a", ["b"])
    with pytest.raises(ValueError, match="has no <unk>"):
        with_words(uniform(["a"]), ["b"])


def test_a_language_model_is_an_arpa_file_or_a_text(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.txt").write_text("a b\n\nb zounds\n")
    from_text = read_language_model(tmp_path / "a.txt", words=["a", "b"])
    assert from_text.order == 3
    assert "1 words of" in caplog.text
    write_arpa(tmp_path / "a.arpa.gz", from_text)
    assert read_language_model(tmp_path / "a.arpa.gz", words=[]).num_grams == from_text.num_grams
    with pytest.raises(ValueError, match="lm must be an ARPA file or a text"):
        read_language_model(tmp_path / "none", words=[])
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(ValueError, match=r"empty\.txt"):
        read_language_model(tmp_path / "empty.txt", words=["a"])


def test_the_words_of_a_language_model_are_those_that_are_recognised(tmp_path: Path) -> None:
    utterance = next(u for u in aligned().corpus.part("train") if len(u.tokens) > 2)
    write_arpa(tmp_path / "lm.arpa", estimate([utterance.text] * 3, order=2, fallback_discounts=(0.5, 1.0, 1.5)))
    other = with_language(model("kernel"), lm=tmp_path / "lm.arpa")
    audio = aligned().corpus.directory / str(utterance.audio)
    assert set(other.transcribe(audio).text.split()) <= set(utterance.tokens)


def test_a_word_of_an_own_lexicon_can_be_recognised(tmp_path: Path) -> None:
    word, phones = next(iter(model("kernel").lexicon.pairs()))
    (tmp_path / "words.txt").write_text(f"zounds {' '.join(phones)}\n")
    other = with_language(model("kernel"), lexicon=tmp_path / "words.txt")
    assert {"zounds", word} <= set(other.graph.words)
    (tmp_path / "words.txt").write_text("zounds zz qq\n")
    with pytest.raises(ValueError, match="must be known to the model"):
        with_language(model("kernel"), lexicon=tmp_path / "words.txt")
    assert np.isfinite(other.grammar.log_prob("zounds"))


def test_case_and_stress_marks_of_an_own_lexicon_do_not_matter(tmp_path: Path) -> None:
    phones = next(phones for _, phones in model("kernel").lexicon.pairs())
    other_case = [
        phone.swapcase() if phone.swapcase() not in model("kernel").hmm.phone_ids else phone for phone in phones
    ]
    (tmp_path / "words.txt").write_text(f"zounds {' '.join(f'{phone}1' for phone in other_case)}\n")
    assert with_language(model("kernel"), lexicon=tmp_path / "words.txt").lexicon["zounds"] == (phones,)
