"""N-gram models and ARPA files: against oracles and KenLM."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from bochner.speech.lm import NgramModel, estimate, perplexity, read_arpa, uniform, write_arpa
from tests.speech.lm.oracles import back_off, sentence_log_prob, table

HERE = Path(__file__).parent
TEXT = ["this is the cat that ate the malt", "", "the priest worried the zebra", "jack jack jack", "rat the this"]


@pytest.mark.parametrize("name", ["jack_2", "jack_3_pruned", "jack_4"])
def test_scores_follow_the_back_off_rule(name):
    model = read_arpa(HERE / f"{name}.arpa")
    entries = table(model)
    text = model.encode(TEXT)
    for i, sentence in enumerate(TEXT):
        own = np.cumsum(text.place == 0) == i + 1
        assert model.score(text)[own].sum() == pytest.approx(sentence_log_prob(entries, sentence, model.order))


def test_log_prob_of_one_word():
    model = read_arpa(HERE / "jack_3.arpa")
    entries = table(model)
    for history in ([], ["the"], ["<s>", "this"], ["the", "rat"], ["a", "long", "way", "in", "the"]):
        known = tuple(word if word in model.ids else "<unk>" for word in history)[-2:]
        assert model.log_prob("cat", history) == pytest.approx(back_off(entries, "cat", known))


def test_perplexity_with_and_without_unknown_words():
    model = read_arpa(HERE / "jack_3.arpa")
    entries = table(model)
    result = perplexity(model, TEXT)
    assert (result.num_sentences, result.num_tokens, result.num_unknown) == (5, 8 + 5 + 3 + 3 + 5, 1)
    total = sum(sentence_log_prob(entries, sentence, 3) for sentence in TEXT)
    assert result.value == pytest.approx(10 ** (-total / 24))
    unknown = back_off(entries, "<unk>", ("worried", "the"))
    assert result.value_without_unknown == pytest.approx(10 ** (-(total - unknown) / 23))


def test_unknown_words_cost_everything_where_there_is_no_unknown_word():
    result = perplexity(uniform(["a", "b"]), ["a c"])
    assert result.value == np.inf
    assert result.value_without_unknown == pytest.approx(3.0)


def test_perplexity_of_the_text_itself_falls_with_the_order():
    rhyme = (HERE / "jack.txt").read_text().splitlines()
    values = [perplexity(estimate(rhyme, order=n, fallback_discounts=(0.5, 1, 1.5)), rhyme).value for n in (1, 2, 3)]
    assert values[0] > 2 * values[1] > 2 * values[2]


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match="at least one sentence"):
        perplexity(uniform(["a"]), [])
    with pytest.raises(ValueError, match="at least one word"):
        uniform([])
    with pytest.raises(ValueError, match="words must begin with"):
        NgramModel(["a"], uniform(["a"]).levels)


GOOD = """a header that nobody reads

\\data\\
ngram 1=4
ngram 2=3

\\1-grams:
-1.0\t</s>
-99\t<s>\t-0.5
-0.3\ta\t-0.2
-0.6\tb

\\2-grams:
-0.1\t<s> a
-0.2\ta b
-0.4\tb </s>

\\end\\
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "model.arpa"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["m.arpa", "m.arpa.gz"])
def test_round_trip(tmp_path, name):
    rhyme = (Path(__file__).parent / "jack.txt").read_text().splitlines()
    model = estimate(rhyme, order=3, fallback_discounts=(0.5, 1.0, 1.5))
    write_arpa(tmp_path / name, model)
    again = read_arpa(tmp_path / name)
    assert again.words == model.words
    found = table(again)
    assert found.keys() == table(model).keys()
    for gram, numbers in table(model).items():
        assert found[gram] == pytest.approx(numbers, abs=1e-7), gram


def test_words_in_any_order_and_no_unknown_word(tmp_path):
    model = read_arpa(written(tmp_path, GOOD))
    assert model.words == ("<unk>", "<s>", "</s>", "a", "b")
    assert model.log_prob("a", ["<s>"]) == -0.1
    assert model.log_prob("b", ["<s>"]) == pytest.approx(-0.5 - 0.6)
    assert model.log_prob("b", ["b"]) == pytest.approx(-0.6)  # no back-off written: 0
    assert model.log_prob("x", ["a"]) == -np.inf


def test_a_model_without_unknown_word_is_written_without_it(tmp_path):
    write_arpa(tmp_path / "m", uniform(["a"]))
    assert "<unk>" not in (tmp_path / "m").read_text()
    assert read_arpa(tmp_path / "m").log_prob("a") == pytest.approx(np.log10(0.5))


@pytest.mark.parametrize(
    ("change", "line", "message"),
    [
        (("-0.3\ta", "-0,3\ta"), 10, "'-0,3' is not a number"),
        (("-0.3\ta", "nan\ta"), 10, "not finite"),
        (("-0.3\ta", "-inf\ta"), 10, "not finite; write -99"),
        (("-0.3\ta", "0.3\ta"), 10, "at most 0, got 0.3"),
        (("-0.6\tb\n", "-0.6\n"), 11, "1 words"),
        (("-0.2\ta b", "-0.2\ta b -1"), 15, "2 words"),
        (("-0.2\ta b", "-0.2\ta c"), 15, "'c' is not among the unigrams"),
        (("-0.2\ta b", "-0.2\t<s> a"), 15, "'<s> a' is repeated"),
        (("ngram 2=3", "ngram 2=2"), 16, "more 2-grams than the 2"),
        (("ngram 2=3", "ngram 2=4"), 18, "3 2-grams were read, the header gives 4"),
        (("ngram 2=3", "ngram 3=3"), 5, "count of 2-grams must come next"),
        (("ngram 1=4\nngram 2=3\n", ""), 5, "must follow"),
        (("\\2-grams:", "\\3-grams:"), 13, "2-grams: must come next"),
        (("\\end\\\n", ""), 17, "ends before .end."),
        (("\\data\\", "data"), 18, "ends before .end."),
        (("\\end\\", "\\fin\\"), 18, "must follow the 2-grams"),
    ],
)
def test_broken_lines_are_named(tmp_path, change, line, message):
    broken = GOOD.replace(*change, 1)
    assert broken != GOOD
    with pytest.raises(ValueError, match=f"model.arpa, line {line}: .*{message}"):
        read_arpa(written(tmp_path, broken))


def test_a_context_must_be_there(tmp_path):
    longer = GOOD.replace("ngram 2=3", "ngram 2=3\nngram 3=1").replace("\\end", "\\3-grams:\n-0.1 b a b\n\n\\end")
    with pytest.raises(ValueError, match="line 20: the context 'b a' is not among the 2-grams"):
        read_arpa(written(tmp_path, longer))


@pytest.mark.parametrize("content", [b"", b"\\data\\\n\xff\xfe", b"\x00" * 50])
def test_no_arpa_file(tmp_path, content):
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(ValueError, match="m, line"):
        read_arpa(tmp_path / "m")


def test_a_cut_gzip_file(tmp_path):
    (tmp_path / "m.gz").write_bytes(gzip.compress(GOOD.encode())[:-12])
    with pytest.raises(ValueError, match="line"):
        read_arpa(tmp_path / "m.gz")
