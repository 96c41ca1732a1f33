"""The lexicon: reading, writing, what is missing, what is ambiguous."""

from __future__ import annotations

import pytest

from bochner.speech.lexicon import Lexicon, disambiguated, read_lexicon, write_lexicon

SOUNDS = {"a": [("x",)], "b": [("x",)], "c": [("x", "y"), ("z",)], "d": [("x", "y", "z")], "e": [("x",), ("y",)]}


def test_round_trip(tmp_path):
    lexicon = Lexicon(SOUNDS)
    write_lexicon(tmp_path / "lexicon.txt", lexicon)
    assert (tmp_path / "lexicon.txt").read_text().splitlines()[2] == "c x y"
    assert read_lexicon(tmp_path / "lexicon.txt") == lexicon


def test_phones_begin_with_silence():
    assert Lexicon({"a": [("b", "SIL", "a")]}).phones == ("SIL", "a", "b")
    assert Lexicon({"a": [("b", "SIL", "a")]}, silence=None).phones == ("SIL", "a", "b")
    assert Lexicon({"a": [("b",)]}, silence="pau").phones == ("pau", "b")


def test_words_are_sorted_and_pronunciations_unique():
    lexicon = Lexicon({"b": [("x",), ("x",)], "a": [["y", "x"]]})
    assert lexicon.words == ("a", "b")
    assert lexicon["b"] == (("x",),)
    assert "a" in lexicon
    assert len(lexicon) == 2


def test_no_marked_pronunciation_begins_or_equals_another():
    pairs, num_marks = disambiguated(Lexicon(SOUNDS))
    assert num_marks == 3  # a, b, e
    marked = [phones for _, phones in pairs]
    for i, one in enumerate(marked):
        for j, other in enumerate(marked):
            assert i == j or one != other[: len(one)], (one, other)
    assert dict(pairs)["d"] == ("x", "y", "z")  # no mark where none is needed


def test_missing_words_are_named_together():
    with pytest.raises(ValueError, match="2 words are not in the lexicon: u, v"):
        Lexicon(SOUNDS).require(["a", "v", "u", "v"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a x\nb\n", "lexicon.txt, line 2: the word 'b' must have at least one pronunciation"),
        (b"a x\n\n<eps> y\n", "line 3: '<eps>' is reserved"),
        (b"a #1\n", "line 1: '#1' is reserved"),
        (b"a x\n\xff y\n", "line 2: .*decode"),
        (b"\n \n", "holds no word"),
    ],
)
def test_broken_lines_are_named(tmp_path, content, message):
    (tmp_path / "lexicon.txt").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_lexicon(tmp_path / "lexicon.txt")


@pytest.mark.parametrize("entries", [{}, {"a": []}, {"a": [()]}, {"a b": [("x",)]}, {"a": [("x y",)]}, {"": [("x",)]}])
def test_wrong_entries(entries):
    with pytest.raises(ValueError, match="must"):
        Lexicon(entries)
