"""Folding, silence and spelling; the folding against the rows of Lee and Hon's table as Kaldi has them."""

from __future__ import annotations

import pytest

from bochner.speech.score import FOLDINGS, PHONES_39, PHONES_48, PHONES_49, PHONES_61, Protocol, characters, fold

# 61, 48, 39: the 61 rows of Kaldi's egs/timit/s5/conf/phones.60-48-39.map.
TABLE = """
aa aa aa|ae ae ae|ah ah ah|ao ao aa|aw aw aw|ax ax ah|ax-h ax ah|axr er er|ay ay ay|b b b|bcl vcl sil|ch ch ch|d d d
dcl vcl sil|dh dh dh|dx dx dx|eh eh eh|el el l|em m m|en en n|eng ng ng|epi epi sil|er er er|ey ey ey|f f f|g g g
gcl vcl sil|h# sil sil|hh hh hh|hv hh hh|ih ih ih|ix ix ih|iy iy iy|jh jh jh|k k k|kcl cl sil|l l l|m m m|n n n
ng ng ng|nx n n|ow ow ow|oy oy oy|p p p|pau sil sil|pcl cl sil|q|r r r|s s s|sh sh sh|t t t|tcl cl sil|th th th
uh uh uh|uw uw uw|ux uw uw|v v v|w w w|y y y|z z z|zh zh sh
"""
ROWS = [row.split() for line in TABLE.split("\n") for row in line.split("|") if row]


def test_the_three_sets_of_phones() -> None:
    assert (len(PHONES_61), len(PHONES_48), len(PHONES_39)) == (61, 48, 39)
    assert sorted(PHONES_61) == sorted(row[0] for row in ROWS)
    assert set(PHONES_48) == {row[1] for row in ROWS if len(row) == 3}
    assert set(PHONES_39) == {row[2] for row in ROWS if len(row) == 3}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_row_of_the_table(row: list[str]) -> None:
    if row == ["q"]:
        assert fold(("q",), "61-48") == fold(("q",), "61-39") == ()
        return
    phone, modelled, scored = row
    assert fold((phone,), "61-48") == (modelled,)
    assert fold((modelled,), "48-39") == fold((phone,), "61-39") == (scored,)


def test_foldings_cover_their_phones() -> None:
    assert set(FOLDINGS["61-48"]) == set(FOLDINGS["61-39"]) == set(PHONES_61)
    assert set(FOLDINGS["48-39"]) == set(PHONES_48)


def test_neighbours_of_one_class_stay_apart() -> None:
    assert fold(("pau", "tcl", "t", "h#"), "61-39") == ("sil", "sil", "t", "sil")


def test_a_strange_phone_is_named() -> None:
    with pytest.raises(ValueError, match=r"must be among TIMIT's 48 for the folding 48-39, got \['h#', 'xx'\] besides"):
        fold(("aa", "xx", "h#"), "48-39")


def test_silence_is_scored_or_ignored() -> None:
    phones = "h# q ae tcl t pau"
    assert Protocol(unit="phones", fold="61-39").tokens(phones) == ("sil", "ae", "sil", "t", "sil")
    assert Protocol(unit="phones", fold="61-39", silence="ignored").tokens(phones) == ("ae", "t")
    own = Protocol(unit="phones", silence="ignored", silence_phones=("SIL", "NSN"))
    assert own.tokens("SIL AE NSN T sil") == ("AE", "T", "sil")
    assert own == Protocol(unit="phones", silence="ignored", silence_phones=["SIL", "NSN"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("protocol", "name"),
    [
        (Protocol(), "wer"),
        (Protocol(normalize=("no_punctuation", "lower")), "wer_lower_no_punctuation"),
        (Protocol(unit="characters", normalize=("nfkc",)), "cer_nfkc"),
        (Protocol(unit="phones"), "per_sil_scored"),
        (Protocol(unit="phones", fold="61-48", silence="ignored"), "per48_sil_ignored"),
        (Protocol(unit="phones", fold="48-39"), "per39_sil_scored"),
    ],
)
def test_the_name_carries_the_rules(protocol: Protocol, name: str) -> None:
    assert protocol.name == name


@pytest.mark.parametrize(
    ("spellings", "text", "tokens"),
    [
        ((), "Yes,  NO", ("Yes,", "NO")),
        (("lower",), "Yes, NO", ("yes,", "no")),
        (("no_punctuation",), "“Yes,” -- don't - x-ray...", ("Yes", "don't", "x-ray")),
        (("nfkc",), "\uff21\uff22 \ufb01", ("AB", "fi")),
        (("lower", "nfkc", "no_punctuation"), "\uff39es\uff01", ("yes",)),
    ],
)
def test_spellings(spellings: tuple[str, ...], text: str, tokens: tuple[str, ...]) -> None:
    assert Protocol(unit="words", normalize=spellings).tokens(text) == tokens


def test_characters_keep_their_marks() -> None:
    assert characters("你 好ab") == ("你", "好", "a", "b")
    assert characters("কিছু বলো") == ("কি", "ছু", "ব", "লো")
    assert Protocol(unit="characters").tokens("ে") == ("ে",)  # a mark with no letter before it


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unit": "letters"}, r"unit must be one of \['words', 'characters', 'phones'\]"),
        ({"unit": "phones", "fold": "39"}, "fold must be one of"),
        ({"unit": "phones", "silence": "maybe"}, "silence must be one of"),
        ({"normalize": ("upper",)}, "normalize must be one of"),
        ({"fold": "61-39"}, "fold and silence are for unit='phones'"),
        ({"unit": "characters", "silence": "ignored"}, "fold and silence are for unit='phones'"),
        ({"unit": "phones", "normalize": ("lower",)}, "normalize is for words and characters"),
    ],
)
def test_rules_that_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Protocol(**options)  # type: ignore[arg-type]


def test_49_phones_are_the_48_and_the_glottal_stop() -> None:
    assert len(PHONES_49) == 49
    assert fold(("q", "h#", "ax-h"), "61-49") == ("q", "sil", "ax")
    assert fold(("q", "sil", "ax"), "49-39") == ("sil", "ah")
    assert set(FOLDINGS["61-49"].values()) == set(PHONES_49)
